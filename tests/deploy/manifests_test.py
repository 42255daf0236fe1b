#!/usr/bin/env python3
"""The manifests: what kustomize makes of every overlay is valid, agrees with itself and with the server's settings.

    manifests_test.py SOFTMAX_SERVER SOFTMAX_CLIENT [unittest arguments]
"""
import contextlib
import copy
import functools
import os
import re
import shutil
import sys
import tempfile
import unittest

from deploy_files import DEPLOY, OVERLAYS, kustomize, need, need_schemas, one, read_yaml, run, schema_problems, seconds
import memory
import parts
from running_server import RunningServer

SERVER, CLIENT = [sys.argv.pop(1) for _ in range(2)] if len(sys.argv) > 2 else (None, None)
POD_LABELS = {"app.kubernetes.io/name": "softmax-server"}
# Between the end of a drain and SIGKILL.
GRACE_MARGIN_S = 10
KUBERNETES_GRACE_S = 30
ANY_ID = 1000650000
AS_ANY_USER = ("setpriv", f"--reuid={ANY_ID}", "--regid=0", f"--groups={ANY_ID}", "--no-new-privs",
               "--bounding-set=-all")


@functools.lru_cache(maxsize=None)
def flags_of(server):
    return set(re.findall(r"(--[a-z][a-z0-9-]+)", run(server, "--help").stdout))


class ManifestsTest(unittest.TestCase):
    def each(self):
        for overlay in OVERLAYS:
            objects = kustomize(overlay)
            with self.subTest(overlay=overlay):
                yield overlay, objects

    def settings(self, container):
        """As the server reads the pod's environment; it ignores names that it does not know, so they are found here."""
        environment = memory.environment_of(container)
        for name, value in list(environment.items()):
            if name.startswith("SOFTMAX_"):
                self.assertIn("--" + name.removeprefix("SOFTMAX_").lower().replace("_", "-"), flags_of(SERVER))
            if value.startswith("/etc/softmax/tls/"):
                del environment[name]  # is only there in the pod
        if environment["SOFTMAX_BACKEND"] == "cuda":
            environment["SOFTMAX_BACKEND"] = "auto"
        return memory.settings_of(environment, SERVER)

    def test_memory_is_what_the_settings_need(self):
        for overlay, objects in self.each():
            container = memory.container_of(objects)
            settings = self.settings(container)
            size = memory.needed(settings)
            for kind in ("requests", "limits"):
                stated = memory.bytes_of(container["resources"][kind]["memory"])
                self.assertEqual(stated, size, f"{overlay}: {kind}.memory should be {memory.kubernetes_size(size)}")

    def test_grace_period_covers_the_drain(self):
        for overlay, objects in self.each():
            pod = one(objects, "Deployment")["spec"]["template"]["spec"]
            settings = self.settings(pod["containers"][0])
            drain = seconds(settings["drain-delay"]) + seconds(settings["drain-timeout"])
            self.assertEqual(pod["terminationGracePeriodSeconds"], drain + GRACE_MARGIN_S, overlay)
            self.assertNotIn("lifecycle", pod["containers"][0], "the server drains itself")
            # Endpoints learn of a pod that is not ready within one probe and its propagation.
            probe = pod["containers"][0]["readinessProbe"]
            self.assertGreaterEqual(seconds(settings["drain-delay"]), 3 * probe["periodSeconds"])

    def test_connections_come_of_age_so_that_new_pods_get_calls(self):
        for _, objects in self.each():
            settings = self.settings(memory.container_of(objects))
            age = seconds(settings["max-connection-age"])
            # Long beside the time that calls have to end, and not so long that a scale-up is without effect.
            self.assertGreaterEqual(age, 4 * seconds(settings["drain-timeout"]))
            self.assertLessEqual(age, 600)

    def test_probes_ask_the_health_service_in_clear(self):
        for _, objects in self.each():
            container = memory.container_of(objects)
            environment = memory.environment_of(container)
            ports = {p["name"]: p["containerPort"] for p in container["ports"]}
            health = environment.get("SOFTMAX_HEALTH_ADDRESS")
            # Probes of Kubernetes know neither TLS nor tokens.
            self.assertEqual(health is not None, "SOFTMAX_TLS_CERT" in environment)
            port = int(health.rsplit(":", 1)[1]) if health else ports["grpc"]
            for probe, service in (("startupProbe", "readiness"), ("readinessProbe", "readiness"),
                                   ("livenessProbe", "liveness")):
                self.assertEqual(container[probe]["grpc"], {"port": port, "service": service}, probe)
            self.assertIn(port, ports.values())

    def make_certificates(self, folder):
        key, certificate = os.path.join(folder, "tls.key"), os.path.join(folder, "tls.crt")
        made = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                   "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
        self.assertEqual(made.returncode, 0, made.stderr)
        shutil.copy(certificate, os.path.join(folder, "ca.crt"))
        # As the volume's defaultMode has it.
        for name in os.listdir(folder):
            os.chmod(os.path.join(folder, name), 0o440)

    @contextlib.contextmanager
    def mtls_pod(self, pod, owner=None, as_user=(), more=()):
        """The pod's server in a folder of its own, with its environment: the folder, its addresses for health and
        calls. `owner`: the group of its secrets."""
        environment = memory.environment_of(pod["containers"][0])
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o1777)
            certificates = os.path.join(folder, "tls")
            os.mkdir(certificates)
            self.make_certificates(certificates)
            for name in os.listdir(certificates) if owner else ():
                os.chown(os.path.join(certificates, name), 0, owner)
            environment = {name: value.replace("/etc/softmax/tls", certificates) for name, value in environment.items()}
            here = {"SOFTMAX_HEALTH_ADDRESS": "127.0.0.1:0", "SOFTMAX_LOG_FORMAT": "text"}
            server = RunningServer([*as_user, SERVER], os.path.join(folder, "log"),
                                   *(flag.format(folder) for flag in more),
                                   environment={"PATH": os.environ["PATH"], **environment, **here})
            try:
                asked = run(CLIENT, "--address", server.said("health on"), "--health", "--wait", "30s")
                self.assertEqual((asked.returncode, asked.stdout.strip()), (0, "SERVING"), asked.stderr)
                yield folder, server.address
            finally:
                server.kill()

    def test_mtls_pod_starts_answers_probes_and_refuses_strangers(self):
        need("openssl")
        pod = one(kustomize("mtls"), "Deployment")["spec"]["template"]["spec"]
        self.assertEqual(pod["volumes"][0]["secret"]["defaultMode"], 0o440)
        with self.mtls_pod(pod) as (_, address):
            self.assertNotEqual(run(CLIENT, "--address", address, "--health").returncode, 0)

    def test_mtls_pod_serves_as_any_user(self):
        """As OpenShift runs it: an id that no user database has, group 0, and secrets of the group that it sets."""
        need("openssl")
        if os.getuid() != 0 or run(*AS_ANY_USER, SERVER, "--version").returncode != 0:
            self.skipTest("another user (needs root, setpriv, and a build that others may read)")
        pod = one(kustomize("mtls", "any-user"), "Deployment")["spec"]["template"]["spec"]
        self.assertEqual(pod["securityContext"], {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}})
        with self.mtls_pod(pod, ANY_ID, AS_ANY_USER, ("--address=unix:{}/socket",)) as (folder, _):
            self.assertEqual(os.stat(os.path.join(folder, "socket")).st_uid, ANY_ID)

    def test_pod_is_locked_down(self):
        for _, objects in self.each():
            pod = one(objects, "Deployment")["spec"]["template"]["spec"]
            container = pod["containers"][0]
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertEqual(pod["securityContext"]["runAsUser"], 65532)
            self.assertFalse(pod["automountServiceAccountToken"])
            self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False,
                                                            "readOnlyRootFilesystem": True,
                                                            "capabilities": {"drop": ["ALL"]}})
            for field in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertNotIn(field, pod)
            mounted = {m["name"] for m in container.get("volumeMounts", [])}
            self.assertEqual(mounted, {v["name"] for v in pod.get("volumes", [])})
            self.assertNotIn("--unsafe-testing", " ".join(container.get("args", []) + container.get("command", [])))

    def test_selectors_take_our_pods_and_no_others(self):
        for _, objects in self.each():
            deployment = one(objects, "Deployment")
            self.assertEqual(deployment["spec"]["template"]["metadata"]["labels"], POD_LABELS)
            self.assertEqual(deployment["spec"]["selector"], {"matchLabels": POD_LABELS})
            self.assertEqual(one(objects, "Service")["spec"]["selector"], POD_LABELS)
            self.assertEqual(one(objects, "PodDisruptionBudget")["spec"]["selector"], {"matchLabels": POD_LABELS})
            policy = one(objects, "NetworkPolicy")["spec"]
            self.assertEqual(policy["podSelector"], {"matchLabels": POD_LABELS})
            self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
            self.assertEqual([p["port"] for rule in policy["ingress"] for p in rule["ports"]], ["grpc", "metrics"])
            spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
            self.assertEqual({s["topologyKey"] for s in spread},
                             {"kubernetes.io/hostname", "topology.kubernetes.io/zone"})
            for constraint in spread:
                self.assertEqual(constraint["labelSelector"], {"matchLabels": POD_LABELS})

    def test_clients_can_balance(self):
        for _, objects in self.each():
            service = one(objects, "Service")["spec"]
            self.assertEqual(service["clusterIP"], "None")
            container = memory.container_of(objects)
            named = {p["name"] for p in container["ports"]}
            self.assertLessEqual({p["targetPort"] for p in service["ports"]}, named)

    def test_gpu_overlays_ask_for_a_gpu(self):
        for overlay, objects in self.each():
            pod = one(objects, "Deployment")["spec"]["template"]["spec"]
            container = pod["containers"][0]
            environment = memory.environment_of(container)
            if overlay == "cpu":
                self.assertEqual(environment["SOFTMAX_BACKEND"], "cpu")
                self.assertNotIn("nvidia.com/gpu", container["resources"]["limits"])
                cores = int(container["resources"]["requests"]["cpu"])
                self.assertLessEqual(int(environment["SOFTMAX_CPU_THREADS"]), cores)
                continue
            # cuda, not auto: a pod that finds no GPU must fail and not serve slowly.
            self.assertEqual(environment["SOFTMAX_BACKEND"], "cuda")
            self.assertEqual(container["resources"]["limits"]["nvidia.com/gpu"], "1")
            mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
            cache = mounts[environment["CUDA_CACHE_PATH"]]
            self.assertIn("emptyDir", next(v for v in pod["volumes"] if v["name"] == cache))

    def test_autoscaler_and_adapter_name_the_same_figures(self):
        objects = kustomize("replicas")
        scaler = one(objects, "HorizontalPodAutoscaler")["spec"]
        asked = {m["pods"]["metric"]["name"] for m in scaler["metrics"]}
        given = {rule["name"]["as"] for rule in read_yaml("prometheus/adapter_rules.yaml")["rules"]}
        self.assertEqual(asked, given)
        self.assertEqual(scaler["scaleTargetRef"]["name"], one(objects, "Deployment")["metadata"]["name"])
        self.assertNotIn("replicas", one(objects, "Deployment")["spec"], "would reset what the autoscaler decided")
        self.assertGreaterEqual(scaler["minReplicas"], 3)
        for metric in scaler["metrics"]:  # 1m would be a thousandth, and reads like a minute
            self.assertRegex(metric["pods"]["target"]["averageValue"], r"^0\.[0-9]+$")

    def test_operator_gets_the_rules_and_the_port(self):
        objects = kustomize("replicas")
        self.assertEqual(one(objects, "PrometheusRule")["spec"], read_yaml("prometheus/softmax.rules.yaml"))
        monitor = one(objects, "ServiceMonitor")["spec"]
        service = one(objects, "Service")
        self.assertEqual(monitor["selector"]["matchLabels"], POD_LABELS)
        self.assertLessEqual(POD_LABELS.items(), service["metadata"]["labels"].items())
        self.assertIn(monitor["endpoints"][0]["port"], {p["name"] for p in service["spec"]["ports"]})
        self.assertEqual(monitor["jobLabel"], "app.kubernetes.io/name")

    def test_every_object_fits_the_published_schemas(self):
        need_schemas()
        for _, objects in self.each():
            self.assertEqual(schema_problems(objects), "")
            broken = copy.deepcopy(objects)
            one(broken, "Deployment")["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["grcp"] = {}
            one(broken, "Deployment")["spec"]["replicas"] = "one"
            found = schema_problems(broken)
            self.assertIn("/readinessProbe/grcp: no such field", found)
            self.assertIn("/spec/replicas: type", found)


class KServeTest(unittest.TestCase):
    """What KServe is told of the server agrees with the Deployment that is tested above."""

    def test_the_runtime_is_the_deployments_server(self):
        runtime = read_yaml("kubernetes/kserve/serving_runtime.yaml")
        service = read_yaml("kubernetes/kserve/inference_service.yaml")
        base = read_yaml("kubernetes/base/deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
        container = one_of(runtime["spec"]["containers"])
        environment, its = memory.environment_of(container), memory.environment_of(base)
        self.assertEqual({**environment, "SOFTMAX_DRAIN_TIMEOUT": None}, {**its, "SOFTMAX_DRAIN_TIMEOUT": None})
        # A runtime cannot say how long its pods have to end: it is what Kubernetes gives.
        drain = seconds(environment["SOFTMAX_DRAIN_DELAY"]) + seconds(environment["SOFTMAX_DRAIN_TIMEOUT"])
        self.assertEqual(drain + GRACE_MARGIN_S, KUBERNETES_GRACE_S)
        self.assertEqual(container["resources"], base["resources"])
        self.assertEqual(container["image"], base["image"])
        self.assertEqual(runtime["spec"]["protocolVersions"], ["grpc-v2"])
        port = one_of(container["ports"])
        self.assertEqual(port["name"], "h2c")
        self.assertEqual(f":{port['containerPort']}", memory.environment_of(container)["SOFTMAX_ADDRESS"])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(container[probe], base[probe])
        model = service["spec"]["predictor"]["model"]
        self.assertEqual(model["runtime"], runtime["metadata"]["name"])
        self.assertIn(model["modelFormat"], runtime["spec"]["supportedModelFormats"])
        self.assertIn(model["protocolVersion"], runtime["spec"]["protocolVersions"])

    def test_the_overlay_is_both(self):
        objects = kustomize("kserve")
        self.assertEqual({o["kind"] for o in objects}, {"ServingRuntime", "InferenceService"})


def one_of(values):
    (value,) = values
    return value


# Loopback with one family alone, as a pod or a host may have.
ONE_FAMILY = {
    "[::1]": "ip link set lo up && ip addr del 127.0.0.1/8 dev lo",
    "127.0.0.1": "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && ip link set lo up",
}


class FamiliesTest(unittest.TestCase):
    """IPv4 alone, IPv6 alone, or both: the server can be reached by what there is."""

    def environments(self):
        base = read_yaml("kubernetes/base/deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
        mtls = read_yaml("kubernetes/components/mtls/deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
        compose = read_yaml("compose.yaml")["services"]["softmax-server"]["environment"]
        return {"base": memory.environment_of(base), "mtls": memory.environment_of(mtls), "compose": compose}

    def test_ports_are_those_of_every_address(self):
        found = self.environments()
        for where in ("base", "compose"):
            self.assertEqual(found[where]["SOFTMAX_ADDRESS"], ":50051", where)
            self.assertEqual(found[where]["SOFTMAX_METRICS_ADDRESS"], ":9400", where)
        self.assertEqual(found["mtls"]["SOFTMAX_HEALTH_ADDRESS"], ":8081")
        for _, environment in found.items():
            self.assertFalse([v for v in environment.values() if "0.0.0.0" in v])

    def serve_in(self, prepare, host, environment):
        script = f"""{prepare} || exit 77
            "$0" & server=$!
            trap 'kill -KILL $server' EXIT
            "$1" --health --wait 30s --address {host}:50051 || exit 1
            exec 3<>/dev/tcp/{host.strip("[]")}/9400 && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3"""
        return run("unshare", "--net", "bash", "-c", script, SERVER, CLIENT,
                   env={"PATH": os.environ["PATH"], **environment, "SOFTMAX_BACKEND": "cpu",
                        "SOFTMAX_LOG_FORMAT": "text"})

    def test_the_pod_is_reached_where_there_is_one_family(self):
        need("ip")
        if os.getuid() != 0 or run("unshare", "--net", "true").returncode != 0:
            self.skipTest("network namespaces (need root and unshare)")
        for host, prepare in ONE_FAMILY.items():
            asked = self.serve_in(prepare, host, self.environments()["base"])
            if asked.returncode == 77:
                self.skipTest("network namespaces (loopback cannot be changed: " + asked.stderr + ")")
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertEqual(asked.stdout.split(), ["SERVING", "HTTP/1.1", "200", "OK"], asked.stderr)


class ComposeTest(unittest.TestCase):
    def setUp(self):
        self.services = read_yaml("compose.yaml")["services"]
        self.server = self.services["softmax-server"]

    def test_server_has_room_and_time(self):
        settings = memory.settings_of(self.server["environment"], SERVER)
        size = memory.needed(settings)
        self.assertEqual(self.server["mem_limit"], f"{size // memory.GIB}g")
        drain = seconds(settings["drain-delay"]) + seconds(settings["drain-timeout"])
        self.assertEqual(seconds(self.server["stop_grace_period"]), drain + GRACE_MARGIN_S)
        self.assertTrue(self.server["read_only"])
        self.assertEqual(self.server["cap_drop"], ["ALL"])

    def test_everything_listens_on_loopback(self):
        traces = read_yaml("compose.traces.yaml")["services"]
        for service in (*self.services.values(), traces["jaeger"]):
            for port in service["ports"]:
                self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_mounted_files_exist(self):
        for service in self.services.values():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                if source.startswith("."):
                    self.assertTrue(os.path.exists(os.path.join(DEPLOY, source)), source)

    def test_regions_file_has_room(self):
        more = read_yaml("compose.regions.yaml")["services"]["softmax-server"]
        settings = memory.settings_of({**self.server["environment"], **more["environment"],
                                       "SOFTMAX_REGIONS_SOCKET": "/tmp/regions"}, SERVER)
        self.assertEqual(more["mem_limit"], f"{memory.needed(settings) // memory.GIB}g")

    def test_spans_go_where_jaeger_takes_them(self):
        traces = read_yaml("compose.traces.yaml")["services"]
        self.assertEqual(set(traces), {"softmax-server", "jaeger"})
        environment = traces["softmax-server"]["environment"]
        settings = memory.settings_of({**self.server["environment"], **environment}, SERVER)
        self.assertEqual(settings["trace-endpoint"], '"http://jaeger:4317"')

    def test_gpu_file_adds_to_the_same_service(self):
        self.assertEqual(set(read_yaml("compose.gpu.yaml")["services"]), {"softmax-server"})


if __name__ == "__main__":
    if SERVER is None:
        sys.exit(__doc__)
    parts.main()

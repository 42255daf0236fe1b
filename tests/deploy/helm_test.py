#!/usr/bin/env python3
"""The Helm chart: what it makes of its values is whole, agrees with the server, and does not depend on how they are
given. same_test.py compares it with kustomize.

    helm_test.py SOFTMAX_SERVER [unittest arguments]

Rendered by helm where it is installed, and by helm_render.py everywhere; where both are, they must agree.
"""
import json
import os
import re
import sys
import tempfile
import unittest

import yaml

import helm_render
import parts
from deploy_files import DEPLOY, need_schemas, one, read, read_yaml, run, schema_problems, tool
import memory

SERVER = sys.argv.pop(1) if len(sys.argv) > 1 else None
CHART = os.path.join(DEPLOY, "helm/softmax-server")
EVERYTHING = {
    "backend": "cuda", "tls": {"secretName": "certificate", "clientCertificates": True},
    "tokens": {"secretName": "tokens"}, "autoscaling": {"kind": "keda"}, "env": {"SOFTMAX_MAX_QUEUE_DELAY": "100us"},
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}}, "dashboard": {"enabled": True},
    "grpcRoute": {"enabled": True, "gateway": "public", "gatewayNamespace": "gateways", "hostnames": ["a.example"]},
    "service": {"headless": False}, "priorityClassName": "high", "networkPolicy": {"clientNamespaces": ["proxies"]},
    "gpu": {"resource": "nvidia.com/mig-1g.10gb", "runtimeClassName": "nvidia"},
    "regions": {"hostPath": "/run/softmax", "uids": 1000},
    "tolerations": [{"key": "spot", "operator": "Exists"}], "imagePullSecrets": [{"name": "registry"}]}
# KServe has no part in tls and tokens.
RUNTIME = {"backend": "cuda", "servingRuntime": {"enabled": True}}
A_NUMBER = 16777216


def objects_of(changes=None, arguments=None, **named):
    texts = helm_render.render(CHART, changes, arguments, **named)
    found = [o for text in texts.values() for o in yaml.safe_load_all(text) if o]
    if tool("helm"):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            yaml.safe_dump(changes or {}, values)
            values.flush()
            told = run(tool("helm"), "template", named.get("name", "softmax-server"), CHART, "-f", values.name,
                       "--namespace", named.get("namespace", "default"),
                       *(word for path, value in leaves(arguments or {}) for word in ("--set", f"{path}={value}")))
        assert told.returncode == 0, told.stderr
        by_helm = [o for o in yaml.safe_load_all(told.stdout) if o]
        key = lambda o: (o["kind"], o["metadata"]["name"])  # noqa: E731
        assert sorted(by_helm, key=key) == sorted(found, key=key), "helm and helm_render.py disagree"
    return found


def leaves(values, path=""):
    """[(a.b, value)]"""
    if isinstance(values, dict) and values:
        return [leaf for key, inner in values.items() for leaf in leaves(inner, f"{path}.{key}" if path else key)]
    return [(path, values)]


def at(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def environment(deployment):
    return {e["name"]: e["value"] for e in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}


class HelmTest(unittest.TestCase):
    def test_everything_at_once(self):
        objects = objects_of(EVERYTHING, name="mine", namespace="ns")
        kinds = sorted(o["kind"] for o in objects)
        self.assertEqual(kinds, ["ConfigMap", "Deployment", "GRPCRoute", "NetworkPolicy", "PodDisruptionBudget",
                                 "PrometheusRule", "ScaledObject", "Service", "ServiceMonitor"])
        deployment = one(objects, "Deployment")
        self.assertNotIn("replicas", deployment["spec"])  # the autoscaler's
        pod = deployment["spec"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertEqual(container["resources"]["limits"], {"memory": "6Gi", "nvidia.com/mig-1g.10gb": "1"})
        self.assertEqual(container["readinessProbe"]["grpc"]["port"], 8081)
        self.assertEqual(len(pod["tolerations"]), 2)
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        self.assertEqual(mounts, {volume["name"] for volume in pod["volumes"]})
        self.assertEqual(environment(deployment)["SOFTMAX_MAX_QUEUE_DELAY"], "100us")
        self.assertNotIn("clusterIP", one(objects, "Service")["spec"])
        self.assertEqual(one(objects, "ServiceMonitor")["metadata"]["labels"]["release"], "prometheus")
        self.assertEqual(one(objects, "PrometheusRule")["spec"], yaml.safe_load(read("prometheus/softmax.rules.yaml")))
        self.assertEqual(one(objects, "ConfigMap")["data"]["softmax.json"], read("grafana/softmax.json"))
        rule = one(objects, "ScaledObject")["spec"]["triggers"][0]["metadata"]["query"]
        self.assertIn(re.search(r"instance:\w+:\w+", rule).group(0), read("prometheus/softmax.rules.yaml"))

    def test_every_label_that_is_asked_for_is_there(self):
        for changes in ({}, EVERYTHING):
            objects = objects_of(changes)
            labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
            wanted = [one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
                      one(objects, "Service")["spec"]["selector"],
                      one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
                      one(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]]
            for selector in wanted:
                self.assertLessEqual(selector.items(), labels.items())

    def test_a_route_without_a_gateway_is_refused(self):
        with self.assertRaisesRegex(ValueError, "gateway"):
            helm_render.render(CHART, {"grpcRoute": {"enabled": True}})

    def test_the_server_knows_every_variable(self):
        if SERVER is None:
            self.skipTest("softmax-server (not given)")
        flags = set(re.findall(r"(--[a-z][a-z0-9-]+)", run(SERVER, "--help").stdout))
        for name in environment(one(objects_of(EVERYTHING), "Deployment")):
            if name.startswith("SOFTMAX_"):
                self.assertIn("--" + name.removeprefix("SOFTMAX_").lower().replace("_", "-"), flags)

    def test_the_route_leads_to_every_service(self):
        route = one(objects_of(EVERYTHING), "GRPCRoute")["spec"]
        served = set()
        for folder, _, files in os.walk(os.path.join(DEPLOY, "../proto")):
            for file in (name for name in files if name.endswith(".proto")):
                with open(os.path.join(folder, file), encoding="utf-8") as opened:
                    text = opened.read()
                package = re.search(r"(?m)^package ([\w.]+);", text).group(1)
                served |= {f"{package}.{service}" for service in re.findall(r"(?m)^service (\w+)", text)}
        # Reflection is for those who look into a server, not for those whom a gateway lets in. Collectors of traces the
        # server calls itself.
        served = {service for service in served if not re.search("reflection|opentelemetry", service)}
        self.assertEqual({match["method"]["service"] for match in route["rules"][0]["matches"]}, served)
        self.assertGreaterEqual(len(served), 3)

    def test_the_gateway_and_who_else_is_named_are_let_in(self):
        def namespaces(changes):
            policy = one(objects_of(changes), "NetworkPolicy")["spec"]
            return [peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
                    for peer in policy["ingress"][0]["from"] if peer.get("namespaceSelector", {}).get("matchLabels")]
        self.assertEqual(namespaces({}), [])
        self.assertEqual(namespaces(EVERYTHING), ["gateways", "proxies"])

    def test_a_runtime_takes_no_secrets(self):
        for secret in ("tls", "tokens"):
            with self.assertRaisesRegex(ValueError, "servingRuntime.enabled"):
                helm_render.render(CHART, {**RUNTIME, secret: {"secretName": "x"}})

    def test_what_it_makes_fits_the_published_schemas(self):
        need_schemas()
        for changes in ({}, EVERYTHING, RUNTIME, {"autoscaling": {"kind": "hpa"}}):
            self.assertEqual(schema_problems(objects_of(changes)), "")

    def test_memory_is_what_the_settings_need(self):
        shared = {"regions": {"hostPath": "/run/softmax", "bytes": "2GiB"}, "memory": "8Gi"}
        for changes in ({"backend": "cpu"}, {"backend": "cuda"}, shared):
            container = memory.container_of(objects_of(changes))
            settings = memory.settings_of(memory.environment_of(container), None)
            size = memory.needed(settings)
            self.assertEqual(memory.bytes_of(container["resources"]["limits"]["memory"]), size)

    def test_versions_are_the_projects(self):
        with open(os.path.join(DEPLOY, "../CMakeLists.txt"), encoding="utf-8") as opened:
            version = re.search(r"project\(softmax-server VERSION ([0-9.]+)", opened.read()).group(1)
        chart = yaml.safe_load(read("helm/softmax-server/Chart.yaml"))
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))


class ValuesTest(unittest.TestCase):
    """A value means the same in a values file, where Go makes a float64 of a number, and behind --set."""

    def test_numbers_are_printed_as_helm_prints_them(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "templates"))
            for name, text in (("values.yaml", "{a: 5, b: {}}"), ("values.schema.json", "{}"),
                               ("templates/x.yaml", "{{ .Values.a }} {{ quote .Values.a }} {{ toJson .Values.a }}")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            of_a_file = lambda a: helm_render.render(folder, {"a": a})["x.yaml"]  # noqa: E731
            self.assertEqual(helm_render.render(folder)["x.yaml"], '5 "5" 5')
            self.assertEqual(of_a_file(536870912), '5.36870912e+08 "5.36870912e+08" 536870912')
            self.assertEqual(of_a_file(1000000), '1e+06 "1e+06" 1000000')
            self.assertEqual(of_a_file(999999), '999999 "999999" 999999')
            self.assertEqual(of_a_file(0.5), '0.5 "0.5" 0.5')
            self.assertEqual(helm_render.render(folder, None, {"a": 1000000})["x.yaml"], '1000000 "1000000" 1000000')

    def test_sizes_as_numbers_start_the_server(self):
        numbers = {"arenaBytes": 536870912, "memoryQuota": 4294967296, "memory": 6442450944,
                   "env": {"SOFTMAX_MAX_REQUEST_BYTES": 67108864, "SOFTMAX_PREFIX": 0.5, "SOFTMAX_ON": True}}
        for objects in (objects_of(numbers), objects_of(None, numbers)):
            container = memory.container_of(objects)
            found = memory.environment_of(container)
            self.assertEqual(found["SOFTMAX_ARENA_BYTES"], "536870912")
            self.assertEqual(found["SOFTMAX_MEMORY_QUOTA"], "4294967296")
            self.assertEqual(found["SOFTMAX_MAX_REQUEST_BYTES"], "67108864")
            self.assertEqual((found["SOFTMAX_PREFIX"], found["SOFTMAX_ON"]), ("0.5", "true"))
            self.assertEqual(container["resources"]["limits"], {"memory": "6442450944"})
            if SERVER is not None:
                self.assertEqual(memory.bytes_of(memory.settings_of(found, SERVER)["arena-bytes"]), 536870912)

    def test_every_number_is_the_same_however_it_is_given(self):
        of_maps = ["env.X", "podAnnotations.x", "nodeSelector.x", "monitoring.labels.x", "dashboard.labels.x"]
        tried = []
        for path in [path for path, _ in leaves(read_yaml("helm/softmax-server/values.yaml"))] + of_maps:
            for base in (EVERYTHING, RUNTIME, {"autoscaling": {"kind": "hpa"}}):
                try:
                    texts = helm_render.render(CHART, helm_render.merged(base, at(path, A_NUMBER)))
                except ValueError:
                    continue  # no number
                tried.append(path)
                for arguments in (at(path, A_NUMBER), at(path, str(A_NUMBER))):
                    self.assertEqual(texts, helm_render.render(CHART, base, arguments), path)
                self.assertNotRegex(str(texts), r"\de\+\d", path)
        self.assertLessEqual({"replicas", "gracePeriodSeconds", "memory", "cores", "userId", "gpu.count", "arenaBytes",
                              "memoryQuota", "autoscaling.maxReplicas", *of_maps}, set(tried))

    def test_what_is_misspelt_or_of_another_type_is_refused(self):
        for changes, told in (({"memoryQoota": "1GiB"}, "/memoryQoota: there is no such value"),
                              ({"tls": {"secret": "x"}}, "/tls/secret: there is no such value"),
                              ({"arenaBytes": "512Mi"}, "/arenaBytes: '512Mi' does not fit"),
                              ({"arenaBytes": 0.5}, "/arenaBytes: 0.5 is no integer"),
                              ({"memory": "6GiB"}, "/memory: '6GiB' does not fit"),
                              ({"drainDelay": 10}, "/drainDelay: 10 is no string"),
                              ({"replicas": "two"}, "/replicas: 'two' does not fit"),
                              ({"replicas": -1}, "/replicas: -1 is below 0"),
                              ({"monitoring": {"enabled": "false"}}, "/monitoring/enabled: 'false' is no boolean"),
                              ({"backend": "gpu"}, "/backend: 'gpu' is none of"),
                              ({"gpu": {"resource": "mig-1g.10gb"}}, "/gpu/resource: 'mig-1g.10gb' does not fit"),
                              ({"env": {"SOFTMAX_ARENA_BYTES": "1GiB"}}, "/env/SOFTMAX_ARENA_BYTES: "),
                              ({"userId": 0}, "/userId: 0 is below 1")):
            with self.assertRaises(ValueError, msg=str(changes)) as refused:
                helm_render.render(CHART, changes)
            self.assertTrue(str(refused.exception).startswith(told), refused.exception)

    def test_the_page_has_every_value_and_its_default(self):
        with open(os.path.join(DEPLOY, "../docs/chart.md"), encoding="utf-8") as opened:
            rows = dict(re.findall(r"(?m)^\| `([\w.]+)` \| `(.*?)` \|", opened.read()))
        maps = {"dashboard.labels"}  # whose entries are the user's
        defaults = {}
        for path, value in leaves(read_yaml("helm/softmax-server/values.yaml")):
            of_map = path.rpartition(".")[0]
            defaults.update({of_map: {path.rpartition(".")[2]: value}} if of_map in maps else {path: value})
        self.assertEqual({path: yaml.safe_load(text) for path, text in rows.items()}, defaults)

    def test_env_is_for_what_no_other_value_sets(self):
        schema = json.loads(read("helm/softmax-server/values.schema.json"))
        taken = set(schema["properties"]["env"]["propertyNames"]["not"]["enum"])
        objects = objects_of(EVERYTHING)
        self.assertEqual(set(environment(one(objects, "Deployment"))) - set(EVERYTHING["env"]), taken)


if __name__ == "__main__":
    parts.main()

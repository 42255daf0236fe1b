#!/usr/bin/env python3
"""The Helm chart: what it makes of its values is whole, agrees with the kustomize overlays and with the server.

    helm_test.py SOFTMAX_SERVER [unittest arguments]

Rendered by helm where it is installed, and by helm_render.py everywhere; where both are, they must agree.
"""
import os
import re
import sys
import tempfile
import unittest

import yaml

import helm_render
import parts
from deploy_files import DEPLOY, kustomize, one, read, run, tool

SERVER = sys.argv.pop(1) if len(sys.argv) > 1 else None
CHART = os.path.join(DEPLOY, "helm/softmax-server")
EVERYTHING = {
    "backend": "cuda", "tls": {"secretName": "certificate", "clientCertificates": True},
    "tokens": {"secretName": "tokens"}, "autoscaling": {"kind": "keda"}, "env": {"SOFTMAX_MAX_QUEUE_DELAY": "100us"},
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}}, "dashboard": {"enabled": True},
    "grpcRoute": {"enabled": True, "gateway": "public", "gatewayNamespace": "gateways", "hostnames": ["a.example"]},
    "servingRuntime": {"enabled": True}, "service": {"headless": False}, "priorityClassName": "high",
    "gpu": {"resource": "nvidia.com/mig-1g.10gb", "runtimeClassName": "nvidia"},
    "tolerations": [{"key": "spot", "operator": "Exists"}], "imagePullSecrets": [{"name": "registry"}]}


def objects_of(changes=None, **named):
    texts = helm_render.render(CHART, changes, **named)
    found = [o for text in texts.values() for o in yaml.safe_load_all(text) if o]
    if tool("helm"):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            yaml.safe_dump(changes or {}, values)
            values.flush()
            told = run(tool("helm"), "template", named.get("name", "softmax-server"), CHART, "-f", values.name)
        assert told.returncode == 0, told.stderr
        by_helm = [o for o in yaml.safe_load_all(told.stdout) if o]
        key = lambda o: (o["kind"], o["metadata"]["name"])  # noqa: E731
        assert sorted(by_helm, key=key) == sorted(found, key=key), "helm and helm_render.py disagree"
    return found


def environment(deployment):
    return {e["name"]: e["value"] for e in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}


class HelmTest(unittest.TestCase):
    def test_defaults_are_the_overlay_for_cpus(self):
        objects = kustomize("cpu")
        ours, theirs = one(objects_of(), "Deployment"), one(objects, "Deployment")
        self.assertEqual(environment(ours), environment(theirs))
        pod, other = (d["spec"]["template"]["spec"] for d in (ours, theirs))
        for field in ("securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken"):
            self.assertEqual(pod[field], other[field])
        for field in ("resources", "securityContext", "startupProbe", "readinessProbe", "livenessProbe", "ports"):
            self.assertEqual(pod["containers"][0][field], other["containers"][0][field], field)
        self.assertEqual({o["kind"] for o in objects_of()}, {o["kind"] for o in objects})

    def test_everything_at_once(self):
        objects = objects_of(EVERYTHING, name="mine", namespace="ns")
        kinds = sorted(o["kind"] for o in objects)
        self.assertEqual(kinds, ["ConfigMap", "Deployment", "GRPCRoute", "NetworkPolicy", "PodDisruptionBudget",
                                 "PrometheusRule", "ScaledObject", "Service", "ServiceMonitor", "ServingRuntime"])
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
        self.assertEqual(one(objects, "ServiceMonitor")["metadata"]["labels"], {"release": "prometheus"})
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

    def test_hpa_is_the_overlays(self):
        hpa = one(objects_of({"autoscaling": {"kind": "hpa"}}), "HorizontalPodAutoscaler")
        with open(os.path.join(DEPLOY, "kubernetes/components/autoscaling/horizontal_pod_autoscaler.yaml"),
                  encoding="utf-8") as opened:
            self.assertEqual(hpa["spec"], yaml.safe_load(opened)["spec"])

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

    def test_versions_are_the_projects(self):
        with open(os.path.join(DEPLOY, "../CMakeLists.txt"), encoding="utf-8") as opened:
            version = re.search(r"project\(softmax-server VERSION ([0-9.]+)", opened.read()).group(1)
        chart = yaml.safe_load(read("helm/softmax-server/Chart.yaml"))
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))


if __name__ == "__main__":
    parts.main()

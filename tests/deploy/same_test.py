#!/usr/bin/env python3
"""kustomize and the chart say the same: every object that both make is equal, field by field.

What may differ stands in EXCEPTIONS and ONE_SIDED with its reason, and only there.
"""
import os
import re
import unittest

import yaml

import helm_render
from deploy_files import DEPLOY, kustomize, need
import parts

CHART = os.path.join(DEPLOY, "helm/softmax-server")
# Overlay and further components; what the same is in values.
SETUPS = {
    "cpu": (("cpu",), {}),
    "gpu": (("gpu",), {"backend": "cuda"}),
    "mig": (("gpu", "mig"), {"backend": "cuda", "gpu": {"resource": "nvidia.com/mig-1g.10gb"}}),
    "replicas": (("replicas",), {"backend": "cuda", "autoscaling": {"kind": "hpa"}, "monitoring": {"enabled": True}}),
    "mtls": (("mtls",), {"backend": "cuda", "tls": {"secretName": "softmax-server-tls", "clientCertificates": True}}),
    "gateway": (("cpu", "gateway"),
                {"grpcRoute": {"enabled": True, "gateway": "gateway", "gatewayNamespace": "gateway"}}),
    "regions": (("cpu", "regions"), {"regions": {"hostPath": "/run/softmax"}, "memory": "7Gi"}),
    "any user": (("cpu", "any-user"), {"userId": ""}),
    "kserve": (("kserve",), {"servingRuntime": {"enabled": True}}),
    "kserve, any user": (("kserve", "any-user"), {"servingRuntime": {"enabled": True}, "userId": ""}),
}
EXCEPTIONS = [
    (r"/(labels|selector|matchLabels)/app\.kubernetes\.io/instance$",
     "a namespace may have several releases of the chart, and their pods must be told apart"),
]
ONE_SIDED = {
    "InferenceService": "a service of one's own, by the runtime; kustomize's is an example",
    "ScaledObject": "KEDA is offered by the chart only",
    "ConfigMap": "the dashboard for Grafana's sidecar is offered by the chart only",
}
# Beside its ServingRuntime the chart has the server that it always has; overlays/kserve is the runtime alone.
ONLY_RUNTIME = ("kserve", "kserve, any user")


def fields(value, path=""):
    """{path: value} of all leaves; members of a list go by their name, where they have one."""
    if isinstance(value, dict) and value:
        return {p: leaf for key, inner in value.items() for p, leaf in fields(inner, f"{path}/{key}").items()}
    if isinstance(value, list) and value:
        names = [item.get("name", i) if isinstance(item, dict) else i for i, item in enumerate(value)]
        return {p: leaf for name, inner in zip(names, value) for p, leaf in fields(inner, f"{path}/{name}").items()}
    return {path: value}


def charted(values, **named):
    return [o for text in helm_render.render(CHART, values, **named).values() for o in yaml.safe_load_all(text) if o]


def by_kind(objects):
    found = {o["kind"]: o for o in objects}
    assert len(found) == len(objects), "two objects of one kind"
    return found


def differences(ours, theirs):
    """[path: value and value] where two objects differ, and the exceptions that were met."""
    one, other = fields(ours), fields(theirs)
    found, met = [], set()
    for path in sorted(one.keys() | other.keys()):
        if one.get(path, "absent") == other.get(path, "absent"):
            continue
        excepted = {pattern for pattern, _ in EXCEPTIONS if re.search(pattern, path)}
        met |= excepted
        if not excepted:
            found.append(f"{path}: {one.get(path, 'absent')!r}, in the chart {other.get(path, 'absent')!r}")
    return found, met


class SameTest(unittest.TestCase):
    def test_every_object_is_equal_field_by_field(self):
        need("kubectl")
        met, compared = set(), set()
        for name, (overlay, values) in SETUPS.items():
            with self.subTest(name):
                ours, theirs = by_kind(kustomize(*overlay)), by_kind(charted(values))
                if name in ONLY_RUNTIME:
                    theirs = {"ServingRuntime": theirs["ServingRuntime"]}
                self.assertEqual(ours.keys() - ONE_SIDED.keys(), theirs.keys() - ONE_SIDED.keys())
                for kind in ours.keys() & theirs.keys():
                    found, exceptions = differences(ours[kind], theirs[kind])
                    self.assertEqual(found, [], f"{name}, {kind}")
                    met |= exceptions
                    compared.add(kind)
        self.assertEqual(met, {pattern for pattern, _ in EXCEPTIONS}, "an exception that nothing needs")
        self.assertEqual(compared & ONE_SIDED.keys(), set(), "an exception that nothing needs")
        everything = {"autoscaling": {"kind": "hpa"}, "monitoring": {"enabled": True}, "dashboard": {"enabled": True},
                      "grpcRoute": {"enabled": True, "gateway": "gateway"}, "servingRuntime": {"enabled": True}}
        of_the_chart = {o["kind"] for changes in (everything, {"autoscaling": {"kind": "keda"}})
                        for o in charted(changes)}
        self.assertEqual(of_the_chart - compared, {"ScaledObject", "ConfigMap"}, "never compared")

    def test_a_difference_is_found(self):
        _, values = SETUPS["cpu"]
        ours, theirs = (by_kind(charted(v))["Deployment"] for v in (values, {**values, "arenaBytes": "64MiB"}))
        self.assertEqual(differences(ours, theirs)[0], [
            "/spec/template/spec/containers/softmax-server/env/SOFTMAX_ARENA_BYTES/value: '512MiB', "
            "in the chart '64MiB'"])
        del ours["spec"]["minReadySeconds"]
        self.assertIn("/spec/minReadySeconds: 'absent', in the chart 5", differences(ours, theirs)[0])


if __name__ == "__main__":
    parts.main()

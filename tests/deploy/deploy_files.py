"""Where the files under deploy/ are, and how tests read them."""
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

from parts import TOOLS, need, tool

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
DEPLOY = os.path.join(ROOT, "deploy")
OVERLAYS = ("cpu", "gpu", "replicas", "mtls")
sys.path.insert(0, os.path.join(DEPLOY, "kubernetes"))
sys.path.insert(0, os.path.join(DEPLOY, "grafana"))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def read(path):
    with open(os.path.join(DEPLOY, path), encoding="utf-8") as opened:
        return opened.read()


def read_yaml(path):
    return yaml.safe_load(read(path))


def kustomize(overlay, *components):
    """The objects of an overlay, and of it with more components; the test does not run where kubectl is missing or
    older than components (1.21)."""
    if not components:
        return list(yaml.safe_load_all(kustomized_text(os.path.join(DEPLOY, "kubernetes/overlays", overlay))))
    with tempfile.TemporaryDirectory() as folder:
        to_deploy = os.path.relpath(os.path.join(DEPLOY, "kubernetes"), os.path.realpath(folder))
        with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as written:
            yaml.safe_dump({"resources": [f"{to_deploy}/overlays/{overlay}"],
                            "components": [f"{to_deploy}/components/{component}" for component in components]}, written)
        return list(yaml.safe_load_all(kustomized_text(folder)))


@functools.lru_cache(maxsize=None)
def kustomized_text(folder):
    kubectl = need("kubectl")
    version = json.loads(run(kubectl, "version", "--client", "-o", "json").stdout)["clientVersion"]
    if int(re.match(r"\d+", version["minor"]).group(0)) < 21:
        raise unittest.SkipTest("kubectl (older than 1.21)")
    made = run(kubectl, "kustomize", folder)
    if made.returncode != 0 or made.stderr:
        raise AssertionError(f"kubectl kustomize {folder}: {made.stderr}")
    return made.stdout


def seconds(text):
    number, unit = re.match(r'"?(\d+)(ms|s|m)"?$', text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def one(objects, kind):
    found = [o for o in objects if o["kind"] == kind]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} objects of kind {kind}")
    return found[0]


# Whose schemas scripts/setup.sh fetches.
WITH_SCHEMAS = re.compile(r"(v1|apps/v1|policy/v1|networking\.k8s\.io/v1|autoscaling/v2|monitoring\.coreos\.com/v1)$")


def need_schemas():
    """Leaves the test out where they are not; before any loop, which a test that is left out cannot end."""
    need("node")
    if not os.path.isdir(os.path.join(TOOLS, "schemas/node_modules")):
        raise unittest.SkipTest("schemas of Kubernetes (scripts/setup.sh could not fetch them)")


def schema_problems(objects):
    """What in them does not fit the published schemas, a line each; objects of other groups are not looked at."""
    known = [o for o in objects if WITH_SCHEMAS.match(o["apiVersion"])]
    checked = subprocess.run(["node", os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema_check.mjs"),
                              os.path.join(TOOLS, "schemas")], input=json.dumps(known), capture_output=True, text=True,
                             timeout=120, check=False)
    if checked.stderr:
        raise AssertionError(checked.stderr)
    return checked.stdout


def alert_rules():
    return [rule for group in read_yaml("prometheus/softmax.rules.yaml")["groups"] for rule in group["rules"]]


def dashboard_panels(dashboard):
    """Rows and panels, those of closed rows too."""
    return [inner for panel in dashboard["panels"] for inner in (panel, *panel.get("panels", []))]


def dashboard_queries():
    """(panel, query) of the dashboard's panels, annotations included."""
    dashboard = json.loads(read("grafana/softmax.json"))
    queries = [("annotation " + a["name"], a["expr"]) for a in dashboard["annotations"]["list"]]
    for panel in dashboard_panels(dashboard):
        queries += [(panel["title"], target["expr"]) for target in panel.get("targets", [])]
    return queries

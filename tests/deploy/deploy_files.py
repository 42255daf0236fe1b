"""Where the files under deploy/ are, and how tests read them."""
import functools
import json
import os
import re
import subprocess
import sys
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


def kustomize(overlay):
    """The objects of an overlay; the test does not run where kubectl is missing or older than components (1.21)."""
    return list(yaml.safe_load_all(kustomized_text(overlay)))


@functools.lru_cache(maxsize=None)
def kustomized_text(overlay):
    kubectl = need("kubectl")
    version = json.loads(run(kubectl, "version", "--client", "-o", "json").stdout)["clientVersion"]
    if int(re.match(r"\d+", version["minor"]).group(0)) < 21:
        raise unittest.SkipTest("kubectl (older than 1.21)")
    made = run(kubectl, "kustomize", os.path.join(DEPLOY, "kubernetes/overlays", overlay))
    if made.returncode != 0 or made.stderr:
        raise AssertionError(f"kubectl kustomize {overlay}: {made.stderr}")
    return made.stdout


def seconds(text):
    number, unit = re.match(r'"?(\d+)(ms|s|m)"?$', text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def one(objects, kind):
    found = [o for o in objects if o["kind"] == kind]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} objects of kind {kind}")
    return found[0]


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

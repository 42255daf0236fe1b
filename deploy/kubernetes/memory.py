#!/usr/bin/env python3
"""The memory that a pod needs, from its settings.

    kubectl kustomize overlays/gpu | memory.py [--server SOFTMAX_SERVER]

Prints it for the Deployment in the manifests; exit code 1 when resources.requests.memory or resources.limits.memory is
anything else. With --server the settings are what that program makes of the pod's environment (--print-config),
defaults included; without it the environment must set both sizes.
"""
import argparse
import os
import re
import subprocess
import sys

import yaml

GIB = 1024 ** 3
# Besides the arena and what gRPC may hold: the program itself and its threads, answers copied for slow readers, CUDA's
# own host memory (a few hundred MiB a device), and receive memory of the default size (messages in it count for the
# quota as well). glibc keeps freed memory, so the quota is counted in full.
HEAP_ALLOWANCE = 3 * GIB // 2
RECEIVE_ALLOWANCE = GIB // 4
REGIONS_DEFAULT = GIB
ROUND_TO = GIB // 4
UNITS = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024 ** 2, "GiB": GIB, "Ki": 1024, "Mi": 1024 ** 2, "Gi": GIB}
SIZE = re.compile(r'"?(\d+)([A-Za-z]*)"?$')


def bytes_of(text):
    number, unit = SIZE.match(str(text)).groups()
    return int(number) * UNITS[unit]


def needed(settings):
    more = max(0, bytes_of(settings.get("receive-bytes", RECEIVE_ALLOWANCE)) - RECEIVE_ALLOWANCE)
    # Host memory of regions is the server's, whoever uses it.
    if settings.get("regions-socket", "none").strip('"') != "none":
        more += bytes_of(settings.get("regions-bytes", REGIONS_DEFAULT))
    total = bytes_of(settings["arena-bytes"]) + bytes_of(settings["memory-quota"]) + HEAP_ALLOWANCE + more
    return -(-total // ROUND_TO) * ROUND_TO


def kubernetes_size(size):
    return f"{size // GIB}Gi" if size % GIB == 0 else f"{size // 1024 ** 2}Mi"


def container_of(documents):
    deployment = next(d for d in documents if d and d["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]["containers"][0]


def environment_of(container):
    return {variable["name"]: variable["value"] for variable in container.get("env", [])}


def settings_of(environment, server):
    """The effective settings by flag name without dashes, as text."""
    if server is None:
        return {name[len("SOFTMAX_"):].lower().replace("_", "-"): value for name, value in environment.items()}
    printed = subprocess.run([server, "--print-config"], env={**os.environ, **environment}, capture_output=True,
                             text=True, timeout=60, check=False)
    if printed.returncode != 0:
        raise ValueError(f"the server refuses these settings: {printed.stderr.strip()}")
    return dict(line.split(" = ", 1) for line in printed.stdout.splitlines() if " = " in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server")
    arguments = parser.parse_args()
    container = container_of(yaml.safe_load_all(sys.stdin))
    settings = settings_of(environment_of(container), arguments.server)
    size = needed(settings)
    print(kubernetes_size(size))
    resources = container["resources"]
    stated = {resources["requests"]["memory"], resources["limits"]["memory"]}
    if {bytes_of(text) for text in stated} == {size}:
        return 0
    print(f"the manifest says {', '.join(sorted(stated))}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

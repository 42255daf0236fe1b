"""The machine and the settings of a run, for the report and for runs that go on."""
import json
import os
import re
import subprocess
import time

# A run that goes on must agree in these.
SAME = ("machine", "gpu", "cores", "commit", "seconds", "warmup", "backends", "processes", "server_flags",
        "inprocess_flags")


class Different(Exception):
    """The rounds that are there were measured otherwise."""


def gpus():
    """The names of the NVIDIA GPUs."""
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in said.splitlines() if line.strip()]


def backend():
    return "cuda" if gpus() else "cpu"


def commit(programs):
    """Of the folder that scripts/gpu_pack.sh made, or of the checkout."""
    packed = os.path.join(programs, "commit")
    if os.path.exists(packed):
        with open(packed, encoding="utf-8") as file:
            return file.read().strip()
    try:
        return subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "HEAD"],
                              capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return found.group(1) if found else "unknown processor"


def settings(options, command):
    found = gpus()
    cores = len(os.sched_getaffinity(0))
    return {"machine": f"{_processor()}, {cores} cores", "cores": cores, "gpus": len(found),
            "gpu": "; ".join(found) or "none", "commit": commit(options.programs),
            "time": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "command": command,
            "rounds": options.rounds, "seconds": options.seconds, "warmup": options.warmup,
            "backends": options.backend, "processes": options.processes, "server_flags": options.server_flags,
            "inprocess_flags": options.inprocess_flags, "notes": []}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def check_same(kept, now):
    for name in SAME:
        if kept[name] != now[name]:
            raise Different(f"--resume: {name} was {kept[name]} and is {now[name]}; choose another --out")


def queues(server):
    """The completion queues of an echo or of the service, as they say themselves when they start."""
    return int(re.search(r"(?:queues:|; threads) (\d+)", server.said).group(1))

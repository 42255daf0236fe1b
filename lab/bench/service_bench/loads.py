"""One measured window: softmax-loadgen against one server, and what both said of it."""
import dataclasses
import json
import os
import subprocess
import tempfile

import programs

ATTEMPTS = 3
REQUESTS_PER_MESSAGE = {"stream": 1, "stream16": 16}


@dataclasses.dataclass(frozen=True)
class Load:
    connections: int
    in_flight: int  # requests on each connection; None in an open loop
    processes: int = 1
    threads: int = 2
    method: str = "unary"
    what: tuple = ()  # the generator's flags that say what is sent
    timeout: float = 60  # of a request, seconds


def of_payload(payload_bytes):
    return ("--payload-bytes", str(payload_bytes))


def command(loadgen, address, load, window, verify, extra=()):
    """`window`: (warm-up, measured) seconds. `verify`: None looks at sizes only."""
    flags = ["--address", address, "--connections", load.connections, "--processes", load.processes, "--threads",
             load.threads, "--warmup", window[0], "--duration", window[1], "--timeout", load.timeout,
             "--connect-timeout", 30]
    if load.in_flight is not None:
        flags += ["--in-flight", load.in_flight]
    if load.method in REQUESTS_PER_MESSAGE:
        flags += ["--stream", "--requests-per-message", REQUESTS_PER_MESSAGE[load.method]]
    flags += ["--raw-echo"] if verify is None else ["--verify", verify]
    return [loadgen] + [str(flag) for flag in flags] + list(load.what) + list(extra)


def run(loadgen, server, transport, load, window, verify, extra=()):
    """The figures of one window. Raises when calls failed or answers were wrong, unless `extra` allows errors."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.json")
        flags = ["--json", path, "--server-pid", str(server.pid)] + list(extra)
        if server.metrics:
            flags += ["--server-metrics", server.metrics]
        asked = command(loadgen, server.address(transport), load, window, verify, flags)
        for _ in range(ATTEMPTS):
            done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=sum(window) + 240,
                                  preexec_fn=programs.end_with_parent)
            if not _starved(path, done.returncode):
                break
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(asked)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        with open(path, encoding="utf-8") as file:
            return figures(json.load(file)["runs"][0])


def _starved(path, code):
    """Nothing failed, but nothing was answered within the window either: on a machine with more to run than cores a
    short window may pass before anybody has had one."""
    if code == 0 or not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as file:
        runs = json.load(file)["runs"]
    return bool(runs) and runs[0]["latency"]["count"] == 0 and not runs[0]["errors"] and runs[0]["wrong"] == 0


def figures(run_result):
    """The figures of one run of the generator's JSON, flat. What is unknown is None."""
    at = {entry["p"]: entry["us"] for entry in run_result["latency"]["percentiles"]}
    calls = run_result["achieved_per_s"]
    cores = run_result["server_cores"]
    answered = run_result["latency"]["count"]
    return {
        "calls_per_s": calls,
        "GBps": run_result["gb_per_s"],
        "p50_us": at.get(50), "p99_us": at.get(99), "p999_us": at.get(99.9),
        "server_cpu_us_per_call": cores * 1e6 / calls if cores is not None and calls > 0 else None,
        "answered": answered,
        "verified": run_result["verified"], "wrong": run_result["wrong"],
        "errors": run_result["errors"],
        "sent": run_result["sent"], "dropped": run_result["dropped"],
        "generator_cores": run_result["generator"]["cpu_cores"],
        "generator_why": run_result["generator"]["why"],
        "machine_busy": run_result["machine_busy"],
        **_server(run_result["server"]),
    }


def _server(said):
    if not said:
        return {}
    window = said["window_s"] or 0
    batches = said["batches"]

    def over(a, b):
        return a / b if a is not None and b else None

    execution = said["stages"]["execution"]["mean_us"]
    rows = batches["rows"]["mean"]
    return {
        "copies_in": over(said["copied_in_bytes"], said["input_bytes"]),
        "copies_out": over(said["copied_out_bytes"], said["output_bytes"]),
        "mean_batch_requests": batches["requests"]["mean"],
        "launches_per_s": over(batches["count"], window),
        "execution_us": execution,
        "execution_us_per_row": over(execution, rows),
        "rejected": said["rejected"],
    }

"""The section `inprocess`: batching and execution without gRPC, on one and on several GPUs, beside the best that copies
and the kernel reach from host memory alone."""
import csv
import io
import os
import subprocess
import tempfile

import programs
from plan import Cell, Contender

# 64 MiB in and out through a kernel: on mapped memory; copy, kernel, copy; and in overlapping chunks.
HOST_SUITE = "".join(f"host_{form} fp32 softmax 16384 1024\n" for form in ("mapped", "staged", "chunked"))
PAYLOADS = {"4 KiB": "4096", "1 MiB": "1MiB"}


def cells(bench):
    found = []
    for name, payload in PAYLOADS.items():
        contenders = {"1 GPU" if bench.service == "cuda" else bench.service: _contender(bench, payload, 1)}
        for gpus in (2, 4, 8):
            if gpus <= bench.gpus and bench.service == "cuda":
                contenders[f"{gpus} GPUs"] = _contender(bench, payload, gpus)
        if name == "1 MiB" and bench.service == "cuda":
            contenders["host suite"] = Contender(lambda: _host_suite(bench))
        found.append(Cell("inprocess", name, contenders))
    if bench.service == "cuda" and bench.gpus < 2:
        bench.notes.append("several GPUs: not measured: this machine has one")
    return found


def _contender(bench, payload, gpus):
    # Rows of 1024 columns, as the generator's and the host suite's.
    flags = ["--backend", bench.service, "--payload", payload, "--columns", "1024", "--warmup",
             str(max(0.5, bench.window[0])), "--seconds", str(bench.window[1])] + bench.inprocess_flags
    if bench.service == "cuda":
        flags += ["--devices", ",".join(str(device) for device in range(gpus))]
    return Contender(lambda: _run(bench, flags))


def _run(bench, flags):
    done = _checked([programs.find(bench.fleet.folder, "softmax-inprocess-bench")] + flags, bench)
    row = next(csv.DictReader(io.StringIO(done)))
    return {"calls_per_s": float(row["requests_per_s"]),
            **{name: float(row[name]) for name in ("GBps", "p50_us", "p99_us", "mean_batch_requests",
                                                   "launches_per_s", "execution_us", "cpu_cores")},
            "judged": int(row["judged"]), "wrong": int(row["wrong"])}


def _host_suite(bench):
    with tempfile.TemporaryDirectory() as folder:
        suite, results = os.path.join(folder, "host.txt"), os.path.join(folder, "host.csv")
        with open(suite, "w", encoding="utf-8") as file:
            file.write(HOST_SUITE)
        _checked([programs.find(bench.fleet.folder, "softmax-kernel-bench"), "--suite", suite, "--csv", results], bench)
        with open(results, encoding="utf-8") as file:
            forms = {row["section"]: float(row["GBps"]) for row in csv.DictReader(file)
                     if row["provider"] == "softmax" and row["GBps"]}
    return {**forms, "GBps": max(forms.values())}


def _checked(command, bench):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=sum(bench.window) + 300,
                          preexec_fn=programs.end_with_parent)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout

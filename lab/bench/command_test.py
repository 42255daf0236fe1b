#!/usr/bin/env python3
"""Runs service_bench in a small form: command_test.py table|scenarios|usage BUILD_FOLDER.

Windows of a fraction of a second say nothing of speed, and nothing here depends on it: the figures have to be there, to
be possible, and to agree with each other."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/support"))
from running import COMMAND, read_table, row_of, service_bench  # noqa: E402
from waiting import eventually  # noqa: E402

SMALL = ["--backend", "cpu", "--warmup", "0.05"]


def positive(row, *names):
    for name in names:
        assert float(row[name]) > 0, (name, row)


def check_row(row):
    positive(row, "calls_per_s")
    # A percentile beyond which too few answers lie is left out, and so is every higher one.
    times = [row["p50_us"], row["p99_us"], row["p999_us"]]
    known = [float(us) for us in times if us]
    assert known == sorted(known) and all(us > 0 for us in known) and not any(times[len(known):]), row
    bytes_per_s = float(row["calls_per_s"]) * int(row["payload_bytes"])
    assert abs(float(row["GBps"]) * 1e9 / bytes_per_s - 1) < 0.01, row
    if row["ratio_to_echo"]:
        assert 0 < float(row["ratio_low"]) <= float(row["ratio_to_echo"]) <= float(row["ratio_high"]), row
    if row["backend"] not in ("cpu", "null"):
        assert row["mean_batch_requests"] == row["copies_in"] == row["copies_out"] == "", row
    elif row["copies_in"]:
        assert float(row["mean_batch_requests"]) >= 1, row
        # What is between its copy and its answer at the window's edges is in one of the counts only.
        assert abs(float(row["copies_in"]) - 1) < 0.3, row
        # Answers up to 1 KiB are copied out, larger ones refer to the batch.
        assert abs(float(row["copies_out"]) - (1 if int(row["payload_bytes"]) <= 1024 else 0)) < 0.3, row


def check_server_figures(rows):
    """On a machine so busy that the generator misses a window's end, it has no figures of the server's for it."""
    service = [row for row in rows if row["backend"] in ("cpu", "null")]
    for name in ("server_cpu_us_per_call", "copies_in", "copies_out", "mean_batch_requests"):
        known = sum(1 for row in service if row[name])
        assert known > len(service) / 3, f"{name} is known of {known} of {len(service)} rows"


def check_report(folder, sections):
    with open(os.path.join(folder, "service.json"), encoding="utf-8") as file:
        document = json.load(file)
    assert document["valid"] is False, "a run of one short round must not count"
    by = {check["what"][0]: check for check in document["checks"]}
    assert by["4"]["ok"] is not True and by["2"]["ok"] is True, document["checks"]
    assert {bar["section"] for bar in document["bars"]} == set(sections), document["bars"]
    for bar in document["bars"]:
        assert bar["value"]["low"] <= bar["value"]["median"] <= bar["value"]["high"], bar
    with open(os.path.join(folder, "service.md"), encoding="utf-8") as file:
        text = file.read()
    for bar in document["bars"]:
        assert f"| {bar['what']} | {bar['bar']} | " in text, bar
    return document


def stopped_by_signal(arguments):
    """After its first round it is told to end: it ends its servers, says how to go on and leaves what it has."""
    process = subprocess.Popen([sys.executable, "-B", COMMAND] + arguments, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    said = process.stdout.readline()
    assert "round 1 of" in said, said + process.stdout.read()
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
        servers = file.read().split()
    process.terminate()
    said += process.communicate(timeout=120)[0]
    assert process.returncode == 4 and "--resume" in said, said
    eventually(lambda: not any(runs(pid) for pid in servers))  # a killed process takes a while to end
    left = [pid for pid in servers if runs(pid)]
    assert servers and not left, f"of {servers} {left} still run"


def runs(pid):
    """A process that has ended may still be listed, until somebody asks for its exit code."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def table(build):
    with tempfile.TemporaryDirectory() as folder:
        out = ["--out", folder, "--programs", build] + SMALL
        sections = "saturation,latency,unix,stream,baselines,generator"
        short = ["--seconds", "0.3", "--payloads", "64,65536", "--rounds", "1", "--only", sections]
        # Stopped at once, it says how to go on; then it does.
        code, said = service_bench(out + short + ["--stop-after", "0.000001"])
        assert code == 4 and "--resume" in said and not read_table(folder), said
        stopped_by_signal(out + short + ["--resume"])
        code, said = service_bench(out + short + ["--resume"])
        assert code == 0, said
        rows = read_table(folder)
        for row in rows:
            check_row(row)
        check_server_figures(rows)
        for payload, load in ((64, ("24", "8")), (65536, ("24", "8"))):
            for transport in ("tcp", "unix"):
                for backend in ("echo", "echo_c", "null", "cpu") + (("echo_copy",) if payload == 65536 else ()):
                    for connections, in_flight in (load, ("1", "1")):
                        row_of(rows, backend=backend, method="unary", transport=transport, payload_bytes=payload,
                               connections=connections, in_flight=in_flight)
            for backend in ("echo", "cpu"):
                row_of(rows, backend=backend, method="stream", payload_bytes=payload)
        packed = row_of(rows, backend="cpu", method="stream16", payload_bytes=64)
        assert packed["in_flight"] == "128" and float(packed["mean_batch_requests"] or 16) > 1, packed
        row_of(rows, backend="sync_baseline", method="unary", payload_bytes=65536)
        document = check_report(folder, ("saturation", "latency", "unix", "stream", "baselines"))
        assert "more processes" in next(c["why"] for c in document["checks"] if c["what"].startswith("3"))

        # Everything is there: nothing is measured again, and the results are the same.
        with open(os.path.join(folder, "service.csv"), encoding="utf-8") as file:
            before = file.read()
        code, said = service_bench(out + short + ["--resume"])
        assert code == 0 and "round 1 of" not in said, said
        code, said = service_bench(["--out", folder, "--report"])
        assert code == 0, said
        with open(os.path.join(folder, "service.csv"), encoding="utf-8") as file:
            assert file.read() == before
        # A second round adds to the first; other windows cannot.
        two = ["--rounds", "2", "--only", "saturation", "--resume", "--payloads", "64,65536"]
        code, said = service_bench(out + two + ["--seconds", "0.3"])
        assert code == 0 and "round 2 of 2" in said and "round 1 of" not in said, said
        code, said = service_bench(out + two + ["--seconds", "0.2"])
        assert code == 2 and "seconds was 0.3 and is 0.2" in said, said
        code, said = service_bench(out + short)
        assert code == 2 and "--resume" in said, said


def scenarios(build):
    names = ("threads", "answers", "mixed", "batches", "overload", "fairness", "unread", "idle", "devices", "inprocess")
    with tempfile.TemporaryDirectory() as folder:
        # On a busy machine a shorter window has too few answers for a p99, and so for a bar of one.
        code, said = service_bench(["--out", folder, "--programs", build, "--seconds", "2", "--rounds", "1",
                                    "--unread-clients", "4", "--only", ",".join(names)] + SMALL)
        assert code == 0, said
        assert read_table(folder) == []  # the table has the transport's rows only
        # Batches against load have no bar.
        document = check_report(folder, set(names) - {"batches"})
        rounds = {(r["section"], r["cell"]): r["windows"] for r in document["rounds"]}
        for mode in ("shut window", "full TCP socket", "full unix socket"):
            beside = rounds["unread", mode]["beside"]["figures"]
            assert beside["clients"] == 4 and beside["held_bytes_most"] > 1 << 20, beside
            assert beside["held_bytes_most"] <= 4 * beside["share_bytes"], beside
            assert 0 < beside["back_s"] < beside["answer_timeout_s"] + 15, beside
        below, above = (rounds["overload", "4 KiB"][part]["figures"] for part in ("0.8", "2.0"))
        assert above["offered_per_s"] > 2 * below["offered_per_s"], (below, above)
        assert above["timeout_s"] < below["timeout_s"], (below, above)
        for window in rounds["inprocess", "4 KiB"].values():
            assert window["figures"]["judged"] > 0 and window["figures"]["wrong"] == 0, window
        for cell in ("echo", "null", "cpu"):
            # A loaded machine cannot make a process use CPU; a spinning thread would use all it can get.
            assert 0 <= rounds["idle", cell][cell]["figures"]["cpu_cores"] < 0.2, rounds["idle", cell]
        batches = [rounds["batches", f"{n} in flight"]["service"]["figures"]["launches_per_s"] for n in (16, 512)]
        assert min(batches) > 0, batches


def usage(build):
    with tempfile.TemporaryDirectory() as folder:
        for flags, expected in ((["--only", "saturation,speed"], "--only speed: expected saturation, "),
                                (["--payloads", "63"], "--payloads [63]: multiples of 4"),
                                (["--payloads", "1k"], "--payloads 1k: whole numbers"),
                                (["--rounds", "0"], "--rounds 0: at least 1"),
                                (["--seconds", "0"], "--seconds 0: at least 0.05"),
                                (["--backend", "null"], "--backend null: expected cuda, cpu"),
                                (["--report"], "settings.json")):
            code, said = service_bench(["--out", folder, "--programs", build] + flags)
            assert code == 2 and expected in said and "Traceback" not in said, (flags, code, said)
        code, said = service_bench(["--out", folder, "--programs", folder, "--backend", "cpu"])
        assert code == 3 and "softmax-loadgen is not in" in said and "Traceback" not in said, said


if __name__ == "__main__":
    {"table": table, "scenarios": scenarios, "usage": usage}[sys.argv[1]](sys.argv[2])
    print("service_bench:", sys.argv[1], "as it should be")

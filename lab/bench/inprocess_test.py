#!/usr/bin/env python3
"""softmax-inprocess-bench as its users run it: inprocess_test.py PROGRAM."""
import csv
import os
import subprocess
import sys
import tempfile

SHORT = ["--seconds", "0.2", "--warmup", "0.05"]


def run(program, *flags):
    return subprocess.run([program, *flags], capture_output=True, text=True, timeout=120, check=False)


def check(program, *flags):
    done = run(program, *flags, *SHORT)
    assert done.returncode == 0, done
    (row,) = csv.DictReader(done.stdout.splitlines())
    rate, payload = float(row["requests_per_s"]), int(row["payload_bytes"])
    assert rate > 0 and abs(float(row["GBps"]) * 1e9 / (rate * payload) - 1) < 0.01, row
    assert 0 < float(row["p50_us"]) <= float(row["p99_us"]), row
    batches = float(row["launches_per_s"]) * float(row["mean_batch_requests"])
    assert 0.5 < batches / rate < 2, row  # the window's edges cut through batches
    assert row["wrong"] == row["failed"] == "0", row
    return row


def main(program):
    small = check(program, "--backend", "cpu", "--payload", "4096", "--threads", "2", "--in-flight", "40")
    assert (small["backend"], small["threads"], small["in_flight"]) == ("cpu", "2", "40"), small
    assert int(small["judged"]) >= 80 and float(small["mean_batch_requests"]) > 1, small
    large = check(program, "--backend", "cpu", "--payload", "2MiB", "--columns", "1024", "--arena-bytes", "64MiB")
    assert large["payload_bytes"] == str(2 << 20) and float(large["mean_batch_requests"]) == 1, large
    posed = check(program, "--backend", "cpu", "--payload", "256KiB", "--threads", "2", "--pose-as", "3")
    assert posed["devices"] == "3", posed
    null = check(program, "--backend", "null", "--payload", "64")
    assert null["judged"] == "0", null  # there is nothing to judge

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.csv")
        for _ in range(2):
            check(program, "--backend", "null", "--csv", path)
        with open(path, encoding="utf-8") as file:
            assert [row["backend"] for row in csv.DictReader(file)] == ["null", "null"]

    for flags, expected in ((["--payload", "3"], "--payload"), (["--payload", "4098"], "multiple of 4"),
                            (["--columns", "7"], "--columns 7: does not divide"),
                            (["--payload", "512MiB"], "half of --arena-bytes"), (["--backend", "gpu"], "--backend"),
                            (["--arena-bytes", "100000"], "--arena-bytes")):
        done = run(program, *flags)
        assert done.returncode not in (0, 1) and expected in done.stderr + done.stdout, (flags, done)
    print("softmax-inprocess-bench measures and refuses as it should")


if __name__ == "__main__":
    main(sys.argv[1])

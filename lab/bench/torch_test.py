#!/usr/bin/env python3
"""The Python baseline: torch_test.py BUILD_FOLDER. With torch where it is installed, with numpy in its place otherwise;
skipped where grpcio is not."""
import os
import subprocess
import sys
import tempfile

from running import HERE, SKIPPED, python_with, read_table, row_of, service_bench


def main(build):
    python = python_with(["grpc", "google.protobuf", "numpy"])
    if python is None:
        print("SKIPPED: no Python here has grpcio, protobuf and numpy")
        return SKIPPED
    torch = python_with(["grpc", "google.protobuf", "numpy", "torch"])
    if torch is None:
        # Without torch it says so in one line, and the benchmark goes on without it.
        generated = os.path.join(build, "lab", "bench", "python")
        done = subprocess.run([python, os.path.join(HERE, "torch_baseline.py"), "--generated", generated],
                              capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == SKIPPED and done.stdout == f"skipped: torch is not installed for {python}\n", done
    with tempfile.TemporaryDirectory() as folder:
        code, said = service_bench(["--programs", build, "--out", folder, "--only", "baselines", "--backend", "cpu",
                                    "--rounds", "1", "--seconds", "0.3", "--warmup", "0.1", "--payloads", "4096"]
                                   + ([] if torch else ["--numpy"]), torch or python)
        assert code == 0, said
        # softmax-loadgen verified 1 % of its answers, and the first of each connection.
        row = row_of(read_table(folder), backend="torch", method="unary", payload_bytes=4096)
        assert float(row["calls_per_s"]) > 0, row
    print("the Python baseline answers right, with", "torch" if torch else "numpy in torch's place")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

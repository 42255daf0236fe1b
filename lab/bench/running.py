"""What the tests here share: the command as its users run it."""
import csv
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = os.path.join(HERE, "service_bench")
SKIPPED = 77  # ctest shows a test as skipped that ends so
# The columns that readers of docs/measurements rely on.
COLUMNS = ("server,backend,method,transport,payload_bytes,connections,in_flight,calls_per_s,GBps,p50_us,p99_us,p999_us,"
           "server_cpu_us_per_call,copies_in,copies_out,mean_batch_requests,ratio_to_echo,ratio_low,ratio_high")


def service_bench(arguments, python=sys.executable, timeout=800):
    """(exit code, all it said)"""
    done = subprocess.run([python, "-B", COMMAND] + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout, check=False)
    return done.returncode, done.stdout


def read_table(folder):
    path = os.path.join(folder, "service.csv")
    with open(path, encoding="utf-8") as file:
        head = file.readline().strip()
        assert head == COLUMNS, head
        file.seek(0)
        return list(csv.DictReader(file))


def row_of(table, **key):
    found = [row for row in table if all(row[name] == str(value) for name, value in key.items())]
    assert len(found) == 1, f"{len(found)} rows with {key}"
    return found[0]


def python_with(modules):
    """A Python that has these modules, or None: the distribution's may stand behind another in PATH."""
    for python in (sys.executable, "/usr/bin/python3"):
        tried = subprocess.run([python, "-c", "import " + ",".join(modules)], capture_output=True, check=False)
        if tried.returncode == 0:
            return python
    return None

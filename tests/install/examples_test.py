#!/usr/bin/env python3
"""Runs an example as its readers would: examples_test.py shell|node FAKE_SERVER SOFTMAX_CLIENT SOFTMAX_SERVER.
The server answers what the fake one does not: the most probable elements."""
import contextlib
import math
import os
import shutil
import subprocess
import sys
import tempfile

from running import SKIPPED, run, server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS = [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [-5.0, 40.0, 0.5]]
INPUT = "".join(" ".join(str(x) for x in row) + "\n" for row in ROWS)


def softmax(row):
    exponentials = [math.exp(x - max(row)) for x in row]
    return [x / math.fsum(exponentials) for x in exponentials]


def check(output):
    answers = [[float(word) for word in line.split()] for line in output.splitlines()]
    assert len(answers) == len(ROWS), output
    for answer, row in zip(answers, ROWS):
        assert len(answer) == len(row), output
        for got, want in zip(answer, softmax(row)):
            assert abs(got - want) <= 1e-6 * want + 1e-30, f"{got} for {want}"


def check_top(output):
    """The two most probable of each row, equal ones by their index: row, index, probability."""
    answers = [line.split() for line in output.splitlines() if not line.startswith("#")]
    assert [answer[:2] for answer in answers] == [["0", "2"], ["0", "1"], ["1", "0"], ["1", "1"], ["2", "1"],
                                                  ["2", "2"]], output
    for row, index, probability in answers:
        want = softmax(ROWS[int(row)])[int(index)]
        assert abs(float(probability) - want) <= 1e-5 * want, output


def test_shell(target, top_target, _folder, client):
    script = os.path.join(ROOT, "client/examples/shell/softmax_request.sh")
    environment = {"SOFTMAX_CLIENT": client}
    check(run(["sh", script, target], stdin=INPUT, environment=environment))
    check_top(run(["sh", script, top_target, "--top", "2"], stdin=INPUT, environment=environment))


def install_node_example(folder):
    """The example with its packages in `folder`; a reason instead, when that cannot be."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"no {program}"
    for name in ("package.json", "softmax_request.js"):
        shutil.copy(os.path.join(ROOT, "client/examples/node", name), folder)
    try:
        run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder],
            timeout=240)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return "npm could not install the example's packages: " + str(error).splitlines()[0]
    return None


def test_node(target, top_target, folder, _client):
    reason = install_node_example(folder)
    if reason:
        print("SKIPPED:", reason)
        sys.exit(SKIPPED)
    script = os.path.join(folder, "softmax_request.js")
    environment = {"SOFTMAX_PROTO": os.path.join(ROOT, "proto/softmax/v1/softmax.proto")}
    check(run(["node", script, target], stdin=INPUT, environment=environment, timeout=60))
    wide = " ".join(str(i % 7) for i in range(1500000)) + "\n"  # 6 MB: above gRPC's own limit
    answer = run(["node", script, target], stdin=wide, environment=environment, timeout=120).split()
    assert len(answer) == 1500000 and abs(sum(map(float, answer)) - 1) < 1e-3, len(answer)
    refused = subprocess.run(["node", script, target], input="1 2\n3\n", capture_output=True, text=True, timeout=60,
                             check=False, env={**os.environ, **environment})
    assert refused.returncode == 1 and "same number" in refused.stderr, refused
    check_top(run(["node", script, top_target, "2"], stdin=INPUT, environment=environment, timeout=60))


def main():
    which, fake_server, client, softmax_server = sys.argv[1:5]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        target = stack.enter_context(server([fake_server], folder, "fake.sock"))
        command = [softmax_server, "--backend", "cpu", "--metrics-address", "none", "--address"]
        top_target = stack.enter_context(server(command, folder, "server.sock"))
        {"shell": test_shell, "node": test_node}[which](target, top_target, folder, client)
    print(f"the {which} example answers right")


if __name__ == "__main__":
    main()

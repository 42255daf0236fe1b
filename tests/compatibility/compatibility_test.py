#!/usr/bin/env python3
"""Public tools against a running server: compatibility_test.py SERVER [unittest arguments]. What is not installed is
skipped by name; docs/compatibility.md says what was run."""
import base64
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from running_server import RunningServer  # noqa: E402

TOOLS = os.path.join(ROOT, "build/tools")
SERVER = sys.argv.pop(1)
INPUT = struct.pack("<2f", 0.0, 0.0)
OUTPUT = struct.pack("<2f", 0.5, 0.5)
METHODS = ["softmax.v1.SoftmaxService/GetServerInfo", "softmax.v1.SoftmaxService/Softmax",
           "softmax.v1.SoftmaxService/SoftmaxStream", "grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch"]
# Tensor: dtype 1 = FLOAT32, shape 1 x 2, data.
TENSOR = b"\x08\x01\x12\x02\x01\x02\x7a\x08" + INPUT
REQUEST = b"\x7a" + bytes([len(TENSOR)]) + TENSOR


def tool(name):
    return shutil.which(name, path=os.path.join(TOOLS, "bin") + os.pathsep + os.environ["PATH"])


class Compatibility(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = RunningServer(SERVER, os.path.join(folder.name, "server.log"))
        cls.addClassCleanup(cls.server.kill)

    def needs(self, name):
        path = tool(name)
        if path is None:
            self.skipTest(f"no {name}")
        return path

    def run_tool(self, *command, given=None):
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def check_answer(self, text):
        self.assertEqual(base64.b64decode(json.loads(text)["output"]["data"]), OUTPUT, text)

    def request_json(self):
        return json.dumps({"input": {"dtype": "DATA_TYPE_FLOAT32", "shape": ["1", "2"],
                                     "data": base64.b64encode(INPUT).decode()}})

    def test_grpcurl(self):
        grpcurl = self.needs("grpcurl")
        listed = self.run_tool(grpcurl, "-plaintext", self.server.address, "list")
        self.assertIn("softmax.v1.SoftmaxService", listed.split())
        self.check_answer(self.run_tool(grpcurl, "-plaintext", "-d", self.request_json(), self.server.address,
                                        "softmax.v1.SoftmaxService/Softmax"))

    def test_buf_curl(self):
        buf = [self.needs("buf"), "curl", "--protocol", "grpc", "--http2-prior-knowledge"]
        listed = self.run_tool(*buf, "--list-methods", f"http://{self.server.address}").split()
        self.assertLessEqual(set(METHODS), set(listed))
        # With the schema by reflection, and from the file.
        for schema in ([], ["--schema", os.path.join(ROOT, "proto")]):
            self.check_answer(self.run_tool(*buf, *schema, "-d", self.request_json(),
                                            f"http://{self.server.address}/softmax.v1.SoftmaxService/Softmax"))

    def test_grpc_health_probe(self):
        probe = self.needs("grpc_health_probe")
        for service in ("", "readiness", "liveness"):
            self.run_tool(probe, "-addr=" + self.server.address, "-service=" + service)

    def test_grpcio(self):
        script = f"""import grpc
with grpc.insecure_channel({self.server.address!r}) as channel:
    answer = channel.unary_unary("/softmax.v1.SoftmaxService/Softmax")({REQUEST!r}, timeout=10)
    stream = channel.stream_stream("/softmax.v1.SoftmaxService/SoftmaxStream")
    one = {bytes([0x0a, len(REQUEST)]) + REQUEST!r}
    answers = list(stream(iter([one, one]), timeout=10))
    health = channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10)
    assert health == b"\\x08\\x01", health
    assert all({OUTPUT!r} in part for part in [answer]) and {OUTPUT!r} in b"".join(answers)
    try:
        channel.unary_unary("/softmax.v1.SoftmaxService/Nothing")(b"", timeout=10)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED and error.details(), error
    else:
        raise AssertionError("an unknown method was answered")
"""
        # The distribution's grpcio belongs to the distribution's Python.
        for python in ("python3", "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import grpc"], capture_output=True, check=False).returncode == 0:
                self.run_tool(python, "-c", script)
                return
        self.skipTest("no python3-grpcio")

    def test_grpc_js(self):
        node = self.needs("node")
        folder = os.path.join(TOOLS, "grpc-js")
        if not os.path.isdir(os.path.join(folder, "node_modules/@grpc/grpc-js")):
            self.skipTest("no @grpc/grpc-js: scripts/setup.sh all fetches it by npm")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "call.js")
        answers = self.run_tool(node, script, folder, self.server.address, REQUEST.hex()).split()
        self.assertEqual(len(answers), 3)
        for answer in answers:
            self.assertIn(OUTPUT.hex(), answer)

    def test_promtool(self):
        promtool = self.needs("promtool")
        with urllib.request.urlopen(f"http://{self.server.metrics}/metrics", timeout=10) as response:
            text = response.read().decode()
        self.assertIn("softmax_build_info", text)
        self.assertEqual(self.run_tool(promtool, "check", "metrics", given=text), "")


if __name__ == "__main__":
    unittest.main()

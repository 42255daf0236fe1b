#!/usr/bin/env python3
"""Public clients of gRPC against the echo without gRPC: conformance_test.py SERVER CLIENT [unittest arguments]. CLIENT:
softmax-client, which is gRPC's C++ client. A client that is not installed is skipped by name."""
import os
import random
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TOOLS = os.path.join(ROOT, "build/tools")
SERVER, CLIENT = sys.argv.pop(1), sys.argv.pop(1)


def tool(name):
    return shutil.which(name, path=os.path.join(TOOLS, "bin") + os.pathsep + os.environ["PATH"])


class Conformance(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([SERVER, "--address", "127.0.0.1:0", "--threads", "2"], stdout=subprocess.PIPE,
                                       text=True)
        self.server.stdout.readline()
        self.address = self.server.stdout.readline().strip().removeprefix("listening on ")

    def tearDown(self):
        # Whatever a client did to it, it ends by itself and in order.
        self.server.terminate()
        self.assertEqual(self.server.wait(timeout=30), 0)
        self.server.stdout.close()

    def run_tool(self, *command, given=None):
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def needs(self, name):
        path = tool(name)
        if path is None:
            self.skipTest(f"no {name}")
        return path

    def test_cpp(self):
        for count in (3, 40_000, 3_000_000):
            numbers = [random.Random(count).randrange(-1000, 1000) for _ in range(count)]
            text = self.run_tool(CLIENT, "--address", self.address, given=" ".join(map(str, numbers)) + "\n")
            self.assertEqual([float(number) for number in text.split()], numbers)

    def test_grpcio(self):
        # The distribution's grpcio belongs to the distribution's Python.
        for python in ("python3", "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import grpc"], capture_output=True, check=False).returncode == 0:
                self.assertIn("ok", self.run_tool(python, "-B", os.path.join(HERE, "calls.py"), self.address))
                return
        self.skipTest("no python3-grpcio")

    def test_grpc_js(self):
        node = self.needs("node")
        folder = os.environ.get("GRPC_JS_FOLDER", os.path.join(TOOLS, "grpc-js"))
        if not os.path.isdir(os.path.join(folder, "node_modules/@grpc/grpc-js")):
            self.skipTest("no @grpc/grpc-js: scripts/setup.sh all fetches it by npm")
        self.assertIn("ok", self.run_tool(node, os.path.join(HERE, "calls.js"), folder, self.address))

    # Both are clients in Go: grpc-go and connect-go.
    def check_by_schema(self, *command):
        sent = '{"id": "7", "timeoutUs": 100}'
        answer = self.run_tool(*command, given=sent)
        self.assertIn('"id": "7"', answer.replace('":"', '": "'))

    def test_grpcurl(self):
        self.check_by_schema(self.needs("grpcurl"), "-plaintext", "-import-path", os.path.join(ROOT, "proto"), "-proto",
                             "softmax/v1/softmax.proto", "-d", "@", self.address, "softmax.v1.SoftmaxService/Softmax")

    def test_buf_curl(self):
        self.check_by_schema(self.needs("buf"), "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--schema",
                             os.path.join(ROOT, "proto"), "-d", "@-",
                             f"http://{self.address}/softmax.v1.SoftmaxService/Softmax")

    def test_h2spec(self):
        done = subprocess.run([self.needs("h2spec"), "-h", "127.0.0.1", "-p", self.address.rpartition(":")[2], "-t",
                               "--path", "/softmax.v1.SoftmaxService/Softmax"], capture_output=True, text=True,
                              timeout=200, check=False)
        self.assertIn(" 0 failed", done.stdout, done.stdout[-3000:])


if __name__ == "__main__":
    unittest.main()

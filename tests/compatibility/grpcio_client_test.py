#!/usr/bin/env python3
"""Runs grpcio_client.py against a real server: `grpcio_client_test.py PATH_OF_SOFTMAX_SERVER`."""
import array
import importlib
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from running_server import RunningServer  # noqa: E402


def generate(folder):
    plugin = shutil.which("grpc_python_plugin")
    subprocess.run(["protoc", "-I", os.path.join(ROOT, "proto"), f"--python_out={folder}",
                    f"--grpc_python_out={folder}", f"--plugin=protoc-gen-grpc_python={plugin}",
                    os.path.join(ROOT, "proto/softmax/v1/softmax.proto")], check=True)


def reference(row):
    largest = max(row)
    exponentials = [math.exp(value - largest) for value in row]
    total = math.fsum(exponentials)
    return [value / total for value in exponentials]


class SoftmaxRequest(unittest.TestCase):
    address = folder = example = grpc = None

    def softmax(self, values, shape):
        return self.example.softmax(self.example.connect(self.address), values, shape)

    def check_rows(self, values, width):
        result = self.softmax(values, [len(values) // width, width])
        self.assertEqual(len(result), len(values))
        for start in range(0, len(values), width):
            expected = reference(values[start:start + width])
            for got, want in zip(result[start:start + width], expected):
                self.assertLessEqual(abs(got - want), 1e-5 * want + 1e-37)

    def run_command(self, text, **variables):
        return subprocess.run([sys.executable, os.path.join(HERE, "grpcio_client.py"), self.address],
                              input=text, capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PYTHONPATH": self.folder, **variables})

    def test_answers_as_a_command(self):
        done = self.run_command("1 2 3\n0 0 0\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
        self.assertEqual(len(rows), 2)
        for got, want in zip(rows[0] + rows[1], reference([1, 2, 3]) + [1 / 3] * 3):
            self.assertAlmostEqual(got, want, delta=1e-6)

    def test_no_proxy_is_asked_for_this_machine(self):
        done = self.run_command("0 0\n", http_proxy="http://127.0.0.1:1")
        self.assertEqual(done.stdout, "0.5 0.5\n", done.stderr)

    def test_a_number_too_large_for_float32_is_refused(self):
        done = self.run_command("1e39 0\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("too large for float32", done.stderr)

    def test_answers_many_widths(self):
        randomness = random.Random(7)
        for width in (1, 2, 31, 33, 781, 1025):
            self.check_rows(array.array("f", (randomness.gauss(0, 3) for _ in range(3 * width))), width)

    def test_receives_more_than_grpcs_own_limit(self):
        randomness = random.Random(8)
        self.check_rows(array.array("f", (randomness.gauss(0, 1) for _ in range(40 * 50257))), 50257)  # 8 MB

    def test_the_most_probable_alone(self):
        randomness = random.Random(9)
        width, k = 5000, 7
        values = array.array("f", (randomness.gauss(0, 3) for _ in range(2 * width)))
        with self.grpc.insecure_channel(self.address) as channel:
            stub = importlib.import_module("softmax.v1.softmax_pb2_grpc").SoftmaxServiceStub(channel)
            rows, log_sum_exp = self.example.top(stub, values, [2, width], k)
        whole = self.softmax(values, [2, width])
        for row in range(2):
            part = values[row * width:(row + 1) * width]
            order = sorted(range(width), key=lambda i: (-part[i], i))[:k]
            self.assertEqual([index for index, _ in rows[row]], order)
            for index, probability in rows[row]:
                self.assertEqual(probability, whole[row * width + index])
            expected = max(part) + math.log(sum(math.exp(x - max(part)) for x in part))
            self.assertAlmostEqual(log_sum_exp[row], expected, delta=1e-5)

    def refused(self, code, word, call):
        with self.assertRaises(self.grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code)
        self.assertIn(word, caught.exception.details())

    def test_a_wrong_shape_is_named(self):
        self.refused(self.grpc.StatusCode.INVALID_ARGUMENT, "data",
                     lambda: self.softmax(array.array("f", [1, 2, 3]), [1, 4]))

    def test_a_compressed_request_is_named(self):
        for compression in (self.grpc.Compression.Gzip, self.grpc.Compression.Deflate):
            with self.grpc.insecure_channel(self.address, compression=compression) as channel:
                modules = importlib.import_module("softmax.v1.softmax_pb2_grpc")
                stub = modules.SoftmaxServiceStub(channel)
                self.refused(self.grpc.StatusCode.UNIMPLEMENTED, "identity",
                             lambda: self.example.softmax(stub, array.array("f", [1.0] * 10000), [1, 10000]))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        generate(folder)
        sys.path[:0] = [folder, HERE]
        server = RunningServer(sys.argv[1], os.path.join(folder, "server.log"), metrics="none")
        try:
            SoftmaxRequest.address, SoftmaxRequest.folder = server.address, folder
            SoftmaxRequest.grpc = importlib.import_module("grpc")
            SoftmaxRequest.example = importlib.import_module("grpcio_client")
            result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
        finally:
            code = server.stop()
    if code != 0:
        print(f"the server left with exit code {code}")
    return 0 if result.wasSuccessful() and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

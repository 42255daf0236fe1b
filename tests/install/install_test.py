#!/usr/bin/env python3
"""Installs the client and builds other projects against it: install_test.py BUILD FAKE_SERVER CXX [CXX_FLAGS].

Of this source tree they see nothing but their own folder.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from running import run, server

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD, FAKE_SERVER, CXX = sys.argv[1:4]
CXX_FLAGS = sys.argv[4] if len(sys.argv) > 4 else ""


class InstalledClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # Moved after its installation: it must not know where it was.
        before = os.path.join(cls.folder, "before")
        cls.prefix = os.path.join(cls.folder, "prefix")
        run(["cmake", "--install", BUILD, "--component", "client", "--prefix", before])
        os.rename(before, cls.prefix)

    def project(self, source):
        """Copies, configures and builds a project; the folder of its programs."""
        name = os.path.basename(source)
        copy = os.path.join(self.folder, name)
        out = os.path.join(self.folder, name + "_out")
        shutil.copytree(source, copy)
        run(["cmake", "-S", copy, "-B", out, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={CXX}",
             f"-DCMAKE_CXX_FLAGS={CXX_FLAGS}"])
        run(["cmake", "--build", out, "-j", "2"])
        return out

    def test_only_the_client_is_installed(self):
        files = sorted(os.path.relpath(path, self.prefix) for path in glob.glob(self.prefix + "/**", recursive=True)
                       if os.path.isfile(path))
        self.assertEqual(files, ["include/softmax/client/options.h", "include/softmax/client/softmax_client.h",
                                 "include/softmax/client/types.h", "lib/cmake/softmax/softmaxConfig.cmake",
                                 "lib/cmake/softmax/softmaxConfigVersion.cmake", "lib/libsoftmax_client.a",
                                 "lib/pkgconfig/softmax-client.pc"])
        for path in files:
            if path.endswith(".a"):
                continue
            with open(os.path.join(self.prefix, path), encoding="utf-8") as file:
                self.assertNotIn(ROOT, file.read(), path)

    def test_a_project_finds_it_with_cmake(self):
        out = self.project(os.path.join(HERE, "consumer"))
        with server(FAKE_SERVER, out) as target:
            self.assertEqual(run([out + "/consumer", target]), "1.2.3 0.090031 0.244728 0.665241\n")

    def test_another_version_is_refused(self):
        source = os.path.join(self.folder, "newer")
        os.makedirs(source)
        with open(source + "/CMakeLists.txt", "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(newer LANGUAGES CXX)\n"
                       "find_package(softmax 99.0 CONFIG REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, "compatible with requested version"):
            run(["cmake", "-S", source, "-B", source + "/out", f"-DCMAKE_PREFIX_PATH={self.prefix}"])

    def pkg_config(self, *flags):
        return run(["pkg-config", *flags, "softmax-client"],
                   environment={"PKG_CONFIG_PATH": self.prefix + "/lib/pkgconfig"}).split()

    def test_a_command_line_finds_it_with_pkg_config(self):
        program = os.path.join(self.folder, "by_pkg_config")
        run([CXX, "-std=c++20", *CXX_FLAGS.split(), *self.pkg_config("--cflags"), HERE + "/consumer/main.cc",
             "-o", program, *self.pkg_config("--libs")])
        folder = os.path.join(self.folder, "sock")
        os.makedirs(folder)
        with server(FAKE_SERVER, folder) as target:
            self.assertEqual(run([program, target]), "1.2.3 0.090031 0.244728 0.665241\n")

    def test_its_headers_include_no_grpc(self):
        for header in glob.glob(self.prefix + "/include/softmax/client/*.h"):
            included = run([CXX, "-std=c++20", "-M", "-x", "c++", "-I", self.prefix + "/include", header])
            self.assertIn("absl", run([CXX, "-std=c++20", "-M", "-x", "c++", "-I", self.prefix + "/include",
                                       self.prefix + "/include/softmax/client/softmax_client.h"]))
            self.assertIsNone(re.search(r"/(grpc|grpcpp|google/protobuf)/|\.pb\.h", included), header)

    def test_the_examples_build_and_run(self):
        out = self.project(os.path.join(ROOT, "client/examples/cpp"))
        with server(FAKE_SERVER, out) as target:
            self.assertEqual(run([out + "/sync", target, "1", "2", "3"]), "0.0900306 0.244728 0.665241 \n")
            self.assertRegex(run([out + "/async", target]), r"^100 answers, \d+ retries\n$")
            self.assertEqual(run([out + "/stream", target]), "100 streamed, 100 batched\n")
        nobody = subprocess.run([out + "/sync", "unix:/nonexistent", "1"], capture_output=True, text=True, timeout=60,
                                check=False)
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("unix:/nonexistent: nobody listens there", nobody.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""Installs the client and builds other projects against it: install_test.py BUILD FAKE_SERVER SERVER CXX [CXX_FLAGS].

Of this source tree they see nothing but their own folder.
"""
import fcntl
import glob
import math
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

from running import run, server

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD, FAKE_SERVER, SERVER, CXX = sys.argv[1:5]
PROGRAMS = ("softmax-server", "softmax-client", "softmax-loadgen")
CXX_FLAGS = sys.argv[5] if len(sys.argv) > 5 else ""


class InstalledClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # Moved after its installation: it must not know where it was.
        before = os.path.join(cls.folder, "before")
        cls.prefix = os.path.join(cls.folder, "prefix")
        for component in ("client", "library"):
            run(["cmake", "--install", BUILD, "--component", component, "--prefix", before])
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
        self.assertEqual(files, ["include/softmax/client/options.h", "include/softmax/client/region.h",
                                 "include/softmax/client/softmax_client.h", "include/softmax/client/types.h",
                                 "include/softmax/softmax.h", "lib/cmake/softmax/softmaxConfig.cmake",
                                 "lib/cmake/softmax/softmaxConfigVersion.cmake", "lib/libsoftmax_client.a",
                                 "lib/libsoftmax_client.so", "lib/libsoftmax_client.so.1",
                                 "lib/pkgconfig/softmax-client-c.pc", "lib/pkgconfig/softmax-client.pc"])
        for path in files:
            if path.endswith(".a") or ".so" in path:
                continue
            with open(os.path.join(self.prefix, path), encoding="utf-8") as file:
                self.assertNotIn(ROOT, file.read(), path)

    def test_a_project_finds_it_with_cmake(self):
        out = self.project(os.path.join(HERE, "consumer"))
        with server([FAKE_SERVER], out) as target:
            self.assertEqual(run([out + "/consumer", target]), "1.2.3 0.090031 0.244728 0.665241\n")

    def test_another_version_is_refused(self):
        source = os.path.join(self.folder, "newer")
        os.makedirs(source)
        with open(source + "/CMakeLists.txt", "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(newer LANGUAGES CXX)\n"
                       "find_package(softmax 99.0 CONFIG REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, "compatible with requested version"):
            run(["cmake", "-S", source, "-B", source + "/out", f"-DCMAKE_PREFIX_PATH={self.prefix}"])

    def pkg_config(self, *flags, of="softmax-client"):
        return run(["pkg-config", *flags, of],
                   environment={"PKG_CONFIG_PATH": self.prefix + "/lib/pkgconfig"}).split()

    def test_a_command_line_finds_it_with_pkg_config(self):
        program = os.path.join(self.folder, "by_pkg_config")
        run([CXX, "-std=c++20", *CXX_FLAGS.split(), *self.pkg_config("--cflags"), HERE + "/consumer/main.cc",
             "-o", program, *self.pkg_config("--libs")])
        folder = os.path.join(self.folder, "sock")
        os.makedirs(folder)
        with server([FAKE_SERVER], folder) as target:
            self.assertEqual(run([program, target]), "1.2.3 0.090031 0.244728 0.665241\n")

    def test_a_program_in_c_needs_nothing_else(self):
        program = os.path.join(self.folder, "in_c")
        run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *self.pkg_config("--cflags", of="softmax-client-c"),
             ROOT + "/client/examples/c/softmax_request.c", "-o", program, f"-Wl,-rpath,{self.prefix}/lib",
             *self.pkg_config("--libs", of="softmax-client-c")])
        folder = os.path.join(self.folder, "sock_c")
        os.makedirs(folder)
        with server([FAKE_SERVER], folder) as target:
            self.assertEqual(run([program, target, "1", "2", "3"]), "0.0900306 0.244728 0.665241 \n")
        nobody = subprocess.run([program, "unix:/nonexistent", "1"], capture_output=True, text=True, timeout=60,
                                check=False)
        self.assertEqual((nobody.returncode, "nobody listens there" in nobody.stderr), (1, True), nobody)

    def test_go_shares_memory_with_the_server(self):
        if not shutil.which("go"):
            self.skipTest("no go")
        folder = os.path.join(self.folder, "go")
        os.makedirs(folder)
        environment = {"PKG_CONFIG_PATH": self.prefix + "/lib/pkgconfig", "GOCACHE": folder + "/cache", "HOME": folder,
                       "CGO_CFLAGS": " ".join(self.pkg_config("--cflags", of="softmax-client-c")),
                       "CGO_LDFLAGS": " ".join(self.pkg_config("--libs", of="softmax-client-c")) +
                                      f" -Wl,-rpath,{self.prefix}/lib"}
        run(["go", "build", "-o", folder + "/example", ROOT + "/client/examples/go/softmax_region.go"],
            environment=environment, timeout=300)
        command = [SERVER, "--backend", "cpu", "--metrics-address", "none", "--regions-socket", folder + "/regions",
                   "--address"]
        with server(command, folder, "server.sock") as target:
            lines = run([folder + "/example", target, "3", "1000"]).splitlines()
        for row, line in enumerate(lines):
            whole = sum(math.exp(i % 7) for i in range(row * 1000, (row + 1) * 1000))
            self.assertEqual(line, f"{math.exp(row * 1000 % 7) / whole:.5f} 1.00000")
        self.assertEqual(len(lines), 3)

    def test_its_headers_include_no_grpc(self):
        for header in glob.glob(self.prefix + "/include/softmax/client/*.h"):
            included = run([CXX, "-std=c++20", "-M", "-x", "c++", "-I", self.prefix + "/include", header])
            self.assertIn("absl", run([CXX, "-std=c++20", "-M", "-x", "c++", "-I", self.prefix + "/include",
                                       self.prefix + "/include/softmax/client/softmax_client.h"]))
            self.assertIsNone(re.search(r"/(grpc|grpcpp|google/protobuf)/|\.pb\.h", included), header)

    def test_the_examples_build_and_run(self):
        out = self.project(os.path.join(ROOT, "client/examples/cpp"))
        with server([FAKE_SERVER], out) as target:
            self.assertEqual(run([out + "/sync", target, "1", "2", "3"]), "0.0900306 0.244728 0.665241 \n")
            self.assertRegex(run([out + "/async", target]), r"^100 answers, \d+ retries\n$")
            self.assertEqual(run([out + "/stream", target]), "100 streamed, 100 batched\n")
        nobody = subprocess.run([out + "/sync", "unix:/nonexistent", "1"], capture_output=True, text=True, timeout=60,
                                check=False)
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("unix:/nonexistent: nobody listens there", nobody.stderr)


class Manuals(unittest.TestCase):
    """Man pages and completions: installed, whole, and such as their readers take."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run(["cmake", "--install", BUILD, "--component", "manuals", "--prefix", cls.folder])
        cls.share = os.path.join(cls.folder, "share")

    def read(self, *path):
        with open(os.path.join(self.share, *path), encoding="utf-8") as file:
            return file.read()

    def binary(self, program):
        return next(path for path in glob.glob(f"{BUILD}/**/{program}", recursive=True) if os.access(path, os.X_OK))

    def flags_of(self, program):
        told = run([self.binary(program), "--help"])
        flags = set()
        for names in re.findall(r"^  (-\S+)", told, re.MULTILINE):
            flags.update(names.split(","))
        self.assertGreater(len(flags), 15)
        return flags

    def test_every_flag_is_in_all_three(self):
        for program in PROGRAMS:
            page = self.read("man/man1", program + ".1").replace("\\-", "-")
            bash = self.read("bash-completion/completions", program)
            zsh = self.read("zsh/site-functions", "_" + program)
            for flag in self.flags_of(program):
                self.assertIn(f"\\fB{flag}\\fR", page, program)
                self.assertRegex(bash, rf"[ \"]{flag}[ \"]", program)
                self.assertRegex(zsh, rf"'{flag}[=\[]", program)
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES"):
                self.assertIn(f".SH {section}\n", page, program)

    def test_man_and_the_shells_read_them(self):
        for program in PROGRAMS:
            if shutil.which("man"):
                page = os.path.join(self.share, "man/man1", program + ".1")
                shown = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, timeout=60,
                                       check=False, env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
                self.assertEqual((shown.returncode, shown.stderr), (0, ""), program)
                self.assertIn("--version", shown.stdout)
            run(["bash", "-n", os.path.join(self.share, "bash-completion/completions", program)])
            if shutil.which("zsh"):
                run(["zsh", "-n", os.path.join(self.share, "zsh/site-functions", "_" + program)])

    def help_on_a_terminal(self, program, columns):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([self.binary(program), "--help"], stdout=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                block = os.read(ours, 65536)
            except OSError:  # how a terminal says that nobody writes any more
                block = b""
            if not block:
                break
            text += block
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        return text.decode().replace("\r\n", "\n")

    def test_help_is_as_wide_as_the_terminal(self):
        for program in PROGRAMS:
            whole = run([self.binary(program), "--help"])
            for columns in (60, 80, 100):
                shown = self.help_on_a_terminal(program, columns)
                self.assertEqual(shown.split(), whole.split(), program)
                # Flags and examples may stand out, texts do not.
                long = [line for line in shown.split("\n") if len(line) > columns and line.startswith(" " * 20)]
                self.assertEqual(long, [], program)
            self.assertIn("\nExamples:\n  " + program, whole.replace("echo 1 2 3 | ", ""))

    def completed(self, *words):
        script = os.path.join(self.share, "bash-completion/completions/softmax-client")
        told = run(["bash", "-c", 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _softmax_client; '
                    'printf "%s\\n" "${COMPREPLY[@]}"', script, "softmax-client", *words])
        return told.split()

    def test_bash_completes(self):
        self.assertEqual(self.completed("--he"), ["--help", "--health"])
        self.assertEqual(self.completed("--dtype", "flo"), ["float16", "float32", "float64"])
        self.assertEqual(self.completed("--dtype", "=", "b"), ["bfloat16"])
        with open(os.path.join(self.folder, "some.npy"), "w", encoding="ascii"):
            self.assertEqual(self.completed("-o", self.folder + "/so"), [self.folder + "/some.npy"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])

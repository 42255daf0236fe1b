"""What is not to be had: threads, descriptors, memory, room on a disk, ports. Each program says so in one line with
what was asked for, ends with exit code 3, and soon. shortage_test.py SERVER CLIENT LOADGEN"""
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest

SERVER, CLIENT, LOADGEN = sys.argv[1:4]
# Limits on threads do not bind root, and are counted by user: this one has no other process.
USER = 51000 + os.getpid() % 10000
# Without the settings of whoever runs the tests.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SOFTMAX_")}
PATIENCE_S = 60  # on a busy machine; the programs' own --timeout is 2 s


def run(command, limits=(), output=None):
    def prepare():
        for what, most in limits:
            resource.setrlimit(what, (most, most))
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)

    begin = time.monotonic()
    done = subprocess.run(command, input=b"1 2 3\n", stdout=output or subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=prepare, timeout=PATIENCE_S, check=False, cwd="/", env=ENVIRONMENT)
    return done.returncode, done.stderr.decode(), time.monotonic() - begin


class Shortage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen(
            [SERVER, "--backend=cpu", "--address=127.0.0.1:0", "--metrics-address=none", "--arena-bytes=64MiB",
             "--max-request-bytes=16MiB", "--max-response-bytes=16MiB"], stderr=subprocess.PIPE, text=True)
        for line in cls.server.stderr:
            if "listening on " in line:
                cls.address = line.split("listening on ")[1].strip()
                break
        cls.call = [CLIENT, "--timeout=2s", "--address", cls.address]
        cls.health = [CLIENT, "--health", "--timeout=2s", "--address", cls.address]
        cls.info = [CLIENT, "--info", "--timeout=2s", "--address", cls.address]
        cls.load = [LOADGEN, "--duration=0.2", "--warmup=0", "--connect-timeout=2", "--address", cls.address]
        cls.serve = [SERVER, "--backend=cpu", "--address=127.0.0.1:0", "--metrics-address=none"]

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.wait()
        cls.server.stderr.close()

    def check_said(self, command, named, limits=(), output=None):
        code, said, took = run(command, limits, output)
        where = f"{command} {limits}: exit code {code} after {took:.1f} s\n{said}"
        self.assertEqual(code, 3, where)
        # A server has said by then what it starts with.
        self.assertEqual(len([line for line in said.splitlines() if " info [" not in line]), 1, where)
        for name in named:
            self.assertIn(name, said, where)
        return said

    def test_threads(self):
        if run([CLIENT, "--version"])[0] != 0:
            self.skipTest("another user cannot run the programs here")
        for most in (1, 3, 6):
            limit = [(resource.RLIMIT_NPROC, most)]
            named = ["threads are needed and only", f"of this user: {most} (ulimit -u)"]
            for command in (self.serve, self.call, self.health, self.load, self.load + ["--stream"],
                            self.load + ["--processes=3"]):
                self.check_said(command, named, limit)

    def test_threads_of_a_server_of_many(self):
        self.check_said(self.serve + ["--threads=64"], ["threads are needed and only"], [(resource.RLIMIT_NPROC, 60)])

    def test_descriptors(self):
        for most in (5, 7, 9):
            limit = [(resource.RLIMIT_NOFILE, most)]
            named = ["file descriptors are needed and only", f"of a process: {most} (ulimit -n)"]
            for command in (self.call, self.health, self.info, self.load):
                self.check_said(command, named, limit)
        many = self.load + ["--connections=200", "--processes=1"]
        self.check_said(many, ["file descriptors are needed and only"], [(resource.RLIMIT_NOFILE, 100)])

    def test_few_descriptors_for_a_server(self):
        def listens(limits, flags=()):
            server = subprocess.Popen(self.serve + list(flags), stderr=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
            said = ""
            for line in server.stderr:
                said += line
                if "listening on " in line:
                    server.kill()
                    break
            server.stderr.close()
            return server.wait(), said

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard == resource.RLIM_INFINITY or hard >= 2 * 4096 + 256:
            code, said = listens((1024, hard))  # raises it to the hard one by itself
            self.assertEqual(code, -signal.SIGKILL, said)
        code, said = listens((1024, 1024))
        self.assertEqual(code, 2, said)
        self.assertIn("--max-connections=4096 does not fit under the limit of open files, 1024", said)
        self.assertIn("384 fit (ulimit -Hn)", said)
        code, said = listens((1024, 1024), ["--max-connections=384"])
        self.assertEqual(code, -signal.SIGKILL, said)

    def test_memory(self):
        for mib in (60, 75, 90):
            limit = [(resource.RLIMIT_AS, mib << 20)]
            for command in (self.call, self.health, self.load):
                self.check_said(command, ["can be had", "ulimit -v"], limit)
        # The server names the flag that asks for most of it.
        self.check_said(self.serve, ["arena-bytes", "512 MiB", "RLIMIT_AS allows 400 MiB"],
                        [(resource.RLIMIT_AS, 400 << 20)])

    def test_memory_for_the_input(self):
        path = f"/tmp/shortage_{os.getpid()}.txt"
        with open(path, "w", encoding="ascii") as file:
            os.chmod(path, 0o644)
            file.write("1 2 3 4 5 6 7 8\n" * 4_000_000)
        try:
            self.check_said(self.call + [path], ["no more memory can be had", "of the 300 MiB", "ulimit -v"],
                            [(resource.RLIMIT_AS, 300 << 20)])
        finally:
            os.unlink(path)

    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            for command in (self.call, self.info, self.health, self.load, [CLIENT, "--help"], [SERVER, "--help"],
                            [SERVER, "--print-config"], [LOADGEN, "--help"], [LOADGEN, "--version"]):
                self.check_said(command, ["standard output: No space left on device"], output=full)
        self.check_said(self.call + ["--output=/dev/full"], ["/dev/full: No space left on device, for 33 bytes"])
        for flag in ("--json", "--html", "--csv"):
            self.check_said(self.load + [flag + "=/dev/full"], ["/dev/full: No space left on device"])

    def test_ports_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            used = f"127.0.0.1:{taken.getsockname()[1]}"
            for flag in ("--address", "--metrics-address", "--health-address"):
                command = [word for word in self.serve if not word.startswith(flag + "=")] + [f"{flag}={used}"]
                self.check_said(command, [used, "in use"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""A server in a memory cgroup as large as the manifests' formula says: floods do not have it killed.

    memory_limit_test.py SERVER END_TO_END_TEST FOLDER_OF_memory.py

Exit code 77, and why, where such a cgroup cannot be made: that takes root and a memory controller."""
import os
import subprocess
import sys
import tempfile
import unittest

SERVER, FLOODS, FORMULA = sys.argv[1:4]
sys.path.insert(0, FORMULA)
import memory  # noqa: E402  (deploy/kubernetes/memory.py)

SETTINGS = {"SOFTMAX_ARENA_BYTES": "64MiB", "SOFTMAX_MEMORY_QUOTA": "512MiB"}
# Those that made the server largest before it ended them.
WORST = ("unknownmethods", "rapidresetofsoftmaxv1SoftmaxServiceSoftmax", "headersthatdonotend", "SETTINGS",
         "callsthatstayopensettingsnotacknowledged")


class Cgroup:
    """A child of this process's own, of either version."""

    made = 0

    def __init__(self, limit):
        with open("/proc/self/cgroup", encoding="ascii") as opened:
            lines = [line.rstrip("\n").split(":", 2) for line in opened]
        old = [path for _, controllers, path in lines if "memory" in controllers.split(",")]
        self.is_old = bool(old)
        place = "/sys/fs/cgroup/memory" + old[0] if old else "/sys/fs/cgroup" + lines[-1][2]
        Cgroup.made += 1
        self.path = os.path.join(place, f"softmax_memory_limit_test_{os.getpid()}_{Cgroup.made}")
        os.mkdir(self.path)
        try:
            self.write("memory.limit_in_bytes" if self.is_old else "memory.max", limit)
        except OSError:
            os.rmdir(self.path)
            raise

    def write(self, file, value):
        with open(os.path.join(self.path, file), "w", encoding="ascii") as opened:
            opened.write(str(value))

    def read(self, file):
        with open(os.path.join(self.path, file), encoding="ascii") as opened:
            return opened.read()

    def killed(self):
        text = self.read("memory.oom_control" if self.is_old else "memory.events")
        return int(dict(line.split() for line in text.splitlines())["oom_kill"])

    def peak(self):
        return int(self.read("memory.max_usage_in_bytes" if self.is_old else "memory.peak"))

    def close(self):
        os.rmdir(self.path)

    def program(self, folder, program):
        """One that runs this program in here."""
        path = os.path.join(folder, "program")
        with open(path, "w", encoding="utf-8") as script:
            script.write(f"#!/bin/sh\necho $$ > '{self.path}/cgroup.procs'\nexec '{program}' \"$@\"\n")
        os.chmod(path, 0o755)
        return path


class MemoryLimit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def in_cgroup(self, limit):
        cgroup = Cgroup(limit)
        self.addCleanup(cgroup.close)
        return cgroup

    def test_floods_do_not_have_it_killed(self):
        self.check_lives(len(WORST), ":".join(f"Attacks/Floods.*/{name}" for name in WORST), connections=1)

    def test_costly_answers_do_not_have_it_killed(self):
        for connections in (1, 8):
            self.check_lives(4, "Kinds/CostlyAnswers.*", connections)

    def check_lives(self, tests, names, connections):
        limit = memory.needed({"arena-bytes": "64MiB", "memory-quota": "512MiB"})
        cgroup = self.in_cgroup(limit)
        done = subprocess.run(
            [FLOODS, "--gtest_filter=" + names],
            env={**os.environ, **SETTINGS, "SOFTMAX_SERVER": cgroup.program(self.folder.name, SERVER),
                 "SOFTMAX_TEST_FLOOD_CONNECTIONS": str(connections)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"[  PASSED  ] {tests} tests", done.stdout)
        self.assertEqual(cgroup.killed(), 0)
        self.assertGreater(cgroup.peak(), 10 << 20)  # the server was in it
        print(f"{names}, {connections} connections: at most {cgroup.peak() >> 20} of {limit >> 20} MiB")

    def test_whoever_takes_more_is_killed(self):
        cgroup = self.in_cgroup(64 << 20)
        greedy = cgroup.program(self.folder.name, sys.executable)
        done = subprocess.run([greedy, "-c", "bytearray(256 << 20)"], stderr=subprocess.DEVNULL, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(cgroup.killed(), 1)


if __name__ == "__main__":
    try:
        Cgroup(64 << 20).close()
    except OSError as problem:
        print(f"SKIPPED: no memory cgroup can be made here: {problem}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

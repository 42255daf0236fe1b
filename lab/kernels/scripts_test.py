#!/usr/bin/env python3
"""scripts_test.py BENCH: what the scripts beside it can show without torch, matplotlib and a GPU: they read the suites
as the program BENCH does, read and continue its results, and say what is missing."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPTS, BENCH = os.path.dirname(os.path.abspath(__file__)), os.path.abspath(sys.argv[1])
sys.path.insert(0, SCRIPTS)
import kernel_suite  # noqa: E402

SUITES = sorted(name[:-4] for name in os.listdir(kernel_suite.SUITES))
ROW = "tutorial,fp32,softmax,4096,256,softmax,4.500,1864.14,1951.00,0.9555,30,graph64\n"


def run(script, *arguments):
    return subprocess.run([sys.executable, "-B", os.path.join(SCRIPTS, script), *arguments], capture_output=True,
                          text=True, timeout=60, check=False)


class Suites(unittest.TestCase):
    def test_both_programs_read_the_same_points(self):
        self.assertGreater(len(SUITES), 8)
        for seed in ("1", "5"):
            for suite in SUITES:
                arguments = ["--suite", suite, "--list", "--seed", seed, "--tensor-bytes", "1000000"]
                told = subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=60, check=True)
                self.assertEqual(run("kernel_peers.py", *arguments).stdout, told.stdout, suite)

    def test_a_wrong_line_is_named(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            kernel_suite.parse("a fp32 softmax 1 1\na fp32 softmax\n")
        with self.assertRaisesRegex(ValueError, "line 1"):
            kernel_suite.parse("a fp32 softmax 1 x\n")


class Results(unittest.TestCase):
    def test_resuming_keeps_what_has_a_ratio(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.csv")
            header = ",".join(kernel_suite.COLUMNS) + "\n"
            with open(path, "w", encoding="utf-8") as file:
                file.write(header + ROW + "tutorial,fp32,softmax,4096,256,torch,,,,,,\n")
            results = kernel_suite.ResultFile(path, True)
            point = kernel_suite.Point("tutorial", "fp32", "softmax", 4096, 256)
            self.assertTrue(results.has(point, "softmax"))
            self.assertFalse(results.has(point, "torch"))
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), header + ROW)
            results.add(point, "torch", 10.0, 1000.0, 30, "graph64")
            with open(path, encoding="utf-8") as file:
                last = file.read().splitlines()[-1]
            self.assertEqual(last, "tutorial,fp32,softmax,4096,256,torch,10.000,838.86,1000.00,0.8389,30,graph64")


class Programs(unittest.TestCase):
    def test_help(self):
        for script in ("kernel_peers.py", "kernel_plot.py"):
            self.assertEqual(run(script, "--help").returncode, 0)

    def test_wrong_flags_are_named(self):
        self.assertIn("--providers", run("kernel_peers.py", "--suite", "edge", "--list", "--providers", "x").stderr)
        self.assertIn("--suite none-such", run("kernel_peers.py", "--suite", "none-such", "--list").stderr)

    def test_the_plot_is_drawn_or_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            path, drawn = os.path.join(folder, "results.csv"), os.path.join(folder, "drawn.svg")
            with open(path, "w", encoding="utf-8") as file:
                file.write(",".join(kernel_suite.COLUMNS) + "\n" + ROW)
            told = run("kernel_plot.py", path, "--output", drawn)
            if told.returncode == 2:
                self.assertIn("matplotlib", told.stderr)
                return
            self.assertEqual(told.returncode, 0, told.stderr)
            with open(drawn, encoding="utf-8") as file:
                first = file.read()
            run("kernel_plot.py", path, "--output", drawn)
            with open(drawn, encoding="utf-8") as file:
                self.assertEqual(file.read(), first)
            self.assertIn("nothing to draw", run("kernel_plot.py", path, "--dtype", "bf16").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

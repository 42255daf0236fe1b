#!/usr/bin/env python3
"""The soak's judgement finds what it is there for, and a soak of seconds runs, goes on and is reported."""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import slope
import soak

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = argparse.Namespace()


def rows(minutes=60, **changes):
    """An hour without a fault. A change is a function of the minute."""
    made = []
    for minute in range(1, minutes + 1):
        row = {"minute": minute, "rss_bytes": 700e6 + 4096 * (minute * 7919 % 13), "descriptors": 27, "threads": 84,
               "errors": 0, "wrong": 0}
        row.update({name: change(minute) for name, change in changes.items()})
        made.append(row)
    return made


class Judgement(unittest.TestCase):
    def test_a_flat_hour_passes(self):
        problems, growth = soak.judge(rows())
        self.assertEqual(problems, [])
        self.assertLess(abs(growth.slope), 2**20)

    def test_growth_in_the_warm_up_is_none(self):
        problems, _ = soak.judge(rows(rss_bytes=lambda minute: 700e6 + 20e6 * min(minute, 15)))
        self.assertEqual(problems, [])

    def test_a_leak_is_found(self):
        problems, _ = soak.judge(rows(rss_bytes=lambda minute: 700e6 + 5 * 2**20 * minute / 60))
        self.assertIn("resident memory may grow by 5.00 MiB/h", problems[0])

    def test_a_slope_that_cannot_be_told_from_a_leak_is_found(self):
        problems, growth = soak.judge(rows(rss_bytes=lambda minute: 700e6 + 20 * 2**20 * (minute * 7919 % 13) / 13))
        self.assertLess(growth.slope, 4 * 2**20)
        self.assertIn("may grow", problems[0])

    def test_a_descriptor_or_thread_more_is_found(self):
        for name in ("descriptors", "threads"):
            problems, _ = soak.judge(rows(**{name: lambda minute: 27 + minute // 40}))
            self.assertTrue(problems[0].startswith(f"{name} grow"), problems)

    def test_one_error_is_found(self):
        for name in ("errors", "wrong"):
            problems, _ = soak.judge(rows(**{name: lambda minute: int(minute == 3)}))
            self.assertEqual(problems, [f"1 {name}"])

    def test_the_interval_is_as_tables_have_it(self):
        fit = slope.fit([1, 2, 3, 4, 5, 6, 7], [2.1, 3.9, 6.2, 7.8, 10.1, 12.2, 13.8])
        self.assertAlmostEqual(fit.slope, 1.98571, 4)
        # Student's t of 5 degrees, times the standard error as numpy has it.
        self.assertAlmostEqual(fit.high - fit.slope, 2.5706 * 0.03614, 3)


class Run(unittest.TestCase):
    def soak(self, *flags):
        done = subprocess.run([sys.executable, "-B", HERE / "soak.py", *flags], capture_output=True, text=True,
                              check=False)
        return done

    def test_runs_and_reports(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            done = self.soak("run", "--server", PROGRAMS.server, "--loadgen", PROGRAMS.loadgen, "--out", name,
                             "--minutes", "2", "--window", "1", "--capacity", "100")
            self.assertEqual(done.returncode, 0, done.stderr)
            with (folder / "soak.csv").open(newline="") as file:
                lines = list(csv.DictReader(file))
            self.assertEqual([line["minute"] for line in lines], ["1", "2"])
            self.assertEqual(json.loads((folder / "state.json").read_text())["rate"], 80)
            for line in lines:
                self.assertEqual(int(line["due"]), 80)
                self.assertEqual((line["errors"], line["wrong"]), ("0", "0"))
                self.assertGreater(int(line["rss_bytes"]), 10e6)
                self.assertGreater(int(line["descriptors"]), 5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--loadgen", required=True)
    PROGRAMS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])

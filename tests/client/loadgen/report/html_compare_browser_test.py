#!/usr/bin/env python3
"""The pages of softmax-loadgen compare and merge in a real browser.

    html_compare_browser_test.py --render PROGRAM --results RESULTS.json --out DIR --loadgen PROGRAM

As html_report_browser_test.py, whose looks are asked of the comparison too.
"""
import copy
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import html_report_browser_test as report  # noqa: E402
from browser import arguments  # noqa: E402

SLOWER = 1.3


def percentile(run, p):
    return next(entry["us"] for entry in run["latency"]["percentiles"] if entry["p"] == p)


class Compared(report.Report):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        out = report.ARGUMENTS.out
        cls.after = copy.deepcopy(cls.results)
        cls.after["machine"] = {"host": "another", "cores": 8, "processor": "P", "system": "S"}
        for run in cls.after["runs"]:
            for entry in run["latency"]["percentiles"]:
                entry["us"] = entry["us"] and entry["us"] * SLOWER
            for point in run["timeline"]:
                for time in ("p50_us", "p99_us"):
                    point[time] = point[time] and point[time] * SLOWER
        files = [os.path.join(out, name) for name in ("before.json", "after.json")]
        for path, results in zip(files, (cls.results, cls.after)):
            with open(path, "w", encoding="utf-8") as opened:
                json.dump(results, opened)
        cls.page = os.path.join(out, "compare.html")
        cls.document = os.path.join(out, "compare.json")
        ran = subprocess.run([report.ARGUMENTS.loadgen, "compare", *files, "--html", cls.page, "--json", cls.document,
                              "--fail-if", "p99<-5%", "--fail-if", "p50>+5%"], timeout=60)
        assert ran.returncode == 1, ran.returncode


class Comparison(Compared):
    def test_both_curves_lie_over_each_other(self):
        names = list(dict.fromkeys(run["name"] for run in self.results["runs"]))
        self.assertEqual(self.plots(), [f"Latency by percentile: {name}" for name in names])
        run, after = self.results["runs"][0], self.after["runs"][0]
        known = [entry["p"] for entry in run["latency"]["percentiles"] if entry["us"] is not None]
        plot = self.plots()[0]
        before_line, after_line = self.series(plot, "before"), self.series(plot, "after")
        self.assert_follows(before_line, [percentile(run, p) for p in known])
        self.assert_follows(after_line, [percentile(after, p) for p in known])
        for (before_x, before_y), (after_x, after_y) in zip(before_line, after_line):
            self.assertEqual(before_x, after_x)
            self.assertLess(after_y, before_y, "slower is higher")

    def test_figures_have_changes_and_intervals(self):
        run = self.results["runs"][0]
        rows = {row[0]: row for row in self.rows("#load-0 .split .changes")}
        self.assertEqual(rows["p50 µs"][1:4], [f"{percentile(run, 50):,.1f}", f"{percentile(run, 50) * SLOWER:,.1f}",
                                               "+30.00 %"])
        self.assertRegex(rows["p50 µs"][4], r"^\+[\d.]+ % to \+[\d.]+ %$")
        self.assertIn("p99 µs", rows)
        marked = self.run_js("return [...document.querySelectorAll('#load-0 .changes .bad')]"
                             ".map((one) => one.innerText);")
        self.assertIn("+30.00 %", marked)

    def test_rules_and_differences_are_told(self):
        self.assertIn("p50>+5%, rate 5000/s: +30.00 %", self.text(".notices"))
        self.assertNotIn("p99<-5%", self.text(".notices"))
        self.assertIn("Kept: p99<-5%, rate 5000/s: +30.00 %", self.text(".verdicts"))
        rows = {row[0]: row[1:] for row in self.rows("#differences")}
        self.assertEqual(rows["generator: host"][1], "another")

    def test_names_stay_text(self):
        with open(self.document, encoding="utf-8") as opened:
            document = json.load(opened)
        comparison = document["comparison"]
        comparison["loads"][0].update(name=report.HOSTILE, basis=report.HOSTILE)
        comparison["differences"] = [{"what": report.HOSTILE, "before": report.HOSTILE, "after": None}]
        comparison["notes"] = [report.HOSTILE]
        comparison["verdicts"] = [{"text": report.HOSTILE, "failed": True}]
        self.show(self.render("hostile", document))
        self.assertIsNone(self.run_js("return window.pwned ?? null;"))
        self.assertEqual(self.run_js("return document.querySelectorAll('img, b b, main script').length;"), 0)

    def test_the_least_there_can_be(self):
        self.show(self.render("least", {"schema": 1, "comparison": {"loads": [{}]}}))
        for slip in ("NaN", "undefined", "[object"):
            self.assertNotIn(slip, self.text())


class ComparisonLooks(Compared, report.Looks):
    PAGES = 15  # six loads, each with two kinds of requests


class Generators(report.Report):
    def setUp(self):
        super().setUp()
        results = copy.deepcopy(self.results)
        run = results["runs"][-1]
        run["began_s"] = 1000.0
        one = {**copy.deepcopy(run), "began_s": 1000.25, "clock_ms": 3.5, "part": 1, "parts": 3, "machine_busy": 0.5}
        one["generator"] = {"cpu_cores": 0.75, "busiest_thread": 0.9, "limited": True, "why": "it was slow"}
        run["generators"] = [{"file": "a.json", "lacks": "", "machine": {"host": "left", "cores": 4}, "run": one},
                             {"file": "b.json", "lacks": "cannot be read", "machine": {}, "run": {}}]
        results["runs"] = [run]
        self.show(self.render("generators", results))

    def test_each_machine_has_its_share(self):
        rows = self.rows("#generators")
        self.assertEqual(rows[0][:4], ["a.json on left", "1", "0.75 of 4", "50.0 %"])
        self.assertEqual(rows[0][-3:], ["250.0 ms", "3.5 ms", "it was slow"])
        self.assertEqual(rows[1][0], "b.json")
        self.assertEqual(set(rows[1][1:-1]), {"–"})
        self.assertEqual(rows[1][-1], "cannot be read")

    def test_no_width_needs_sideways_scrolling(self):
        for width in (320, 768, 1920):
            self.browser.size(width, 900, phone=width < 500)
            self.assertLessEqual(self.run_js("return document.documentElement.scrollWidth;"), width)


if __name__ == "__main__":
    report.ARGUMENTS = arguments(__doc__, "--render", "--results", "--loadgen")
    unittest.main(argv=report.ARGUMENTS.rest)

"""The whole way: two real servers, a run of softmax-loadgen against them, and its --html page in a headless Chromium.

What the page shows is held against the --json of the same run. The screenshot stays in --out.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../support"))
from browser import Browser, arguments  # noqa: E402
from running_server import RunningServer  # noqa: E402

ARGUMENTS = None
TIMEOUT_S = 240
LIMITS = ("--arena-bytes=64MiB", "--max-request-bytes=16MiB", "--max-response-bytes=16MiB")


class RealRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = []
        for name in ("server_a", "server_b"):
            server = RunningServer(ARGUMENTS.server, os.path.join(ARGUMENTS.out, f"{name}.log"), *LIMITS)
            cls.addClassCleanup(server.kill)
            cls.servers.append(server)
        page, results = (os.path.join(ARGUMENTS.out, f"live.{kind}") for kind in ("html", "json"))
        done = subprocess.run(
            [ARGUMENTS.loadgen, "--address", ",".join(server.address for server in cls.servers),
             "--server-metrics", ",".join(server.metrics for server in cls.servers), "--attempts", "3",
             "--sweep", "rate:1000,1500", "--duration", "1.5", "--warmup", "0.2", "--shape", "3x40", "--shape", "1x7",
             "--connections", "1", "--slo", "p99=10s", "--html", page, "--json", results],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"softmax-loadgen ended with {done.returncode}: {done.stdout}{done.stderr}")
        with open(results, encoding="utf-8") as opened:
            cls.results = json.load(opened)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)
        cls.browser.__enter__()
        cls.browser.size(1280, 900)
        cls.browser.open(page)
        cls.browser.frames()
        # Of two runs the one below is chosen, so that it is known which one is shown.
        cls.run_js("document.querySelectorAll('.runs button')[1].click();")
        cls.browser.frames()
        cls.shown = cls.results["runs"][1]

    @classmethod
    def run_js(cls, script, *arguments):
        return cls.browser.run(script, *arguments)

    def rows(self, selector):
        return self.run_js("return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map("
                           "(row) => [...row.children].map((cell) => cell.innerText.trim()));", selector)

    def test_the_headline_is_the_runs(self):
        self.assertEqual(self.run_js("return document.title;"),
                         "Load on " + ",".join(server.address for server in self.servers))
        self.assertEqual([row[0] for row in self.rows(".runs")], ["rate 1000/s", "rate 1500/s"])
        text = self.run_js("return document.querySelector('.figures').innerText;")
        self.assertIn("of 1,500/s offered", text)
        self.assertIn(f"of {self.shown['verified']:,} verified", text)

    def test_both_servers_and_their_sum_are_shown(self):
        rows = {row[0]: row for row in self.rows(".servers")}
        self.assertEqual(set(rows), {server.metrics for server in self.servers})
        each = {server["address"]: server["requests"] for server in self.shown["servers"]}
        for address, requests in each.items():
            self.assertGreater(requests, 50)
            self.assertEqual(rows[address][1], f"{requests:,}")
        self.assertEqual(self.shown["server"]["requests"], sum(each.values()))
        totals = {row[0]: row[1] for row in self.rows("#batches")}
        self.assertEqual(totals["requests"], f"{sum(each.values()):,}")
        stages = self.run_js("return document.querySelector('#stages').innerText;")
        self.assertIn("execution", stages)

    def test_every_address_has_its_line(self):
        rows = {row[0]: row[1:] for row in self.rows(".addresses")}
        self.assertEqual(set(rows), {server.address for server in self.servers})
        for of in self.shown["addresses"]:
            self.assertGreater(of["attempts"], 50)
            self.assertEqual(rows[of["address"]][:3], [f"{of[key]:,}" for key in ("attempts", "answered", "failed")])

    def test_the_settings_are_those_of_the_open_loop(self):
        settings = dict(self.rows("#settings"))
        self.assertEqual(settings["loop"], "open")
        self.assertEqual(settings["attempts"], "3")
        self.assertNotIn("in_flight", settings)

    def test_the_lines_are_drawn_and_nobody_complains(self):
        for plot, series in (("Latency against throughput", "p99"), ("Latency by percentile", "latency"),
                             ("Requests over time", "answered"), ("Latency over time", "p99")):
            points = self.run_js("return document.querySelector(`[data-plot=\"${arguments[0]}\"] "
                                 "path[data-series=\"${arguments[1]}\"]`)?.getAttribute('d') ?? '';", plot, series)
            self.assertGreaterEqual(len(points.replace("M", "L").split("L")), 3, f"{plot}: {series}: {points}")
        self.browser.screenshot(os.path.join(ARGUMENTS.out, "live.png"))
        self.assertEqual(self.browser.log(), [])
        self.assertEqual(self.run_js("return performance.getEntriesByType('resource').length;"), 0)


if __name__ == "__main__":
    ARGUMENTS = arguments(__doc__, "--server", "--loadgen")
    unittest.main(argv=ARGUMENTS.rest)

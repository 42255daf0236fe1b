#!/usr/bin/env python3
"""The load generator's report in a real browser: what is drawn, how it answers, how it looks.

    html_report_browser_test.py --render PROGRAM --results RESULTS.json --out DIR

PROGRAM is html_report_render. Screenshots are left in DIR. Exit code 77 (skipped) without Chromium and its driver.
"""
import copy
import json
import os
import re
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, arguments  # noqa: E402

ARGUMENTS = None
ARROW_RIGHT = "\ue014"
LATENCY = {"µs": 1, "ms": 1e3, "s": 1e6}
HOSTILE = "</script><b>bold</b><img src=x onerror=\"window.pwned = 1\"><!-- <script>window.pwned = 1</script>"


def microseconds(text):
    value, unit = text.split()
    return float(value.replace(",", "")) * LATENCY[unit]


def numbers(path):
    """The points of an SVG path."""
    return [tuple(map(float, pair)) for pair in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(ARGUMENTS.results, encoding="utf-8") as opened:
            cls.results = json.load(opened)
        cls.browser = Browser()
        cls.browser.__enter__()
        cls.page = cls.render("report", cls.results)

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    @classmethod
    def render(cls, name, results):
        source = os.path.join(ARGUMENTS.out, f"{name}.json")
        page = os.path.join(ARGUMENTS.out, f"{name}.html")
        with open(source, "w", encoding="utf-8") as out:
            json.dump(results, out)
        subprocess.run([ARGUMENTS.render, source, page], check=True, timeout=60)
        return page

    def setUp(self):
        self.browser.prefer("light")
        self.browser.size(1280, 900)
        self.show(self.page)

    def tearDown(self):
        self.assertEqual(self.browser.log(), [], "the console was told of something")

    def show(self, page):
        self.browser.open(page)
        self.browser.frames()

    def run_js(self, script, *arguments):
        return self.browser.run(script, *arguments)

    def text(self, selector="body"):
        return self.run_js("return document.querySelector(arguments[0])?.innerText ?? null;", selector)

    def plots(self):
        return self.run_js("return [...document.querySelectorAll('.plot')].map((plot) => plot.dataset.plot);")

    def series(self, plot, name):
        path = self.run_js("return document.querySelector(`[data-plot=\"${arguments[0]}\"] "
                           "path[data-series=\"${arguments[1]}\"]`).getAttribute('d');", plot, name)
        return numbers(path)

    def legend(self, plot):
        return self.run_js("return document.querySelector(`[data-plot=\"${arguments[0]}\"] .legend`).innerText;",
                           plot).replace("\n", " ")

    def rows(self, selector):
        """A table's body, cell by cell."""
        return self.run_js("return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map("
                           "(row) => [...row.children].map((cell) => cell.innerText.trim()));", selector)

    def choose(self, name):
        self.run_js("[...document.querySelectorAll('.runs button')].find((button) => button.innerText === arguments[0])"
                    ".click();", name)
        self.browser.frames()

    def assert_follows(self, points, values):
        """Higher values are drawn higher, and each has its point."""
        self.assertEqual(len(points), len(values))
        for (left, right), (a, b) in zip(zip(points, points[1:]), zip(values, values[1:])):
            self.assertGreaterEqual(right[0], left[0], "x goes to the right")
            # Paths have a tenth of a pixel.
            self.assertLessEqual((right[1] - left[1]) * (1 if b > a else -1), 0.11 if a != b else 1,
                                 f"{a} then {b} drawn at {left[1]} then {right[1]}")
        if max(values) > 2 * min(values):
            self.assertGreater(max(y for _, y in points) - min(y for _, y in points), 3, "the line is flat")


class Contents(Report):
    def test_has_every_section(self):
        titles = self.run_js("return [...document.querySelectorAll('h2')].map((title) => title.innerText);")
        for title in ("Latency against throughput", "Runs", "Latency by percentile", "Timeline", "Server",
                      "Errors and checks", "Settings", "Highest rate with p99 ≤ 2.00 ms: 21,250/s"):
            self.assertIn(title, titles)
        self.assertEqual(self.plots(), ["Latency against throughput", "Latency by percentile", "Requests over time",
                                        "Latency over time"])

    def test_the_curve_has_a_point_for_each_run(self):
        runs = self.results["runs"]
        for name, p in (("p50", 50), ("p99", 99), ("p99.9", 99.9)):
            values = [next(e["us"] for e in run["latency"]["percentiles"] if e["p"] == p) for run in runs]
            self.assert_follows(self.series("Latency against throughput", name), values)
        limited = sum(run["generator"]["limited"] for run in runs)
        self.assertEqual(self.run_js("return document.querySelectorAll('[data-plot] .hollow').length;"), 3 * limited)

    def test_the_runs_table_has_the_figures(self):
        rows = self.rows(".runs")
        self.assertEqual([row[0] for row in rows], [run["name"] for run in self.results["runs"]])
        last = self.results["runs"][-1]
        self.assertEqual(rows[-1][1], f"{last['offered_per_s']:,.0f}")
        self.assertEqual(self.text(".runs th:nth-child(8)"), "p99.9 ms")
        self.assertEqual(rows[-1][7], f"{last['latency']['percentiles'][3]['us'] / 1000:.3f}")
        self.assertEqual(rows[-1][9], str(sum(last["errors"].values())))
        self.assertEqual(rows[-1][11], "generator")

    def test_percentiles_and_timeline_follow_the_values(self):
        for run in self.results["runs"]:
            self.choose(run["name"])
            for name, key in (("latency", "latency"), ("service time", "service_time")):
                values = [entry["us"] for entry in run[key]["percentiles"]] + [run[key]["max_us"]]
                self.assert_follows(self.series("Latency by percentile", name), values)
            for key in ("p50", "p99"):
                values = [point[f"{key}_us"] for point in run["timeline"]]
                self.assert_follows(self.series("Latency over time", key), values)
            self.assertEqual(len(self.series("Requests over time", "answered")), len(run["timeline"]))

    def test_choosing_a_run_shows_that_run(self):
        first, last = self.results["runs"][0], self.results["runs"][-1]
        self.choose(first["name"])
        self.assertIn(f"{first['latency']['count']:,} in ", self.text(".figures"))
        self.assertIn("No request failed.", self.text("#errors"))
        self.choose(last["name"])
        self.assertIn(f"{last['latency']['count']:,} in ", self.text(".figures"))
        self.assertEqual([row[0] for row in self.rows("#errors .scroll")][:3],
                         sorted(last["errors"], key=last["errors"].get, reverse=True))
        self.assertIn("generator-limited", self.text(".run-name"))

    def test_warnings_stand_before_the_figures(self):
        why = self.results["runs"][-1]["generator"]["why"]
        self.assertIn(f"Generator-limited {why}", self.text(".notices").replace("\n", " "))
        places = self.run_js("return ['.notices', '#curve', '.figures'].map("
                             "(name) => document.querySelector(name).getBoundingClientRect().top);")
        self.assertEqual(places, sorted(places))

    def test_the_server_is_told_in_full(self):
        run = self.results["runs"][2]
        self.choose(run["name"])
        server = run["server"]
        stages = self.rows("#stages")
        self.assertEqual([row[0] for row in stages], ["queue", "batch", "execution", "rest of the server", "transport"])
        unit = LATENCY[self.text("#stages th:nth-child(3)").split()[-1]]
        parts = sum(unit * float(row[2].replace(",", "")) for row in stages)
        self.assertAlmostEqual(parts, run["service_time"]["mean_us"], delta=0.01 * parts, msg="the parts are the whole")
        closing = {row[0]: int(row[2].replace(",", "")) for row in self.rows("#batches > div:nth-child(3) .scroll")}
        self.assertEqual(closing, server["closing"])
        sizes = [int(row[2].replace(",", "")) for row in self.rows("#batches > :nth-child(1)")]
        self.assertEqual(sizes, [bucket["n"] for bucket in server["batches"]["requests"]["buckets"]])
        self.assertIn(f"{server['requests']:,}", self.text("#batches"))

    def test_the_timeline_can_be_read_as_a_table(self):
        run = self.results["runs"][0]
        self.choose(run["name"])
        self.assertEqual(self.rows("#timeline details"), [], "not built before it is asked for")
        self.run_js("document.querySelector('#timeline summary').click();")
        self.browser.frames()
        rows = self.rows("#timeline details")
        self.assertEqual([row[1] for row in rows], [f"{point['sent']:,}" for point in run["timeline"]])

    def test_settings_are_all_there_in_their_order(self):
        self.assertEqual([tuple(row) for row in self.rows("#settings")], list(self.results["settings"].items()))

    def test_each_kind_of_request_has_its_row(self):
        run = self.results["runs"][0]
        self.choose(run["name"])
        rows = self.rows("#classes")
        self.assertEqual([row[0] for row in rows], [one["name"] for one in run["classes"]])
        unit = LATENCY[self.text("#classes th:nth-child(4)").split()[-1]]
        for row, one in zip(rows, run["classes"]):
            self.assertAlmostEqual(float(row[3].replace(",", "")), one["latency"]["percentiles"][0]["us"] / unit,
                                   delta=0.06 if unit == 1 else 0.0006)

    def test_what_limited_the_generator_is_said_once(self):
        self.choose(self.results["runs"][-1]["name"])
        self.assertEqual(self.text("main").count(self.results["runs"][-1]["generator"]["why"]), 1)

    def test_the_search_is_told_step_by_step(self):
        self.run_js("document.querySelector('#search summary').click();")
        self.browser.frames()
        steps = self.results["search"]["steps"]
        self.assertEqual([row[:2] for row in self.rows("#search")],
                         [[f"{step['rate_per_s']:,}/s", "yes" if step["kept"] else "no"] for step in steps])

    def test_repeats_are_one_point_with_their_interval(self):
        results = copy.deepcopy(self.results)
        first, second, other = results["runs"][0], copy.deepcopy(results["runs"][0]), results["runs"][3]
        second["latency"]["percentiles"][2]["us"] *= 3
        results["runs"] = [first, second, other]
        results["summary"] = [{"name": first["name"], "repeats": 2, "achieved_per_s": {"mean": 5000, "ci95": 12},
                               "percentiles": [{"p": 99, "mean_us": 199.4, "ci95_us": 31.25}]}]
        self.show(self.render("repeats", results))
        self.assertEqual([row[0] for row in self.rows(".runs")],
                         [f"{first['name']} #1", f"{first['name']} #2", other["name"]])
        p99 = [run["latency"]["percentiles"][2]["us"] for run in results["runs"]]
        self.assert_follows(self.series("Latency against throughput", "p99"), [(p99[0] + p99[1]) / 2, p99[2]])
        self.assertIn("5,000 ± 12.0", self.text("#repeats"))
        self.assertIn("199.4 ± 31.3", self.text("#repeats"))

    def test_a_sweeps_curve_follows_the_sweep_and_the_best_run_that_keeps_the_slo_is_open(self):
        results = copy.deepcopy(self.results)
        results["search"] = None
        results["settings"]["slo"] = "p99<=2ms"
        results["runs"] = results["runs"][:3]
        for run, level, rate, kept in zip(results["runs"], (1, 2, 4), (100, 300, 200), (1, 0.995, 0.5)):
            run.update(name=f"concurrency {level}", loop="closed", offered_per_s=rate, achieved_per_s=rate,
                       goodput_per_s=rate * kept, slo_us=2000, within_slo=kept)
            run["generator"]["limited"] = False
        self.show(self.render("sweep", results))
        places = [x for x, _ in self.series("Latency against throughput", "p99")]
        self.assertLess(places[0], places[2])
        self.assertLess(places[2], places[1], "the third run, whose rate is lower, comes after the second")
        names = self.run_js("return [...document.querySelectorAll('.point-name')].map((name) => name.textContent);")
        self.assertEqual(names, ["1", "2", "4"])
        self.assertIn("concurrency 2", self.text(".chosen"))

    def test_many_limited_runs_are_told_by_an_example(self):
        results = copy.deepcopy(self.results)
        for i, run in enumerate(results["runs"]):
            run["generator"].update(limited=True, why=f"lag of {i} us")
        self.show(self.render("limited", results))
        notices = self.run_js("return [...document.querySelectorAll('.notices li')].map((line) => line.innerText);")
        self.assertEqual(notices, [f"Generator-limited lag of 0 us ({results['runs'][0]['name']}, and 5 other runs)"])
        self.assertEqual(self.text(".chosen td:last-child"), "generator")

    def test_the_run_of_the_rate_found_is_shown_first(self):
        found = self.results["search"]["rate_per_s"]
        nearest = min(self.results["runs"], key=lambda run: abs(run["offered_per_s"] - found))
        self.assertEqual(self.text(".run-name h2"), nearest["name"])
        without = dict(self.results, search=None)
        self.show(self.render("without", without))
        kept = [run for run in self.results["runs"] if run["within_slo"] >= 0.99]
        self.assertEqual(self.text(".run-name h2"), max(kept, key=lambda run: run["goodput_per_s"])["name"])
        aimless = dict(without, settings={})
        self.show(self.render("aimless", aimless))
        self.assertEqual(self.text(".run-name h2"), self.results["runs"][-2]["name"], "the last is limited")

    def test_a_long_timeline_loses_no_stall(self):
        results = copy.deepcopy(self.results)
        run = results["runs"][0]
        calm = {"sent": 100, "answered": 100, "errors": 0, "p50_us": 100.0, "p99_us": 200.0}
        run["timeline"] = [dict(calm, t_s=(i + 1) / 2) for i in range(6001)]
        run["timeline"][4321]["p99_us"] = 90000.0
        results["runs"] = [run]
        self.show(self.render("long", results))
        drawn = self.series("Latency over time", "p99")
        self.assertLessEqual(len(drawn), 600)
        heights = [y for _, y in drawn]
        self.assertEqual(sum(y < max(heights) - 50 for y in heights), 1, "one stall, and it is seen")
        answered = [y for _, y in self.series("Requests over time", "answered")]
        self.assertLess(max(answered) - min(answered), 0.2, "a stretch that is shorter has no other rate")

    def test_a_lost_process_and_an_interrupt_are_told_first(self):
        results = copy.deepcopy(self.results)
        results["runs"] = results["runs"][:1]
        results["runs"][0].update(complete=False, interrupted=True, wrong=2)
        self.show(self.render("incomplete", results))
        notices = self.text(".notices")
        for word in ("Incomplete", "Interrupted", f"Wrong answers 2 of {results['runs'][0]['verified']:,} verified"):
            self.assertIn(word, notices)


class Use(Report):
    def middle(self, plot):
        box = self.run_js("const svg = document.querySelector(`[data-plot=\"${arguments[0]}\"] > svg`);"
                          "svg.scrollIntoView({block: 'center'}); const box = svg.getBoundingClientRect();"
                          "return {x: box.x, y: box.y, width: box.width, height: box.height};", plot)
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def test_pointing_shows_the_values_there(self):
        run = self.results["runs"][1]
        self.choose(run["name"])
        self.browser.point_at(*self.middle("Latency over time"))
        at, p99 = re.search(r"p99 ([\d.,]+ \S+) at ([\d.]+) s", self.legend("Latency over time")).group(2, 1)
        point = next(point for point in run["timeline"] if abs(point["t_s"] - float(at)) < 1e-6)
        self.assertAlmostEqual(microseconds(p99), point["p99_us"], delta=0.01 * point["p99_us"])
        # Both plots of the timeline move together.
        self.assertIn(f"at {at} s", self.legend("Requests over time"))
        self.assertEqual(self.run_js("return document.querySelectorAll('.cursor').length;"), 2)
        self.browser.screenshot(os.path.join(ARGUMENTS.out, "pointing.png"), self.run_js(
            "const box = document.querySelector('#timeline').getBoundingClientRect();"
            "return {x: box.x, y: box.y + scrollY, width: box.width, height: box.height};"))
        self.browser.point_at(2, 2)
        self.assertNotIn("at ", self.legend("Latency over time"))

    def test_arrow_keys_walk_along_a_plot(self):
        self.run_js("document.querySelector('[data-plot=\"Latency by percentile\"] > svg').focus();")
        self.browser.press(ARROW_RIGHT)
        self.assertIn("at p50", self.legend("Latency by percentile"))
        self.browser.press(ARROW_RIGHT)
        self.assertIn("at p90", self.legend("Latency by percentile"))

    def test_a_click_on_the_curve_chooses_the_run(self):
        x, y = self.middle("Latency against throughput")
        self.run_js("document.elementFromPoint(arguments[0], arguments[1]).dispatchEvent(new MouseEvent('click', "
                    "{bubbles: true, clientX: arguments[0], clientY: arguments[1]}));", int(x), int(y))
        self.assertEqual(self.text(".run-name h2"), self.results["runs"][2]["name"])

    def test_the_theme_follows_the_system(self):
        paper = "return getComputedStyle(document.body).backgroundColor;"
        light = self.run_js(paper)
        self.browser.prefer("dark")
        self.assertNotEqual(light, self.run_js(paper))

    def test_nothing_is_asked_of_a_network(self):
        self.assertEqual(self.run_js("return performance.getEntriesByType('resource').map((entry) => entry.name);"), [])


class Looks(Report):
    PAGES = 6

    def shot(self, name):
        path = os.path.join(ARGUMENTS.out, f"{name}.png")
        self.browser.screenshot(path)
        with open(path, "rb") as opened:
            data = opened.read()
        self.assertGreater(len(data), 60_000, f"{name}.png is as good as empty")
        return struct.unpack(">II", data[16:24])

    def test_screenshots(self):
        self.assertEqual(self.shot("light")[0], 1280)
        self.browser.prefer("dark")
        self.shot("dark")
        self.browser.prefer("light")
        self.browser.size(390, 844, phone=True)
        self.assertEqual(self.shot("narrow")[0], 390)

    def test_no_width_needs_sideways_scrolling(self):
        for width in (320, 390, 768, 1024, 1920):
            self.browser.size(width, 900, phone=width < 500)
            self.assertLessEqual(self.run_js("return document.documentElement.scrollWidth;"), width)
            drawn = self.run_js("return [...document.querySelectorAll('.plot > svg')].map((plot) => "
                                "plot.viewBox.baseVal.width / plot.getBoundingClientRect().width);")
            for scale in drawn:
                self.assertAlmostEqual(scale, 1, delta=0.1, msg=f"plots are drawn anew at {width}, not squeezed")

    def test_colours_can_be_told_from_the_paper(self):
        contrast = """
          const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
          const light = (rgb) => rgb.match(/\\d+/g).map((c) => channel(Number(c)))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const probe = document.body.appendChild(document.createElement("i"));
          const of = (name) => {
            probe.style.color = `var(${name})`;
            return light(getComputedStyle(probe).color);
          };
          const ratio = (a, b) => (Math.max(of(a), of(b)) + 0.05) / (Math.min(of(a), of(b)) + 0.05);
          return ["--ink", "--muted", "--accent", "--bad", "--warn"].map((name) => ratio(name, "--paper"))
            .concat(ratio("--warn", "--warn-soft"), ratio("--bad", "--bad-soft"), ratio("--ink", "--accent-soft"));"""
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            for ratio in self.run_js(contrast):
                self.assertGreaterEqual(ratio, 4.5, scheme)

    def test_those_who_do_not_see_are_told(self):
        nameless = self.run_js("""
          const empty = (node) => !(node && node.textContent.trim());
          return [...document.querySelectorAll(".plot > svg")].filter((plot) => plot.getAttribute("aria-labelledby")
              .split(" ").some((id) => empty(document.getElementById(id)))).length
            + [...document.querySelectorAll("button, a, summary")].filter(empty).length
            + [...document.querySelectorAll("[role=region]:not([aria-label])")].length
            + [...document.querySelectorAll("th:not([scope])")].length
            + [...document.querySelectorAll("[aria-labelledby]")].filter((node) =>
              !document.getElementById(node.getAttribute("aria-labelledby").split(" ")[0])).length;""")
        self.assertEqual(nameless, 0)
        self.assertEqual(self.run_js("return document.querySelectorAll('h1, main').length;"), 2)
        ids = self.run_js("return [...document.querySelectorAll('[id]')].map((node) => node.id);")
        self.assertEqual(len(ids), len(set(ids)), "ids are unique")

    def test_prints(self):
        # A4 less its margins, in CSS pixels: whatever is wider is lost on paper.
        self.browser.devtools("Emulation.setEmulatedMedia", media="print")
        self.browser.size(688, 900)
        self.assertLessEqual(self.run_js("return document.documentElement.scrollWidth;"), 688)
        self.browser.devtools("Emulation.setEmulatedMedia", media="")
        self.browser.size(1280, 900)
        pdf = self.browser.pdf()
        self.assertTrue(pdf.startswith(b"%PDF-"))
        with open(os.path.join(ARGUMENTS.out, "report.pdf"), "wb") as out:
            out.write(pdf)
        self.assertLessEqual(len(re.findall(rb"/Type\s*/Page\b", pdf)), self.PAGES)


class Hostile(Report):
    def assert_sound(self):
        text = self.text()
        for slip in ("NaN", "undefined", "[object", "Infinity"):
            self.assertNotIn(slip, text)
        self.assertNotIn("NaN", self.run_js("return document.querySelector('main').innerHTML;"))

    def test_names_stay_text(self):
        results = copy.deepcopy(self.results)
        results["settings"] = {"address": HOSTILE, HOSTILE: HOSTILE}
        results["tool"] = {"version": HOSTILE, "command": HOSTILE}
        run = results["runs"][-1]
        run.update(name=HOSTILE, errors={HOSTILE: 3}, verdicts=[HOSTILE])
        run["generator"]["why"] = HOSTILE
        run["server"].update(backend=HOSTILE, closing={HOSTILE: 1}, gpu={HOSTILE: 1}, warnings=[HOSTILE])
        self.show(self.render("hostile", results))
        self.choose(HOSTILE)
        self.assertIsNone(self.run_js("return window.pwned ?? null;"))
        self.assertEqual(self.run_js("return document.querySelectorAll('img, b b, main script').length;"), 0)
        self.assertEqual(self.text("h1"), f"Load on {HOSTILE}")
        self.assertIn(HOSTILE, self.text("#errors"))
        self.assertEqual(self.run_js("return document.title;"), f"Load on {HOSTILE}")

    def test_the_least_there_can_be(self):
        self.show(self.render("least", {"schema": 1, "runs": [{}]}))
        self.assertIn("Load report", self.text("h1"))
        self.assert_sound()

    def test_one_run_without_answers_or_server(self):
        results = {"schema": 1, "search": None, "settings": {}, "runs": [{
            "name": "closed", "loop": "closed", "achieved_per_s": 0, "goodput_per_s": None, "gb_per_s": 0,
            "duration_s": 1.0, "slo_us": None, "sent": 5, "verified": 0, "wrong": 0, "errors": {"UNAVAILABLE": 5},
            "latency": {"count": 0, "mean_us": 0, "min_us": 0, "max_us": 0, "percentiles": [{"p": 50, "us": 0}]},
            "timeline": [{"t_s": 0.5, "sent": 5, "answered": 0, "errors": 5, "p50_us": None, "p99_us": None},
                         {"t_s": 1.0, "sent": 0, "answered": 0, "errors": 0, "p50_us": None, "p99_us": None}],
            "generator": {"cpu_cores": 0.1, "limited": False, "why": ""}, "server": None, "verdicts": []}]}
        self.show(self.render("nothing", results))
        self.assertIn("closed loop", self.text(".figures"))
        self.assertIn("The server's metrics were not read", self.text("#server"))
        self.assertEqual(self.rows("#errors .scroll")[0][0], "UNAVAILABLE")
        self.assert_sound()

    def test_any_member_may_be_missing_or_null(self):
        run = self.results["runs"][-1]
        for key in list(run):
            for value in (None, "absent"):
                changed = copy.deepcopy(run)
                if value is None:
                    changed[key] = None
                else:
                    del changed[key]
                with self.subTest(key=key, value=value):
                    self.show(self.render("partial", {"schema": 1, "runs": [changed, run]}))
                    self.assert_sound()
                    self.assertEqual(self.browser.log(), [])


if __name__ == "__main__":
    ARGUMENTS = arguments(__doc__, "--render", "--results")
    unittest.main(argv=ARGUMENTS.rest)

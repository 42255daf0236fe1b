#!/usr/bin/env python3
"""Tests of what service_bench computes: intervals, pairs, rows, verdicts. No server, no clock."""
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "service_bench"))
import bars  # noqa: E402
import checks  # noqa: E402
import devices  # noqa: E402
import fleets  # noqa: E402
import journal as journal_module  # noqa: E402
import loads  # noqa: E402
import machine  # noqa: E402
import never_reading  # noqa: E402
import plan  # noqa: E402
import ratios  # noqa: E402
import results  # noqa: E402

SETTINGS = {"backends": ["cuda"], "cores": 16, "seconds": 5.0, "queues": {"echo": 8, "cuda": 8}}


def figures(calls, **more):
    return {"calls_per_s": calls, "GBps": calls * 64 / 1e9, "p50_us": 100.0, "p99_us": 200.0, "p999_us": 300.0,
            "answered": 1000, "verified": 10, "wrong": 0, "generator_cores": 2.0, **more}


def window(backend, calls, method="unary", payload=64, **more):
    row = dict(zip(results.KEYS, ("server", backend, method, "tcp", payload, 16, 8)))
    return {"row": row, "figures": figures(calls, **more)}


class Ratios(unittest.TestCase):
    def test_interval_of_seven_is_their_range(self):
        # 1 - 2/2^7; leaving one out on each side would cover 1 - 2 * 8/2^7 = 0.875 only.
        self.assertEqual(ratios.interval([7, 1, 3, 2, 6, 5, 4]), (1, 7, 1 - 2 / 128))

    def test_interval_of_more_leaves_out_the_ends(self):
        # Tabulated for the sign test: n = 9: 2nd and 8th, 0.961; n = 15: 4th and 12th, 0.965; n = 20: 6th, 15th, 0.959.
        for n, k, coverage in ((9, 2, 0.961), (15, 4, 0.965), (20, 6, 0.959)):
            low, high, seen = ratios.interval(list(range(1, n + 1)))
            self.assertEqual((low, high), (k, n + 1 - k))
            self.assertAlmostEqual(seen, coverage, 3)

    def test_few_values_say_how_little_they_cover(self):
        low, high, coverage = ratios.interval([1.0, 2.0, 3.0])
        self.assertEqual((low, high, coverage), (1.0, 3.0, 0.75))
        self.assertEqual(ratios.interval([5.0])[2], 0.0)

    def test_the_ratio_is_that_of_pairs(self):
        # The machine halves its speed from round to round; the pairs do not notice.
        found = ratios.ratio([(90, 100), (45, 50), (180, 200)])
        self.assertAlmostEqual(found.median, 0.9)
        self.assertAlmostEqual(found.width, 0.0)
        self.assertEqual(found.pairs, 3)

    def test_nothing_gives_nothing(self):
        self.assertIsNone(ratios.ratio([]))
        self.assertIsNone(ratios.estimate([None, float("nan")]))
        self.assertIsNone(ratios.ratio([(1, 0), (None, 2)]))


class Rounds(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = self._folder.name

    def journal(self, rounds, section="saturation", cell="tcp 64 16x8", resume=False):
        made = journal_module.Journal(self.folder, resume)
        for number, windows in enumerate(rounds):
            made.add(section, cell, number, windows)
        return made

    def test_a_journal_is_read_back_but_for_a_line_cut_off(self):
        self.journal([{"echo/unary": window("echo", 100)}, {"echo/unary": window("echo", 200)}])
        with open(os.path.join(self.folder, "rounds.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"section": "satur')
        with self.assertRaises(FileExistsError):
            journal_module.Journal(self.folder, False)
        again = journal_module.Journal(self.folder, True)
        self.assertTrue(again.has("saturation", "tcp 64 16x8", 1))
        self.assertFalse(again.has("saturation", "tcp 64 16x8", 2))
        self.assertEqual(again.values("saturation", "tcp 64 16x8", "echo/unary", "calls_per_s"), [100, 200])

    def test_what_follows_a_line_cut_off_is_read_too(self):
        self.journal([{"echo/unary": window("echo", 100)}])
        with open(os.path.join(self.folder, "rounds.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"section": "satur')
        journal_module.Journal(self.folder, True).add("saturation", "tcp 64 16x8", 1,
                                                      {"echo/unary": window("echo", 300)})
        again = journal_module.Journal(self.folder, True)
        self.assertEqual(again.values("saturation", "tcp 64 16x8", "echo/unary", "calls_per_s"), [100, 300])

    def test_rows_hold_medians_and_paired_ratios(self):
        made = self.journal([{"echo/unary": window("echo", 100), "cuda/unary": window("cuda", 90, copies_in=1.0)},
                             {"echo/unary": window("echo", 200), "cuda/unary": window("cuda", 190, copies_in=1.0)},
                             {"echo/unary": window("echo", 300), "cuda/unary": window("cuda", 240, copies_in=1.0)}])
        echo, cuda = results.rows(made)
        self.assertEqual((echo["backend"], echo["calls_per_s"], echo["ratio_to_echo"]), ("echo", 200, 1))
        self.assertIsNone(echo["copies_in"])
        self.assertEqual((cuda["calls_per_s"], cuda["ratio_to_echo"], cuda["ratio_low"], cuda["ratio_high"]),
                         (190, 0.9, 0.8, 0.95))
        self.assertEqual(cuda["copies_in"], 1.0)

    def test_a_percentile_is_of_all_windows_or_unknown(self):
        # A slow window has too few answers for a p99; the p99 of the fast one alone would be below both p50.
        row, = results.rows(self.journal([{"echo/unary": window("echo", 100, p50_us=900.0, p99_us=None)},
                                          {"echo/unary": window("echo", 900)}]))
        self.assertEqual((row["p50_us"], row["p99_us"], row["p999_us"]), (500.0, None, 300.0))

    def test_packed_streams_are_held_against_unary_calls(self):
        made = self.journal([{"echo/unary": window("echo", 100), "echo/stream16": window("echo", 800, "stream16"),
                              "cuda/stream16": window("cuda", 400, "stream16")}], "stream", "stream16 64")
        ratio = {(row["backend"], row["method"]): row["ratio_to_echo"] for row in results.rows(made)}
        self.assertEqual(ratio, {("echo", "unary"): 1, ("echo", "stream16"): 8, ("cuda", "stream16"): 4})

    def test_bars_tell_met_from_missed_and_from_not_established(self):
        def bar(calls):
            with tempfile.TemporaryDirectory() as self.folder:
                made = self.journal([{"echo/unary": window("echo", 100), "cuda/unary": window("cuda", c)}
                                     for c in calls])
                return next(b for b in bars.all_bars(made, SETTINGS) if b.what == "cuda / echo, 64 B")
        self.assertIs(bar([91, 92, 93, 91, 92, 94, 93]).met, True)
        self.assertIs(bar([81, 82, 83, 81, 82, 84, 83]).met, False)
        self.assertIs(bar([70, 95, 99, 91, 92, 94, 93]).met, None)  # too wide
        self.assertIs(bar([95, 99, 91, 120, 94, 93, 150]).met, True)  # wide, but all of it above
        self.assertIs(bar([93, 94]).met, None)  # too few

    def test_an_overload_that_the_generator_could_not_offer_is_not_judged(self):
        def goodput(why):
            with tempfile.TemporaryDirectory() as self.folder:
                open_loop = {"row": None, "figures": figures(96, generator_why=why)}
                made = self.journal([{"capacity": {"row": None, "figures": figures(100)}, "0.8": open_loop,
                                      "2.0": open_loop}] * 7, "overload", "4 KiB")
                return next(b for b in bars.all_bars(made, SETTINGS) if b.what.startswith("goodput"))
        self.assertIs(goodput("").met, True)
        self.assertIs(goodput("schedule lag").met, None)
        self.assertIn("late in 7 rounds", goodput("schedule lag").what)

    def test_checks_see_a_slow_echo_and_a_short_run(self):
        made = self.journal([{"echo/unary": window("echo", 100_000), "cuda/unary": window("cuda", 90_000)}] * 3)
        by = {check.what[0]: check for check in checks.all_checks(made, SETTINGS)}
        self.assertIsNone(by["1"].ok)  # 64 KiB and 1 MiB are missing
        for payload, calls in ((64 << 10, 140_000), (1 << 20, 10_000)):
            made.add("saturation", f"tcp {payload} 16x2", 0,
                     {"echo/unary": window("echo", calls, payload=payload, GBps=calls * payload / 1e9)})
        by = {check.what[0]: check for check in checks.all_checks(made, SETTINGS)}
        self.assertIs(by["1"].ok, False)
        self.assertIn("100,000", by["1"].why)
        self.assertIs(by["2"].ok, True)
        self.assertIs(by["4"].ok, False)
        self.assertIs(by["5"].ok, True)
        self.assertIs(checks.all_checks(made, {**SETTINGS, "queues": {"echo": 8, "cuda": 4}})[1].ok, False)

    def test_checks_see_a_limiting_generator_and_wrong_answers(self):
        made = self.journal([{f"{side}/{form}": {"row": None, "figures": figures(calls)} for side, form, calls in (
            ("echo", "as_measured", 100), ("echo", "more_connections", 101), ("echo", "more_processes", 130),
            ("cuda", "as_measured", 90), ("cuda", "more_connections", 89), ("cuda", "more_processes", 90))}],
            "generator", "64")
        made.add("saturation", "tcp 64 16x8", 0, {"echo/unary": window("echo", 90, generator_why="a busy thread"),
                                                  "cuda/unary": window("cuda", 90, wrong=1)})
        by = {check.what[0]: check for check in checks.all_checks(made, SETTINGS)}
        self.assertIs(by["3"].ok, False)
        self.assertIn("echo 64 B more processes 1.30", by["3"].why)
        self.assertIn("up to 2.0 cores and calls itself the limit of 1 of 2 windows", by["3"].why)
        self.assertIs(by["5"].ok, False)


class Parts(unittest.TestCase):
    def test_figures_of_a_run(self):
        said = {"window_s": 2.0, "copied_in_bytes": 640, "input_bytes": 640, "copied_out_bytes": 0,
                "output_bytes": 640, "batches": {"count": 10, "rows": {"mean": 4.0}, "requests": {"mean": 2.0}},
                "stages": {"execution": {"mean_us": 20.0}}, "rejected": {}}
        run = {"latency": {"count": 20, "percentiles": [{"p": 50, "us": 5.0}, {"p": 99, "us": 9.0},
                                                        {"p": 99.9, "us": 11.0}]},
               "achieved_per_s": 10.0, "gb_per_s": 1.0, "server_cores": 0.5, "verified": 1, "wrong": 0, "errors": {},
               "sent": 20, "dropped": 0, "generator": {"cpu_cores": 1.0, "why": ""}, "machine_busy": 0.5,
               "server": said}
        seen = loads.figures(run)
        self.assertEqual(seen["server_cpu_us_per_call"], 50_000)
        self.assertEqual((seen["copies_in"], seen["copies_out"], seen["mean_batch_requests"]), (1.0, 0.0, 2.0))
        self.assertEqual((seen["launches_per_s"], seen["execution_us_per_row"]), (5.0, 5.0))
        self.assertIsNone(loads.figures({**run, "server_cores": None, "server": None})["server_cpu_us_per_call"])

    def test_what_each_cell_compares(self):
        bench = plan.Bench(None, "", ["cpu"], (0, 1), [64, 64 << 10], 1, 2, 0, [])
        cells = plan.saturation_cells(bench) + plan.stream_cells(bench)[:1]
        self.assertEqual([" ".join(cell.contenders) for cell in cells],
                         ["echo/unary echo_c/unary null/unary cpu/unary",
                          "echo/unary echo_c/unary echo_copy/unary null/unary cpu/unary",
                          "echo/stream cpu/stream cpu/unary"])

    def test_devices_are_as_many_as_there_are_and_judged_beside_one(self):
        bench = plan.Bench(None, "", ["cuda"], (0, 1), [64], 1, 2, 4, [])
        cells = {cell.name: " ".join(cell.contenders) for cell in devices.cells(bench)}
        self.assertEqual(cells, dict.fromkeys(("messages, 64 KiB", "host regions, 64 KiB", "messages, 1 MiB",
                                               "host regions, 1 MiB", "device regions, 64x128256"), "1 2 4"))
        self.assertEqual(bench.notes, ["8 devices: not measured: this machine has 4"])
        with tempfile.TemporaryDirectory() as folder:
            journal = journal_module.Journal(folder, False)
            for number in range(7):
                journal.add("devices", "host regions, 1 MiB", number,
                            {n: {"row": None, "figures": figures(calls)} for n, calls in (("1", 10), ("4", 37))})
                journal.add("devices", "device regions, 64x128256", number,
                            {n: {"row": None, "figures": figures(calls)} for n, calls in (("1", 10), ("2", 18))})
            found = {bar.what: (bar.bar, bar.met) for bar in bars.all_bars(journal, SETTINGS)}
        self.assertEqual(found["4 devices / 1, host regions, 1 MiB"], (">= 3.6", True))
        self.assertEqual(found["2 devices / 1, device regions, 64x128256"], (">= 1.9", False))

    def test_the_generator_grows_with_the_machine(self):
        self.assertEqual([plan.default_processes(cores) for cores in (2, 8, 16, 32, 200, 512)], [1, 4, 4, 8, 50, 64])
        self.assertEqual([plan.saturation(64, processes).connections for processes in (1, 4, 8, 16)], [24, 24, 48, 96])
        self.assertEqual([plan.saturation(1 << 20, processes).connections for processes in (4, 16)], [16, 64])

    def test_threads_are_judged_beside_the_best_and_the_echos_best(self):
        self.assertEqual([fleets.queue_numbers(cores) for cores in (2, 16, 32)],
                         [[1, 2], [4, 6, 8, 12, 16], [8, 12, 16, 24, 32]])
        with tempfile.TemporaryDirectory() as folder:
            journal = journal_module.Journal(folder, resume=False)
            for number in range(7):
                journal.add("threads", "tcp 64", number, {
                    f"{backend}/{queues}": {"row": None, "figures": figures(calls)}
                    for backend, queues, calls in (("echo", 4, 100), ("echo", 8, 125), ("echo", 16, 90),
                                                   ("cuda", 8, 70), ("cuda", 16, 100), ("cuda", "itself", 90))})
                journal.add("crowd", "24 busy", number, {
                    f"{idle} idle": {"row": None, "figures": figures(1000 - idle / 10)} for idle in fleets.IDLE})
            found = {bar.what: (bar.value.median, bar.met) for bar in bars.all_bars(journal, SETTINGS)}
        self.assertEqual(found, {"cuda: threads by itself / 16, the best, 64 B": (0.9, False),
                                 "cuda / echo, each with its best threads, 64 B": (0.8, False),
                                 "calls/s beside 2000 idle connections / without": (0.8, False),
                                 "calls/s beside 4000 idle connections / without": (0.6, False)})

    def test_idle_connections_answer_pings(self):
        received = (fleets.frame(fleets.SETTINGS, 0, bytes(6)) + fleets.frame(fleets.PING, 0, b"12345678")
                    + fleets.frame(fleets.PING, fleets.ACK, b"87654321") + b"\0\0")
        self.assertEqual(list(fleets.pings_of(received)), [b"12345678"])

    def test_the_never_reading_clients_message_is_a_request(self):
        # Tags by hand: input (15) { dtype (1) FLOAT32, shape (2) [1, 2], data (15) 8 bytes }.
        self.assertEqual(never_reading.softmax_message(8), b"\0\0\0\0\x12" + b"\x7a\x10" + b"\x08\x01"
                         + b"\x12\x02\x01\x02" + b"\x7a\x08" + bytes(8))
        self.assertEqual(never_reading.varint(300), b"\xac\x02")

    def test_echo_and_service_take_their_settings_from_the_same_headers(self):
        def text(*paths):
            return "".join(open(os.path.join(ROOT, path), encoding="utf-8").read() for path in paths)

        for sources in (text("lab/bench/echo_server.cc"), text("server/main.cc", "server/rpc/queue/queue_thread.h",
                                                                                "server/rpc/queue/queue_thread.cc")):
            for header, call in (("common/base/process_settings.h", "ApplyProcessSettings()"),
                                 ("server/rpc/accept/channel_settings.h", "ApplyServerSettings(")):
                self.assertIn(f'#include "{header}"', sources)
                self.assertIn(call, sources)

    def test_a_run_goes_on_with_the_same_settings_only(self):
        kept = {name: 1 for name in machine.SAME}
        machine.check_same(kept, dict(kept))
        with self.assertRaisesRegex(machine.Different, "seconds was 1 and is 2"):
            machine.check_same(kept, {**kept, "seconds": 2})


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Every query of the dashboard, the rules and the autoscaler returns data from a real Prometheus that scrapes a loaded
server (and, for the GPU's figures, the metrics code over a fake driver).

    live_test.py SOFTMAX_SERVER SOFTMAX_LOADGEN FAKE_GPU_TARGET FAKE_NVML_FOLDER [unittest arguments]
"""
import re
import sys
import tempfile
import unittest

from deploy_files import alert_rules, dashboard_queries, need, read_yaml
from live_prometheus import LivePrometheus, wait_until
import parts
from waiting import eventually

PROGRAMS = [sys.argv.pop(1) for _ in range(4)] if len(sys.argv) > 4 else None
# As Grafana fills them in.
VARIABLES = {"$job": "softmax-server", "$instance": ".+", "$__rate_interval": "10s"}
# A name of ours, its labels if there are any, its range if there is one.
SELECTOR = re.compile(r"\b((?:softmax|process|job:softmax|instance:softmax)_\w+(?::\w+)?|up)(\{[^}]*\})?(\[\w+\])?")
# Series that only a fault brings: what they are counted from must be there all the same.
ONLY_WITH_A_FAULT = re.compile(r'code=~?"[^"]*",?')
# Panels that show starts: nothing has started within the last minute when the load has run for two.
# Bytes in flight by device are published where there are several.
MAY_BE_EMPTY = {"annotation Starts", "Bytes in flight"}
LIMIT_S = 90


def filled(query):
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


def selectors(expression):
    """Every series that a rule reads, fault codes left out, as queries."""
    found = set()
    for name, labels, _ in SELECTOR.findall(expression):
        labels = ONLY_WITH_A_FAULT.sub("", labels or "")
        found.add(name + labels.replace(",}", "}"))
    return found


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("prometheus")
        cls.folder = tempfile.TemporaryDirectory()
        cls.live = LivePrometheus(*PROGRAMS, cls.folder.name)
        cls.live.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.live.__exit__()
        cls.folder.cleanup()

    def expect_data(self, queries):
        """Every (what, query) comes to have data, soon and at least once."""
        left = dict.fromkeys(queries)

        def none_is_left():
            for key in [key for key in left if self.live.has_data(key[1])]:
                del left[key]
            return not left
        eventually(none_is_left, LIMIT_S, 0.5)
        self.assertEqual([], list(left), f"no data within {LIMIT_S} s")

    def test_1_the_test_can_fail(self):
        self.assertFalse(self.live.has_data("softmax_no_such_metric"))
        self.assertFalse(self.live.has_data("softmax_ready / 0 * 0"))
        self.assertRaises(ValueError, self.live.query, "sum by (softmax_ready")
        self.assertEqual(selectors('a / softmax_x_total{code=~"A|B",m="c"}[5m] > up == process_y'),
                         {'softmax_x_total{m="c"}', "up", "process_y"})

    def test_2_every_panel_has_data(self):
        queries = [(panel, filled(query)) for panel, query in dashboard_queries()]
        self.assertGreater(len(queries), 40)
        self.assertEqual([], [query for _, query in queries if "$" in query])
        for panel, query in queries:
            if panel in MAY_BE_EMPTY:
                self.live.query(query)
        self.expect_data([q for q in queries if q[0] not in MAY_BE_EMPTY])

    def test_3_every_rule_is_evaluated_and_every_record_has_data(self):
        wait_until("rules are evaluated", lambda: all(r["health"] == "ok" for r in self.live.rules()))
        self.assertEqual(len(self.live.rules()), len(alert_rules()))
        self.expect_data([(rule["record"], rule["record"]) for rule in alert_rules() if "record" in rule])

    def test_4_every_alert_reads_series_that_exist(self):
        read = [(rule["alert"], query) for rule in alert_rules() if "alert" in rule
                for query in selectors(rule["expr"])]
        self.assertGreater(len(read), 20)
        self.expect_data(read)

    def test_5_the_autoscaler_gets_its_figures(self):
        queries = []
        for rule in read_yaml("prometheus/adapter_rules.yaml")["rules"]:
            queries.append((rule["name"]["as"], rule["seriesQuery"]))
            expression = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="test",pod=~"server-0"')
            queries.append((rule["name"]["as"], expression.replace("<<.GroupBy>>", "pod")))
        self.expect_data(queries)
        # Without requests there is a 0, and not nothing: the autoscaler would not scale down on nothing.
        idle = queries[1][1].replace('"server-0"', '"gpu-0"')
        self.assertEqual(self.live.query(idle.replace("softmax_ready", "softmax_build_info")), ["0"])

    def test_6_a_healthy_server_raises_no_alarm(self):
        # Not those that a slow machine may raise.
        for name in ("Down", "Absent", "NotReady", "Errors", "SlowReaders", "ConnectionsNearLimit", "UnsafeTesting",
                     "Degraded", "DescriptorsNearLimit", "MemoryAboveBudget", "GpuSilent", "GpuEccErrors"):
            rule = next(r for r in alert_rules() if r.get("alert") == "Softmax" + name)
            self.assertEqual(self.live.query(rule["expr"]), [], name)

    def test_7_a_drain_and_a_death_are_seen(self):
        expressions = {r["alert"]: r["expr"] for r in alert_rules() if "alert" in r}
        self.live.terminate_server()
        wait_until("SoftmaxNotReady", lambda: self.live.query(expressions["SoftmaxNotReady"]))
        self.live.server.kill()
        wait_until("SoftmaxDown", lambda: self.live.query(expressions["SoftmaxDown"]))


if __name__ == "__main__":
    if PROGRAMS is None:
        sys.exit(__doc__)
    parts.main()

#!/usr/bin/env python3
"""The rules, the dashboard and the configurations of Prometheus, without one that runs: live_test.py has that."""
import json
import os
import re
import shutil
import tempfile
import unittest

from deploy_files import (DEPLOY, ROOT, alert_rules, dashboard_panels, dashboard_queries, need, read, read_yaml, run,
                          tool)
import make_dashboard
import parts
import prometheus_rule
import yaml

RULES = os.path.join(DEPLOY, "prometheus/softmax.rules.yaml")
with open(os.path.join(ROOT, "tests/deploy/rules_test.yaml"), encoding="utf-8") as opened_cases:
    RULES_TEST = yaml.safe_load(opened_cases)
ALERTS = [rule for rule in alert_rules() if "alert" in rule]
JOB = "softmax-server"
METRIC = re.compile(r"\b((?:softmax|process)_[a-z_]+)\b")
HISTOGRAM_PARTS = re.compile(r"_(bucket|sum|count)$")
LABELS = re.compile(r"\{[^}]*\}")


def published():
    """Every metric's name, from the sources that name them."""
    text = ""
    for name in ("metrics/families.cc", "metrics/gpu_families.cc", "app/gauges.cc"):
        with open(os.path.join(ROOT, "server", name), encoding="utf-8") as source:
            text += source.read()
    return set(re.findall(r'"((?:softmax|process)_[a-z_]+)"', text))


def metrics_in(expression):
    return {HISTOGRAM_PARTS.sub("", name) for name in METRIC.findall(LABELS.sub("", expression))}


def with_job(series):
    for name, values in series.items():
        assert isinstance(values, str), f"{name}: YAML reads {values}: put it in quotes"
    return [{"series": name if "job=" in name else name.replace("{", f'{{job="{JOB}",'), "values": values}
            for name, values in series.items()]


def promtool_tests(folder):
    """Writes what `promtool test rules` reads, for the rules in the folder: the file's path."""
    cases = RULES_TEST["cases"]
    tests = [{"name": "a healthy server", "interval": "1m", "input_series": with_job(RULES_TEST["healthy"]["series"]),
              "alert_rule_test": [{"eval_time": "50m", "alertname": alert["alert"], "exp_alerts": []}
                                  for alert in ALERTS],
              "promql_expr_test": RULES_TEST["healthy"]["promql_expr_test"]}]
    for case in cases:
        name = case["alert"]
        fired = {"exp_labels": {"job": JOB, **case["labels"]},
                 "exp_annotations": {"summary": case["summary"], "runbook": f"docs/operations.md#{name.lower()}"}}
        tests.append({"name": case["name"], "interval": "1m", "input_series": with_job(case["series"]),
                      "alert_rule_test": [{"eval_time": at, "alertname": name,
                                           "exp_alerts": [fired] if what == "fires" else []}
                                          for what, at in case["times"].items()]})
    path = os.path.join(folder, "rules_test.json")
    with open(path, "w", encoding="utf-8") as output:
        json.dump({"rule_files": ["softmax.rules.yaml"], "evaluation_interval": "30s", "tests": tests}, output)
    return path


class RulesTest(unittest.TestCase):
    def test_promtool_accepts_them(self):
        need("promtool")
        checked = run(tool("promtool"), "check", "rules", RULES)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_promtool_accepts_the_configurations(self):
        need("promtool")
        kubernetes = read_yaml("prometheus/scrape_kubernetes.yaml")
        # Debian's promtool is built without the discovery of Kubernetes; everything else in there it can judge.
        self.assertEqual(kubernetes["scrape_configs"][0].pop("kubernetes_sd_configs"), [{"role": "pod"}])
        for configuration in (kubernetes, read_yaml("prometheus/prometheus.yaml")):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as output:
                json.dump(configuration, output)
                output.flush()
                checked = run(tool("promtool"), "check", "config", "--syntax-only", output.name)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            self.assertEqual(configuration["scrape_configs"][0]["job_name"], "softmax-server", "the rules ask for it")

    def test_every_alert_fires_on_its_fault_and_not_on_a_healthy_server(self):
        need("promtool")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(RULES, folder)
            tested = run(tool("promtool"), "test", "rules", promtool_tests(folder))
        self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)
        for alert in ALERTS:
            times = [case["times"] for case in RULES_TEST["cases"] if case["alert"] == alert["alert"]]
            self.assertEqual(len(times), 1, alert["alert"])
            self.assertIn("fires", times[0])

    def test_the_cases_find_a_rule_that_is_wrong(self):
        need("promtool")
        with tempfile.TemporaryDirectory() as folder:
            tests = promtool_tests(folder)
            rules = os.path.join(folder, "softmax.rules.yaml")
            for right, wrong in (("> 0.001", "> 0.01"), ("softmax_ready == 0", "softmax_ready == 1"),
                                 ("for: 2m", "for: 9m"), ("> 0.9 * process_max_fds", "> 0.1 * process_max_fds")):
                self.assertIn(right, read("prometheus/softmax.rules.yaml"))
                with open(rules, "w", encoding="utf-8") as output:
                    output.write(read("prometheus/softmax.rules.yaml").replace(right, wrong))
                tested = run(tool("promtool"), "test", "rules", tests)
                self.assertNotEqual(tested.returncode, 0, f"nobody noticed {wrong!r}")

    def test_every_alert_has_its_place_in_the_runbook(self):
        with open(os.path.join(ROOT, "docs/operations.md"), encoding="utf-8") as opened:
            headings = {line[4:].strip().lower() for line in opened if line.startswith("### ")}
        for alert in ALERTS:
            file, anchor = alert["annotations"]["runbook"].split("#")
            self.assertEqual(file, "docs/operations.md")
            self.assertEqual(anchor, alert["alert"].lower())
            self.assertNotIn("runbook_url", alert["annotations"])  # whoever shows alerts makes a link of it
            self.assertIn(anchor, headings)
            self.assertIn(alert["labels"]["severity"], ("critical", "warning", "info"))
        named = {heading for heading in headings if heading.startswith("softmax")}
        self.assertEqual(named, {alert["alert"].lower() for alert in ALERTS}, "the runbook names others")

    def test_they_read_metrics_that_the_server_has(self):
        have = published()
        self.assertGreater(len(have), 30)
        for rule in alert_rules():
            text = re.sub(r"(job|instance):\w+:\w+", "", rule["expr"])
            self.assertLessEqual(metrics_in(text), have, rule)

    def test_what_is_made_from_them_is_current(self):
        with open(prometheus_rule.OUTPUT, encoding="utf-8") as current:
            self.assertEqual(current.read(), prometheus_rule.made(), "run deploy/kubernetes/prometheus_rule.py")


class DashboardTest(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads(read("grafana/softmax.json"))
        self.rows_and_panels = dashboard_panels(self.dashboard)
        self.panels = [panel for panel in self.rows_and_panels if panel["type"] != "row"]

    def test_it_is_what_the_panels_make(self):
        self.assertEqual(self.dashboard, make_dashboard.dashboard(), "run deploy/grafana/make_dashboard.py")

    def test_it_shows_every_metric_that_the_server_has(self):
        shown = set().union(*(metrics_in(query) for _, query in dashboard_queries()))
        missing = published() - shown
        # What nobody looks at on a dashboard.
        self.assertEqual(missing, {"process_virtual_memory_bytes", "process_max_fds"})
        self.assertLessEqual(shown, published())

    def test_panels_do_not_overlap_and_lie_on_the_grid(self):
        taken = set()
        for panel in self.rows_and_panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
        self.assertEqual(len({panel["id"] for panel in self.rows_and_panels}), len(self.rows_and_panels))

    def test_two_rows_are_open_and_thresholds_are_the_alerts(self):
        rows = [row for row in self.rows_and_panels if row["type"] == "row"]
        self.assertEqual([row["title"] for row in rows if not row["collapsed"]], ["Now", "Traffic"])
        self.assertTrue(all(bool(row["panels"]) == row["collapsed"] for row in rows))
        red = {panel["title"]: panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"]
               for panel in self.panels if "thresholds" in panel["fieldConfig"]["defaults"]}
        alerts = {rule["alert"]: str(rule["expr"]) for rule in alert_rules() if "alert" in rule}
        for title, alert in (("Failures", "SoftmaxErrors"), ("p99", "SoftmaxSlow"), ("Request time", "SoftmaxSlow"),
                             ("Queue threads, how late", "SoftmaxThreadsLate")):
            self.assertTrue(alerts[alert].strip().endswith(f"> {red[title]}"), title)

    def test_every_panel_asks_the_chosen_servers_of_the_chosen_prometheus(self):
        for panel in self.panels:
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")
            for target in panel["targets"]:
                self.assertIn('job=~"$job",instance=~"$instance"', target["expr"], panel["title"])
        variables = {variable["name"] for variable in self.dashboard["templating"]["list"]}
        self.assertEqual(variables, {"datasource", "job", "instance"})

    def test_provisioning_finds_it(self):
        folder = read_yaml("grafana/provisioning/dashboards/softmax.yaml")["providers"][0]["options"]["path"]
        mounts = read_yaml("compose.yaml")["services"]["grafana"]["volumes"]
        self.assertIn(f"./grafana/softmax.json:{folder}/softmax.json:ro", mounts)
        source = read_yaml("grafana/provisioning/datasources/prometheus.yaml")["datasources"][0]
        self.assertEqual(source["url"], "http://prometheus:9090")


if __name__ == "__main__":
    parts.main()

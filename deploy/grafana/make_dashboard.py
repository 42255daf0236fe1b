#!/usr/bin/env python3
"""Writes softmax.json, the dashboard, from panels.py: `make_dashboard.py`; `--check` only says whether it is current.

Grafana imports the file (Dashboards, New, Import) or takes it by provisioning/, as deploy/compose.yaml does.
"""
import json
import os
import sys

from panels import OPEN, ROWS, THRESHOLDS, WHERE

HERE = os.path.dirname(os.path.abspath(__file__))
OUTPUT = os.path.join(HERE, "softmax.json")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
# Width and height by kind.
SIZES = {"stat": (4, 4), "lines": (8, 8), "bars": (8, 8), "stacked": (8, 8), "heatmap": (8, 8), "table": (8, 8)}
TYPES = {"stat": "stat", "heatmap": "heatmap", "table": "table"}


def options_of(kind, title):
    if kind == "stat":
        return {"colorMode": "value" if title in THRESHOLDS else "none", "graphMode": "area",
                "reduceOptions": {"calcs": ["lastNotNull"]}}
    if kind == "heatmap":
        return {"calculate": False, "yAxis": {"unit": "s"}, "color": {"scheme": "Blues", "mode": "scheme"},
                "cellGap": 1, "tooltip": {"show": True, "yHistogram": True}}
    if kind == "table":
        return {"showHeader": True}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}


def field_config(kind, unit, title):
    custom = {}
    if kind in ("lines", "bars", "stacked"):
        custom = {"drawStyle": "bars" if kind == "bars" else "line", "lineWidth": 1, "showPoints": "never",
                  "fillOpacity": {"lines": 0, "bars": 60, "stacked": 30}[kind], "axisSoftMin": 0,
                  "stacking": {"mode": "none" if kind == "lines" else "normal"}}
    defaults = {"unit": unit, "custom": custom}
    if title in THRESHOLDS:
        yellow, red = THRESHOLDS[title]
        steps = (("green", None), ("yellow", yellow), ("red", red))
        defaults["thresholds"] = {"mode": "absolute",
                                  "steps": [{"color": color, "value": value} for color, value in steps]}
        if custom:
            custom["thresholdsStyle"] = {"mode": "dashed"}
    return {"defaults": defaults, "overrides": []}


def target(kind, index, query, legend):
    made = {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend or "__auto", "datasource": SOURCE}
    if kind == "table":
        made.update(instant=True, range=False, format="table")
    elif kind == "heatmap":
        made.update(format="heatmap", range=True)
    else:
        made.update(range=True)
    return made


def panel(number, place, title, kind, unit, text, queries):
    made = {"id": number, "type": TYPES.get(kind, "timeseries"), "title": title, "description": text, "gridPos": place,
            "datasource": SOURCE, "fieldConfig": field_config(kind, unit, title), "options": options_of(kind, title),
            "targets": [target(kind, i, query, legend) for i, (query, legend) in enumerate(queries)]}
    if kind == "table":
        hidden = {"Time": True, "__name__": True, "Value": title != "Settings"}
        made["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
    return made


def panels():
    made, y, number = [], 0, 0
    for row_title, members in ROWS:
        number += 1
        row = {"id": number, "type": "row", "title": row_title, "collapsed": row_title not in OPEN, "panels": [],
               "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}}
        made.append(row)
        # Grafana has a closed row's panels within it, an open one's behind it.
        place = row["panels"] if row["collapsed"] else made
        y += 1
        x, height = 0, 0
        for title, kind, unit, text, queries in members:
            width, panel_height = SIZES[kind]
            if x + width > COLUMNS:
                x, y = 0, y + height
            number += 1
            place.append(panel(number, {"x": x, "y": y, "w": width, "h": panel_height}, title, kind, unit, text,
                               queries))
            x, height = x + width, panel_height
        y += height
    return made


def choice(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "refresh": 2, "multi": True,
            "includeAll": True, "allValue": ".+", "sort": 1, "current": {"text": "All", "value": "$__all"},
            "query": {"query": query, "refId": name}, "definition": query}


def dashboard():
    return {
        "uid": "softmax-server", "title": "softmax-server", "tags": ["softmax"], "schemaVersion": 38, "version": 1,
        "editable": True, "graphTooltip": 1, "refresh": "10s", "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
            choice("job", "Job", "label_values(softmax_build_info, job)"),
            choice("instance", "Server", 'label_values(softmax_build_info{job=~"$job"}, instance)')]},
        "annotations": {"list": [
            {"name": "Starts", "datasource": SOURCE, "enable": True, "iconColor": "blue", "step": "15s",
             "expr": f"changes(process_start_time_seconds{{{WHERE}}}[1m]) > 0",
             "titleFormat": "{{instance}} started"}]},
        "panels": panels()}


def main():
    text = json.dumps(dashboard(), indent=1) + "\n"
    if sys.argv[1:] == ["--check"]:
        with open(OUTPUT, encoding="utf-8") as current:
            if current.read() == text:
                return 0
        print(f"{OUTPUT} is not what panels.py makes: run {os.path.basename(__file__)}")
        return 1
    with open(OUTPUT, "w", encoding="utf-8") as output:
        output.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

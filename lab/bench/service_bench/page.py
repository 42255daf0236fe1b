"""The report as one HTML file: verdicts, plots, tables; needs no network."""
import html
import re

import bars as bars_module
import ratios
import results
from charts import line_chart

NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?( to -?[\d.]+(e[+-]?\d+)?)?( \S+)?$")
STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 1320px; padding: 0 16px; }
h1 { font-size: 22px; } h2 { font-size: 17px; margin-top: 32px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 9px; border-bottom: 1px solid var(--line); text-align: left; }
td { white-space: nowrap; } td:last-child { white-space: normal; }
td.n, th.n { text-align: right; }
.yes { color: #1d8a4e; } .no { color: #c2371f; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); gap: 18px; }
.scroll { overflow-x: auto; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
svg .title { font-size: 13px; font-weight: 600; } svg .grid { stroke: currentColor; opacity: .13; }
svg .reference { stroke: currentColor; stroke-dasharray: 4 4; opacity: .6; }
"""


def write(path, journal, settings, checks, bars, notes):
    table = results.rows(journal)
    valid = all(check.ok for check in checks)
    parts = ["<!doctype html>", '<html lang="en"><meta charset="utf-8">',
             '<meta name="viewport" content="width=device-width, initial-scale=1">',
             f"<title>Service and echo, {html.escape(settings['machine'])}</title><style>{STYLE}</style>",
             "<h1>The service beside a bare echo of the same bytes</h1>", _settings(settings),
             "<h2>Whether the run counts: " + ("yes" if valid else "no") + "</h2>",
             _table(["condition", "kept", "seen"], [[c.what, results.verdict(c.ok), c.why] for c in checks]),
             "<h2>Bars</h2>", _table(["bar", "limit", "median", "95 % interval", "pairs", "met"], _bar_rows(bars)),
             '<h2>Plots</h2><div class="plots">', *_plots(journal, table, settings), "</div>",
             "<h2>All rows</h2>", _table(results.COLUMNS, [[_cell(row[name]) for name in results.COLUMNS]
                                                          for row in table])]
    if notes:
        parts += ["<h2>Notes</h2><ul>", *(f"<li>{html.escape(note)}</li>" for note in notes), "</ul>"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(part for part in parts if part) + "\n</html>\n")


def _settings(settings):
    names = ("machine", "gpu", "cores", "commit", "time", "command")
    return "<p>" + "<br>".join(f"{name}: {html.escape(str(settings[name]))}" for name in names) + "</p>"


def _bar_rows(bars):
    return [[bar.what, bar.bar, f"{bar.value.median:.4g} {bar.unit}".strip(),
             f"{bar.value.low:.4g} to {bar.value.high:.4g}", str(bar.value.pairs), results.verdict(bar.met)]
            for bar in bars]


def _cell(value):
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def _table(head, rows):
    def cell(tag, text):
        kind = {"yes": ' class="yes"', "NO": ' class="no"'}.get(text, "")
        if not kind and NUMBER.match(text):
            kind = ' class="n"'
        return f"<{tag}{kind}>{html.escape(text)}</{tag}>"

    lines = ["<tr>" + "".join(cell("th", text) for text in head) + "</tr>"]
    lines += ["<tr>" + "".join(cell("td", text) for text in row) + "</tr>" for row in rows]
    return '<div class="scroll"><table>' + "\n".join(lines) + "</table></div>"


def _payload_plot(table, title, y_label, figure, transport, one, log_y=False, reference=None):
    series = {}
    for row in table:
        if (row["connections"] * row["in_flight"] == 1) != one or row["transport"] != transport:
            continue
        name = row["backend"] + ("" if row["method"] == "unary" else " " + row["method"])
        point = (row["payload_bytes"], row[figure])
        if figure == "ratio_to_echo":
            # Packed streams are of another order, and stand among the bars.
            if row["backend"] == "echo" or row["method"] == "stream16":
                continue
            point += (row["ratio_low"], row["ratio_high"])
        series.setdefault(name, []).append(point)
    return line_chart(title, "payload", y_label, series, log_x=True, log_y=log_y,
                      x_text=lambda value: bars_module.size(int(value)), reference=reference)


def _plots(journal, table, settings):
    plots = []
    for transport, over in (("tcp", "over TCP"), ("unix", "over a unix socket")):
        plots += [_payload_plot(table, f"Calls/s at saturation, {over}", "calls/s", "calls_per_s", transport, False,
                                log_y=True),
                  _payload_plot(table, f"GB/s at saturation, {over}", "GB/s", "GBps", transport, False),
                  _payload_plot(table, f"Ratio to the echo at saturation, {over}", "ratio", "ratio_to_echo", transport,
                                False, reference=1),
                  _payload_plot(table, f"p50 of one request at a time, {over}", "us", "p50_us", transport, True,
                                log_y=True),
                  _payload_plot(table, f"p99 of one request at a time, {over}", "us", "p99_us", transport, True,
                                log_y=True),
                  _payload_plot(table, f"Server CPU at saturation, {over}", "us a call", "server_cpu_us_per_call",
                                transport, False, log_y=True)]
    return plots + _batch_plots(journal, settings)


def _batch_plots(journal, settings):
    def series(figure):
        points = []
        for cell in journal.cells("batches"):
            value = ratios.estimate(journal.values("batches", cell, "service", figure))
            points.append((int(cell.split()[0]), value.median if value else None))
        return {settings["backends"][0]: points}

    return [line_chart(f"{what} against load, requests of 4 KiB", "requests in flight", unit, series(figure),
                       log_x=True)
            for what, unit, figure in (("Mean batch", "requests", "mean_batch_requests"),
                                       ("Launches", "launches/s", "launches_per_s"),
                                       ("Execution per row", "us", "execution_us_per_row"))]

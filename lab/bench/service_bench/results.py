"""The table of a run: CSV, JSON and text."""
import csv
import dataclasses
import json
import os

import bars as bars_module
import ratios

COLUMNS = ["server", "backend", "method", "transport", "payload_bytes", "connections", "in_flight", "calls_per_s",
           "GBps", "p50_us", "p99_us", "p999_us", "server_cpu_us_per_call", "copies_in", "copies_out",
           "mean_batch_requests", "ratio_to_echo", "ratio_low", "ratio_high"]
KEYS = COLUMNS[:7]
FIGURES = COLUMNS[7:16]
# What a method's calls/s are held against: streams against a stream of the same messages, packed ones against the calls
# that they replace.
ECHO_OF = {"unary": "echo/unary", "stream": "echo/stream", "stream16": "echo/unary"}
ORDER = {"unary": 0, "stream": 1, "stream16": 2}


def rows(journal):
    """One row a backend, method, transport, payload and load: medians over its windows, and of its ratios."""
    found = {}
    for entry in journal.rounds:
        for window in entry["windows"].values():
            if window["row"] is None:
                continue
            key = tuple(window["row"][name] for name in KEYS)
            windows, pairs = found.setdefault(key, ([], []))
            windows.append(window["figures"])
            echo = entry["windows"].get(ECHO_OF[window["row"]["method"]])
            if echo is not None:
                pairs.append((window["figures"]["calls_per_s"], echo["figures"]["calls_per_s"]))
    return [_row(key, *found[key]) for key in sorted(found, key=_place)]


def _place(key):
    row = dict(zip(KEYS, key))
    echo = {"echo": 0, "echo_c": 1, "echo_copy": 2, "null": 3}.get(row["backend"], 4)
    return (row["transport"], ORDER[row["method"]], row["payload_bytes"], row["connections"] * row["in_flight"], echo,
            row["backend"])


def _row(key, windows, pairs):
    row = dict(zip(KEYS, key))
    for figure in FIGURES:
        # Unknown in one window is unknown: figures of a row are medians over the same windows.
        values = [window.get(figure) for window in windows]
        row[figure] = None if None in values else ratios.estimate(values).median
    ratio = ratios.ratio(pairs)
    row["ratio_to_echo"], row["ratio_low"], row["ratio_high"] = (
        (ratio.median, ratio.low, ratio.high) if ratio else (None, None, None))
    return row


def _text(value):
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_csv(path, table):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for row in table:
            out.writerow([_text(row[name]) for name in COLUMNS])


def document(journal, settings, checks, bars):
    return {"schema": 1, "settings": settings, "valid": all(check.ok for check in checks),
            "checks": [dataclasses.asdict(check) for check in checks],
            "bars": [dataclasses.asdict(bar) for bar in bars],
            "rows": rows(journal), "rounds": journal.rounds}


def write_json(path, doc):
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(doc, file, indent=1)
        file.write("\n")
    os.replace(temporary, path)


def verdict(ok):
    return {True: "yes", False: "NO", None: "-"}[ok]


def estimate_text(value):
    return f"{value.median:.4g} ({value.low:.4g} to {value.high:.4g})"


def text(table, checks, bars, notes):
    """The table and the verdicts as Markdown."""
    lines = ["| server | method | over | payload | load | calls/s | GB/s | p50 us | p99 us | CPU us/call | batch "
             "| ratio to echo |", "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in table:
        ratio = "" if row["ratio_to_echo"] is None else (
            f"{row['ratio_to_echo']:.3f} ({row['ratio_low']:.3f} to {row['ratio_high']:.3f})")
        cells = [row["backend"], row["method"], row["transport"], bars_module.size(row["payload_bytes"]),
                 f"{row['connections']} x {row['in_flight']}", f"{row['calls_per_s']:,.0f}", f"{row['GBps']:.2f}",
                 _whole(row["p50_us"]), _whole(row["p99_us"]), _short(row["server_cpu_us_per_call"]),
                 _short(row["mean_batch_requests"]), ratio]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| bar | limit | measured (95 % interval) | pairs | met |", "|---|---|---|---|---|"]
    for bar in bars:
        lines.append(f"| {bar.what} | {bar.bar} | {estimate_text(bar.value)} {bar.unit} | {bar.value.pairs} "
                     f"| {verdict(bar.met)} |")
    lines += ["", "| does the run count | | |", "|---|---|---|"]
    lines += [f"| {check.what} | {verdict(check.ok)} | {check.why} |" for check in checks]
    lines += [""] + [f"note: {note}" for note in notes]
    lines.append("valid: " + ("yes" if all(check.ok for check in checks) else "NO"))
    return "\n".join(lines)


# A percentile is unknown where too few answers lie beyond it.
def _whole(value):
    return "-" if value is None else f"{value:.0f}"


def _short(value):
    return "" if value is None else f"{value:.3g}"

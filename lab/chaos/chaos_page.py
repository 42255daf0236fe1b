"""What a chaos run came to: chaos.csv and chaos.md."""
import csv
import json
import shutil


def _sum(rows, name):
    return sum(int(float(row[name] or 0)) for row in rows)


def write(folder, into):
    state = json.loads((folder / "state.json").read_text())
    with (folder / "chaos.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    faults = {}
    for row in rows:
        for one in row["faults"].split():
            kind, count = one.split(":")
            faults[kind] = faults.get(kind, 0) + int(count)
    failed = {name: _sum(rows, name) for name in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")}
    held = ""
    for name, unit in (("rss", 2**20), ("descriptors", 1), ("threads", 1)):
        if state["level"] and state["end"]:
            what = "resident memory, MiB" if name == "rss" else name
            held += (f"| {what}, of the server that is never killed, after 5 minutes / at the end | "
                     f"{state['level'][name] / unit:.1f} / {state['end'][name] / unit:.1f} |\n")
    verdict = "; ".join(state["problems"]) if state["problems"] else "passed"
    text = f"""# Chaos: faults under verified load

{len(rows)} minutes, {sum(faults.values()):,} faults, {_sum(rows, "started"):,} calls: {verdict}.

| what | figure |
| --- | --- |
| calls started / ended | {_sum(rows, "started"):,} / {_sum(rows, "ended"):,} |
| answered | {_sum(rows, "ok"):,} |
| wrong answers | {_sum(rows, "wrong")} |
| ended with a clear status | {", ".join(f"{count:,} {name}" for name, count in failed.items() if count) or "none"} |
| ended otherwise | {_sum(rows, "unclear")} |
| ended later than they must | {_sum(rows, "overdue")} |
| attempts made again | {_sum(rows, "retries"):,} |
| servers started again | {_sum(rows, "starts"):,} |
| longest call | {max(int(float(row["longest_ms"] or 0)) for row in rows):,} ms |
{held}| faults | {sum(faults.values()):,}: {", ".join(f"{kind} {count}" for kind, count in sorted(faults.items()))} |
| verdict | {verdict} |

## Method

`lab/chaos/chaos.py`: three servers, an open loop of {state["rate"]:.0f} calls/s and a batch of 16 each second through
the client library, every answer compared; deadline 5 s, 5 attempts.

## Provenance

Commit {state["commit"]}, seed {state["seed"]}. The figures of each minute are in `chaos.csv`.
"""
    into.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "chaos.csv", into / "chaos.csv")
    (into / "chaos.md").write_text(text)
    return 1 if state["problems"] else 0

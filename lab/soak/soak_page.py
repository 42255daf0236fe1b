"""What a soak came to: soak.csv, soak.svg and soak.md."""
import json
import math
import shutil

WIDTH, HEIGHT, LEFT = 860, 150, 70
PANELS = [("resident memory, MiB", "rss_bytes", 2**20), ("descriptors", "descriptors", 1), ("threads", "threads", 1),
          ("requests answered a second", "per_s", 1), ("p99, ms", "p99_us", 1000)]


def _panel(top, title, all_xs, all_ys):
    xs, ys = zip(*[(x, y) for x, y in zip(all_xs, all_ys) if not math.isnan(y)] or [(all_xs[0], 0)])
    low, high = min(ys), max(ys)
    if high - low < max(1, abs(high) * 0.02):  # a flat line is to look like one
        middle, half = (high + low) / 2, max(1, abs(high) * 0.02)
        low, high = middle - half, middle + half
    def at(x, y):
        return (f"{LEFT + (WIDTH - LEFT - 20) * (x - all_xs[0]) / (all_xs[-1] - all_xs[0]):.1f},"
                f"{top + HEIGHT - 25 - (HEIGHT - 55) * (y - low) / (high - low):.1f}")
    line = " ".join(at(x, y) for x, y in zip(xs, ys))
    texts = [f'<text x="{LEFT}" y="{top + 18}" font-weight="bold">{title}</text>',
             f'<text x="{LEFT - 8}" y="{top + 34}" text-anchor="end">{high:.4g}</text>',
             f'<text x="{LEFT - 8}" y="{top + HEIGHT - 22}" text-anchor="end">{low:.4g}</text>']
    frame = (f'<rect x="{LEFT}" y="{top + 28}" width="{WIDTH - LEFT - 20}" height="{HEIGHT - 53}" fill="none" '
             'stroke="#bbb"/>')
    return "\n".join(texts + [frame, f'<polyline points="{line}" fill="none" stroke="#1f6f8b" stroke-width="1.5"/>'])


def drawing(rows):
    for row in rows:
        row["per_s"] = row["sent"] / row["window_s"]
    xs = [row["minute"] for row in rows]
    panels = [_panel(i * HEIGHT, title, xs, [row[name] / unit for row in rows])
              for i, (title, name, unit) in enumerate(PANELS)]
    height = HEIGHT * len(PANELS) + 20
    foot = f'<text x="{WIDTH / 2}" y="{height - 6}" text-anchor="middle">minutes (0 to {xs[-1]:.0f})</text>'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
            f'font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(panels) +
            f"\n{foot}\n</svg>\n")


def text(state, rows, growth, problems, warmup):
    total = {name: sum(int(row[name]) for row in rows)
             for name in ("due", "sent", "dropped", "errors", "wrong", "verified")}
    late = [row for row in rows if row["minute"] > warmup]
    mib = 2**20
    memory = " / ".join(f"{row['rss_bytes'] / mib:.1f}" for row in (rows[0], late[0], rows[-1]))
    slope = "too few minutes" if growth is None else (
        f"{growth.slope / mib:+.2f} MiB/h, 95 % interval {growth.low / mib:+.2f} to {growth.high / mib:+.2f}")
    spans = {name: f"{min(row[name] for row in late):.0f} to {max(row[name] for row in late):.0f}"
             for name in ("descriptors", "threads")}
    rates = " / ".join(f"{rate:.0f}" for rate in sorted({row["due"] / row["window_s"] for row in rows}, reverse=True))
    verdict = "; ".join(problems) if problems else "passed"
    return f"""# Soak

{len(rows)} minutes, {total["sent"]:,} requests: {verdict}.

| what | figure |
| --- | --- |
| capacity at the start ({state["slo"].replace("|", "")}, median of 3 searches) | {state["capacity"]:.0f} requests/s |
| offered, requests/s | {rates} |
| requests due / sent / dropped by the generator | {total["due"]:,} / {total["sent"]:,} / {total["dropped"]:,} |
| errors | {total["errors"]} |
| answers verified / wrong | {total["verified"]:,} / {total["wrong"]} |
| resident memory, minute 1 / {warmup + 1} / {len(rows)} | {memory} MiB |
| its slope after {warmup} minutes | {slope} |
| descriptors, after {warmup} minutes | {spans["descriptors"]} |
| threads, after {warmup} minutes | {spans["threads"]} |
| verdict | {verdict} |

![Memory, descriptors, threads, rate and latency](soak.svg)

Measured by `lab/soak/soak.py`, commit {state["commit"]}. The figures of each minute are in `soak.csv`.
"""


def write(into, folder, rows, growth, problems, warmup):
    state = json.loads((folder / "state.json").read_text())
    into.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "soak.csv", into / "soak.csv")
    (into / "soak.md").write_text(text(state, rows, growth, problems, warmup))
    (into / "soak.svg").write_text(drawing(rows))

#!/usr/bin/env python3
"""kernel_plot.py: draws results of softmax-kernel-bench and kernel_peers.py.

    kernel_plot.py results.csv [peers.csv ...] --output softmax-performance.svg
    kernel_plot.py results.csv --form ratio --output softmax-ratio.svg

Form gbps: GB/s against N, one line for each provider, as in the figure of the Triton tutorial (section tutorial, fp32).
Form ratio: the ratio to the ceiling against N, one panel for each dtype and op (sections throughput and random)."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel_suite  # noqa: E402

# The order of lines and colours, so that a provider looks the same in every figure.
ORDER = ["softmax", "copy", "torch", "torch_compile", "triton", "cudnn", "row_persistent", "rows_per_block", "warp",
         "block_smem", "block_uncached", "naive", "onednn"]
LABELS = {"softmax": "softmax-server", "copy": "copy (ceiling)", "torch": "torch", "torch_compile": "torch.compile",
          "triton": "Triton", "naive": "naive (five kernels)"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", help="CSV files; where two have the same point, the first one counts")
    parser.add_argument("--form", choices=["gbps", "ratio"], default="gbps")
    parser.add_argument("--section", help="default: tutorial for gbps, throughput,random for ratio")
    parser.add_argument("--dtype", default="fp32", help="of the form gbps")
    parser.add_argument("--op", default="softmax", help="of the form gbps")
    parser.add_argument("--output", default="softmax-performance.svg")
    return parser, parser.parse_args()


def load_lines(paths, sections):
    """{(dtype, op): {provider: {N: row}}}"""
    lines = {}
    for path in paths:
        for row in kernel_suite.read_results(path):
            if row["section"] in sections:
                line = lines.setdefault((row["dtype"], row["op"]), {}).setdefault(row["provider"], {})
                line.setdefault(int(row["N"]), row)
    return lines


def providers_of(lines):
    return sorted(lines, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def draw(plt, axes, lines, column):
    colours = plt.get_cmap("tab20").colors
    for provider in providers_of(lines):
        points = sorted(lines[provider].items())
        number = ORDER.index(provider) if provider in ORDER else len(ORDER)
        style = {"color": "black", "linestyle": "--"} if provider == "copy" else {"color": colours[(2 * number) % 19]}
        axes.plot([n for n, _ in points], [float(row[column]) for _, row in points],
                  label=LABELS.get(provider, provider), linewidth=1.2, **style)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def draw_gbps(plt, lines, arguments):
    chosen = lines.get((arguments.dtype, arguments.op), {})
    rows = {row["M"] for line in chosen.values() for row in line.values()}
    figure, axes = plt.subplots(figsize=(8, 5))
    draw(plt, axes, chosen, "GBps")
    axes.set_xlabel("N")
    axes.set_ylabel("GB/s")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{arguments.op} {arguments.dtype}, M = {'/'.join(sorted(rows))}")
    return figure


def draw_ratio(plt, lines):
    keys = sorted(lines)
    figure, panels = plt.subplots(len(keys), 1, figsize=(9, 3 * len(keys)), squeeze=False)
    for axes, key in zip(panels[:, 0], keys):
        draw(plt, axes, {name: line for name, line in lines[key].items() if name != "copy"}, "ratio")
        axes.set_xscale("log", base=2)
        axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
        axes.set_ylim(0, 1.1)
        axes.set_xlabel("N")
        axes.set_ylabel("ratio to copy")
        axes.set_title(f"{key[1]} {key[0]}")
    figure.tight_layout()
    return figure


def main():
    parser, arguments = parse_arguments()
    default = "tutorial" if arguments.form == "gbps" else "throughput,random"
    try:
        lines = load_lines(arguments.results, (arguments.section or default).split(","))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    wanted = (arguments.dtype, arguments.op)
    if not lines or (arguments.form == "gbps" and wanted not in lines):
        parser.error(f"nothing to draw: no rows of section {arguments.section or default}"
                     + (f", {arguments.dtype}, {arguments.op}" if arguments.form == "gbps" else ""))
    try:
        import matplotlib
    except ImportError:
        print("kernel_plot.py: needs matplotlib (Debian: python3-matplotlib)", file=sys.stderr)
        return 2
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "softmax"  # the same results give the same file
    matplotlib.rcParams["svg.fonttype"] = "none"  # letters as text, not as outlines
    import matplotlib.pyplot as plt
    figure = draw_gbps(plt, lines, arguments) if arguments.form == "gbps" else draw_ratio(plt, lines)
    figure.savefig(arguments.output, format="svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""kernel_peers.py: times the softmax of PyTorch (eager, and torch.compile) and a Triton kernel, by the method and on
the suites of softmax-kernel-bench, and writes the same columns. Needs torch with a GPU, and triton.

    kernel_peers.py --suite tutorial --csv peers.csv [--resume] [--max-seconds 480]

Exit codes: 0 done; 1 a point failed; 2 wrong usage; 3 --max-seconds were over, points are left."""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel_suite  # noqa: E402

PROVIDERS = ["torch", "torch_compile", "triton", "copy"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", required=True, help="a name or a file; may be repeated")
    parser.add_argument("--providers", default="torch,torch_compile,triton,copy", help="of " + ", ".join(PROVIDERS))
    parser.add_argument("--dtype", default="", help="only these, as fp32,bf16")
    parser.add_argument("--op", default="", help="only these, as softmax,log_softmax")
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--tensor-bytes", type=int, default=256 << 20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", help="file of results")
    parser.add_argument("--resume", action="store_true", help="go on with the file")
    parser.add_argument("--max-seconds", type=float, default=0, help="start no point after so long; 0: no limit")
    parser.add_argument("--list", action="store_true", help="print the points and end")
    arguments = parser.parse_args()
    arguments.providers = arguments.providers.split(",")
    unknown = set(arguments.providers) - set(PROVIDERS)
    if unknown:
        parser.error(f"--providers: {', '.join(sorted(unknown))} is none of {', '.join(PROVIDERS)}")
    if not arguments.list and not arguments.csv:
        parser.error("--csv is needed")
    return parser, arguments


def load_points(parser, arguments):
    points = []
    for suite in arguments.suite:
        try:
            points += kernel_suite.load(suite, arguments.tensor_bytes, arguments.seed)
        except (OSError, ValueError) as error:
            parser.error(f"--suite {suite}: {error}")
    dtypes, ops = arguments.dtype.split(","), arguments.op.split(",")
    return [point for point in points if (not arguments.dtype or point.dtype in dtypes) and
            (not arguments.op or point.op in ops)]


def runs_here(point, provider):
    if point.section.startswith(("cpu", "host_")) or point.segments > 1 or point.least_cols or point.lengths:
        return False
    if point.top_k() and provider == "triton":
        return False
    return provider != "triton" or (point.inner == 1 and not point.stride and point.dtype != "fp64")


def measure_all(points, arguments, results, bench):
    """The numbers of failed and of remaining points."""
    started, failed, left = time.monotonic(), 0, 0
    for done, point in enumerate(points):
        wanted = [p for p in arguments.providers if runs_here(point, p) and not results.has(point, p)]
        if not wanted:
            continue
        if arguments.max_seconds and time.monotonic() - started >= arguments.max_seconds:
            left += 1
            continue
        if sys.stderr.isatty():
            print(f"\r\033[K{done}/{len(points)} {point}", end="", file=sys.stderr, flush=True)
        timings, errors = bench.measure(point, [p for p in wanted if p != "copy"], arguments.samples)
        for provider in wanted:
            if provider in timings:
                us, mode = timings[provider]
                ceiling = point.bytes_moved() / timings["copy"][0] / 1e3
                results.add(point, provider, us, ceiling, arguments.samples, mode)
            else:
                failed += 1
                print(f"kernel_peers.py: {point}: {provider}: {errors.get(provider, 'not run')}", file=sys.stderr)
                results.add_failure(point, provider)
    print(f"kernel_peers.py: {time.monotonic() - started:.1f} s, {failed} failed, {left} points left", file=sys.stderr)
    return failed, left


def main():
    parser, arguments = parse_arguments()
    points = load_points(parser, arguments)
    if arguments.list:
        for point in points:
            print(point)
        return 0
    try:
        import kernel_peers_torch
    except ImportError as error:
        print(f"kernel_peers.py: needs torch and triton: {error}", file=sys.stderr)
        return 2
    if not kernel_peers_torch.has_gpu():
        print("kernel_peers.py: torch finds no GPU", file=sys.stderr)
        return 2
    try:
        results = kernel_suite.ResultFile(arguments.csv, arguments.resume)
    except (OSError, ValueError) as error:
        parser.error(f"--csv: {error}")
    failed, left = measure_all(points, arguments, results, kernel_peers_torch.Bench(arguments.seed))
    if failed:
        return 1
    return 3 if left else 0


if __name__ == "__main__":
    sys.exit(main())

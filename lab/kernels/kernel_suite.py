"""The suites and results of softmax-kernel-bench, for the Python scripts beside this file. The format of a suite is
described in kernels/bench/suites/all.txt; what is read here has to be what the program reads (its --list prints it)."""
import csv
import dataclasses
import math
import os
import re

COLUMNS = ["section", "dtype", "op", "M", "N", "provider", "us", "GBps", "ceiling_GBps", "ratio", "samples", "mode"]
SIZES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp64": 8}
SUITES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kernels/bench/suites")


@dataclasses.dataclass(frozen=True)
class Point:
    section: str
    dtype: str  # "bf16>fp32": of the input and the output
    op: str
    rows: int
    cols: int
    inner: int = 1
    stride: int = 0  # elements from one outer block to the next; 0: dense
    segments: int = 1
    least_cols: int = 0  # not 0: each row has a width of its own
    lengths: str = ""  # "half": how much of each row counts

    def __str__(self):
        layout = ""
        if self.lengths:
            layout = f" <{self.lengths}"
        elif self.least_cols:
            layout = f" ~{self.least_cols}"
        elif self.segments > 1:
            layout = f" /{self.segments}"
        elif self.inner > 1:
            layout = f" {self.rows // self.inner},{self.inner}"
        elif self.stride:
            layout = f" {self.stride}"
        return f"{self.section} {self.dtype} {self.op} {self.rows} {self.cols}{layout}"

    def key(self, provider):
        return (self.section, self.dtype, self.op, str(self.rows), str(self.cols), provider)

    def types(self):
        """Of the input and the output."""
        first, _, last = self.dtype.partition(">")
        return first, last or first

    def operation(self):
        """"softmax" or "log_softmax"."""
        return self.op.partition("+top")[0]

    def top_k(self):
        """0: the whole rows."""
        return int(self.op.partition("+top")[2] or 0)

    def bytes_moved(self):
        """Read and written by one run; of small answers read alone."""
        if self.top_k():
            return self.rows * self.cols * SIZES[self.types()[0]]
        return self.rows * self.cols * sum(SIZES[dtype] for dtype in self.types())


class _Random:
    """splitmix64, as in the program."""

    def __init__(self, seed):
        self._state = seed

    def _next(self):
        mask = (1 << 64) - 1
        self._state = (self._state + 0x9E3779B97F4A7C15) & mask
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    def log_uniform(self, least, most):
        unit = (self._next() >> 11) * 2.0**-53
        drawn = int(least * math.exp(unit * math.log((most + 1) / least)))
        return min(max(drawn, least), most)


def _widths(item, seed):
    """The widths that one item of the column N stands for, and the narrowest row of a ragged point."""
    drawn = re.fullmatch(r"(\d*)~(\d+)\.\.(\d+)", item)
    if drawn:
        least, most = int(drawn.group(2)), int(drawn.group(3))
        if not drawn.group(1):
            return [most], least
        random = _Random(seed)
        return [random.log_uniform(least, most) for _ in range(int(drawn.group(1)))], 0
    stepped = re.fullmatch(r"(\d+)\.\.(\d+)(?:([:*])(\d+))?", item)
    if not stepped:
        return [int(item)], 0
    value, last, sign, step = int(stepped.group(1)), int(stepped.group(2)), stepped.group(3), int(stepped.group(4) or 1)
    widths = []
    while value <= last:
        widths.append(value)
        value = value * step if sign == "*" else value + step
    return widths, 0


def _with_layout(point, layout):
    if layout.startswith("<"):
        return dataclasses.replace(point, lengths=layout[1:])
    if layout.startswith("+"):
        return dataclasses.replace(point, stride=point.cols + int(layout[1:]))
    if layout.startswith("/"):
        return dataclasses.replace(point, segments=int(layout[1:]))
    if "," in layout:
        return dataclasses.replace(point, inner=int(layout.split(",")[1]))
    return dataclasses.replace(point, stride=int(layout)) if layout else point


def _points_of_line(words, tensor_bytes, seed):
    section, dtypes, ops, rows_items, cols_items = words[:5]
    layout = words[5] if len(words) == 6 else ""
    for dtype in dtypes.split(","):
        for op in ops.split(","):
            for item in cols_items.split(","):
                widths, least_cols = _widths(item, seed)
                for cols in widths:
                    for rows_item in rows_items.split(","):
                        point = Point(section, dtype, op, 0, cols, least_cols=least_cols)
                        fill = max(1, tensor_bytes // (cols * SIZES[point.types()[0]]))
                        rows = fill if rows_item == "fill" else int(rows_item)
                        yield _with_layout(dataclasses.replace(point, rows=rows), layout)


def parse(text, tensor_bytes=256 << 20, seed=1):
    """The points of a suite; ValueError for a line that is none."""
    points, seen = [], set()
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) not in (5, 6):
            raise ValueError(f"line {number}: expected: section dtype op M N [layout]")
        try:
            for point in _points_of_line(words, tensor_bytes, seed):
                if point.key("") not in seen:
                    seen.add(point.key(""))
                    points.append(point)
        except (ValueError, KeyError) as error:
            raise ValueError(f"line {number}: {error}") from error
    return points


def load(name_or_file, tensor_bytes=256 << 20, seed=1):
    built_in = os.path.join(SUITES, name_or_file + ".txt")
    path = built_in if os.path.exists(built_in) else name_or_file
    with open(path, encoding="utf-8") as file:
        return parse(file.read(), tensor_bytes, seed)


def read_results(path):
    """The rows of a results file that have a ratio."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"{path} has other columns than these results")
        return [row for row in reader if row["ratio"]]


class ResultFile:
    """Written row by row. With resume an existing file is continued; its failed rows are measured again."""

    def __init__(self, path, resume):
        kept = read_results(path) if resume and os.path.exists(path) and os.path.getsize(path) else []
        self._keys = {tuple(row[column] for column in COLUMNS[:6]) for row in kept}
        self._file = open(path, "w", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(COLUMNS)
        self._writer.writerows([row[column] for column in COLUMNS] for row in kept)
        self._file.flush()

    def has(self, point, provider):
        return point.key(provider) in self._keys

    def add(self, point, provider, us, ceiling_gbps, samples, mode):
        gbps = point.bytes_moved() / us / 1e3
        self._writer.writerow([*point.key(provider), f"{us:.3f}", f"{gbps:.2f}", f"{ceiling_gbps:.2f}",
                               f"{gbps / ceiling_gbps:.4f}", samples, mode])
        self._file.flush()

    def add_failure(self, point, provider):
        self._writer.writerow([*point.key(provider), "", "", "", "", "", ""])
        self._file.flush()

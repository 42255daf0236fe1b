"""The part of kernel_peers.py that needs torch and triton: the kernels, and how they are timed (see
kernels/bench/cuda/sampling.h for the same in C++)."""
import statistics

import torch
import triton
import triton.language as tl

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}
# Relative, of the larger of a value and the floor; the softmax of each library rounds in places of its own.
TOLERANCE = {"fp32": 1e-4, "fp16": 2**-6, "bf16": 2**-3, "fp64": 1e-10}
GRAPH_US = 800
SLOW_IN_GRAPH_US = 400  # a provider that takes longer where the copy is short is timed by itself
SHORT_US = 50
MOST_LAUNCHES = 64
WIDEST_BLOCK = 32768


def has_gpu():
    return torch.cuda.is_available()


@triton.jit
def _copy_kernel(source, target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(target + at, tl.load(source + at, mask=inside), mask=inside)


@triton.jit
def _row_kernel(source, target, cols, LOG: tl.constexpr, BLOCK: tl.constexpr):
    """One row, padded to a power of two and held in registers."""
    start = tl.program_id(0).to(tl.int64) * cols
    column = tl.arange(0, BLOCK)
    inside = column < cols
    x = tl.load(source + start + column, mask=inside, other=float("-inf")).to(tl.float32)
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    total = tl.sum(e, axis=0)
    y = x - tl.log(total) if LOG else e / total
    tl.store(target + start + column, y.to(target.dtype.element_ty), mask=inside)


@triton.jit
def _loop_kernel(source, target, cols, LOG: tl.constexpr, BLOCK: tl.constexpr):
    """One row in pieces: a pass for the maximum and the sum, and one for the results."""
    start = tl.program_id(0).to(tl.int64) * cols
    column = tl.arange(0, BLOCK)
    maxima = tl.full((BLOCK,), float("-inf"), tl.float32)
    sums = tl.zeros((BLOCK,), tl.float32)
    for piece in range(0, cols, BLOCK):
        inside = piece + column < cols
        x = tl.load(source + start + piece + column, mask=inside, other=float("-inf")).to(tl.float32)
        # A lane that has seen nothing yet has no maximum to subtract.
        larger = tl.maximum(maxima, x)
        base = tl.where(larger == float("-inf"), 0.0, larger)
        sums = sums * tl.exp(maxima - base) + tl.exp(x - base)
        maxima = larger
    top = tl.max(maxima, axis=0)
    total = tl.sum(sums * tl.exp(maxima - top), axis=0)
    for piece in range(0, cols, BLOCK):
        inside = piece + column < cols
        x = tl.load(source + start + piece + column, mask=inside, other=float("-inf")).to(tl.float32) - top
        y = x - tl.log(total) if LOG else tl.exp(x) / total
        tl.store(target + start + piece + column, y.to(target.dtype.element_ty), mask=inside)


def _triton_softmax(x, y, log):
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    warps = min(max(block // 512, 1), 16)
    if block <= WIDEST_BLOCK:
        _row_kernel[(rows,)](x, y, cols, LOG=log, BLOCK=block, num_warps=warps)
    else:
        _loop_kernel[(rows,)](x, y, cols, LOG=log, BLOCK=8192, num_warps=16)


def _triton_copy(x, y, count):
    _copy_kernel[(triton.cdiv(count, 4096),)](x, y, count, BLOCK=4096, num_warps=8)


class _Slot:
    """One copy of a point's tensors, in the layout of the point."""

    def __init__(self, point):
        dtype, output_dtype = (DTYPES[name] for name in point.types())
        outer = point.rows // point.inner
        stride = point.stride or point.cols * point.inner
        span = (outer - 1) * stride + point.cols * point.inner
        self.flat_input = torch.randn(span, device="cuda", dtype=dtype)
        self.flat_output = torch.empty(span, device="cuda", dtype=output_dtype)
        shape, strides = (outer, point.cols), (stride, 1)
        if point.inner > 1:
            shape, strides = (outer, point.cols, point.inner), (stride, point.inner, 1)
        self.input = self.flat_input.as_strided(shape, strides)
        self.output = self.flat_output.as_strided(shape, strides)


def _copies(point):
    """Of one type, or as torch converts; beside small answers a read."""
    if point.top_k():
        yield lambda slot: slot.input.amax(1)
        yield lambda slot: slot.flat_input.amax()
        return
    count = point.rows * point.cols
    yield lambda slot: slot.flat_output[:count].copy_(slot.flat_input[:count])
    yield lambda slot: _triton_copy(slot.flat_input, slot.flat_output, count)


def _mixed_softmax(point):
    """As it is written in torch: results in more bits by the argument dtype, in fewer by a conversion after it."""
    source, target = (DTYPES[name] for name in point.types())
    function = torch.log_softmax if point.op == "log_softmax" else torch.softmax
    if target.itemsize > source.itemsize:
        return lambda x: function(x, 1, dtype=target)
    return lambda x: function(x, 1).to(target)


def _small_answers(point):
    """Of each row the largest, their softmax or log-softmax and indices, and the log of the sum of exponentials."""
    top_k, log = point.top_k(), point.operation() == "log_softmax"

    def answer(x):
        values, indices = torch.topk(x, top_k)
        normalizer = torch.logsumexp(x.float() if x.dtype.itemsize < 4 else x, 1, keepdim=True)
        results = values.to(normalizer.dtype) - normalizer
        return (results if log else results.exp()).to(x.dtype), indices, normalizer

    return answer


def _launch_of(provider, point):
    """A function of a slot; its result is kept alive while it is captured."""
    if point.top_k():
        answer = _small_answers(point)
        if provider == "torch_compile":
            torch._dynamo.reset()
            answer = torch.compile(answer, dynamic=False)
        return lambda slot: answer(slot.input)
    log = point.op == "log_softmax"
    mixed = ">" in point.dtype
    if provider == "torch" and mixed:
        eager = _mixed_softmax(point)
        return lambda slot: eager(slot.input)
    if provider == "torch":
        operator = torch.ops.aten._log_softmax.out if log else torch.ops.aten._softmax.out
        return lambda slot: operator(slot.input, 1, False, out=slot.output)
    if provider == "triton":
        return lambda slot: _triton_softmax(slot.input, slot.output, log)
    torch._dynamo.reset()  # every shape is compiled for itself
    function = torch.log_softmax if log else torch.softmax
    compiled = torch.compile(_mixed_softmax(point) if mixed else lambda x: function(x, 1), dynamic=False)
    return lambda slot: compiled(slot.input)


def _check(provider, launch, slot, point):
    """Raises if rows at the beginning, in the middle and at the end are wrong."""
    if point.top_k():
        return
    slot.flat_output.fill_(float("nan"))
    result = launch(slot)
    got = slot.output if provider == "triton" or (provider == "torch" and ">" not in point.dtype) else result
    function = torch.log_softmax if point.op == "log_softmax" else torch.softmax
    smallest = 2**-23 if "fp16" in point.types() else 0
    tolerance = max(TOLERANCE[name] for name in point.types())
    for block in {0, slot.input.shape[0] // 2, slot.input.shape[0] - 1}:
        expected = function(slot.input[block].double(), 0)
        floor = 1.0 if point.op == "log_softmax" else 0.01 * expected.max().item()
        bound = tolerance * expected.abs().clamp(min=floor) + smallest
        error = (got[block].double() - expected).abs()
        if not bool((error <= bound).all()):
            raise RuntimeError(f"wrong: block {block} is off by up to {error.max().item():.3g}")


class _Candidate:
    def __init__(self, launch, trial_us):
        self.launch, self.trial_us = launch, trial_us
        self.graph, self.launches, self.us, self.kept = None, 1, [], []

    def capture(self, slots, launches):
        self.graph, self.launches = torch.cuda.CUDAGraph(), launches
        with torch.cuda.graph(self.graph):
            for i in range(launches):
                self.kept.append(self.launch(slots[i % len(slots)]))
        self.graph.replay()

    def run(self, slot):
        if self.graph is not None:
            self.graph.replay()
        else:
            self.launch(slot)

    def mode(self):
        return "event" if self.graph is None else f"graph{self.launches}"


def _interval():
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


class Bench:
    def __init__(self, seed):
        torch.manual_seed(seed)
        properties = torch.cuda.get_device_properties(0)
        self._cold_bytes = 3 * getattr(properties, "L2_cache_size", 50 << 20)
        self._flushing = torch.zeros(self._cold_bytes // 4, dtype=torch.int32, device="cuda")

    def _flush(self):
        self._flushing.amax()  # reads only: no dirty lines are left for the next launch to write back

    def _trial(self, launch, slot):
        launch(slot)
        intervals = [_interval() for _ in range(5)]
        self._flush()
        for start, stop in intervals:
            start.record()
            launch(slot)
            stop.record()
        torch.cuda.synchronize()
        return min(start.elapsed_time(stop) for start, stop in intervals) * 1e3

    def measure(self, point, providers, samples):
        """{provider: (microseconds, mode)}, the copy included, and {provider: error}."""
        candidates, errors = {}, {}
        try:
            torch.cuda.empty_cache()  # the last point's memory, graphs included, has other sizes
            slot = _Slot(point)
            trials = [_Candidate(copy, self._trial(copy, slot)) for copy in _copies(point)]
            candidates["copy"] = min(trials, key=lambda candidate: candidate.trial_us)
            for provider in providers:
                try:
                    launch = _launch_of(provider, point)
                    _check(provider, launch, slot, point)
                    candidates[provider] = _Candidate(launch, self._trial(launch, slot))
                except Exception as error:  # a provider may fail in ways of its own; the others go on
                    errors[provider] = " ".join(str(error).split())[:300]
            slots, flush = self._plan(point, slot, candidates)
            self._sample(candidates, slots, samples, flush)
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            return {}, {provider: errors.get(provider, text) for provider in ["copy", *providers]}
        return {name: (statistics.median(c.us), c.mode()) for name, c in candidates.items()}, errors

    def _plan(self, point, slot, candidates):
        """Captures the launches, so that Python's time does not count; returns the slots, and whether the caches have
        to be flushed."""
        copy_us = candidates["copy"].trial_us
        launches = min(max(round(GRAPH_US / copy_us), 1), MOST_LAUNCHES)
        cold_slots = self._cold_bytes // point.bytes_moved() + 1
        count = min(launches, cold_slots)
        slots = [slot] + [_Slot(point) for _ in range(count - 1)]
        for candidate in candidates.values():
            if copy_us > SHORT_US or candidate.trial_us <= SLOW_IN_GRAPH_US:
                candidate.capture(slots, launches)
        return slots, count < cold_slots

    def _sample(self, candidates, slots, samples, flush):
        intervals = {name: [_interval() for _ in range(samples)] for name in candidates}
        self._flush()
        for i in range(samples):
            for name, candidate in candidates.items():
                if flush:
                    self._flush()
                start, stop = intervals[name][i]
                start.record()
                candidate.run(slots[i % len(slots)])
                stop.record()
        torch.cuda.synchronize()
        for name, candidate in candidates.items():
            candidate.us = [a.elapsed_time(b) * 1e3 / candidate.launches for a, b in intervals[name]]

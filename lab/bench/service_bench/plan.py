"""What is measured: sections of cells. A cell is measured in rounds; in a round every contender has one window, one
after the other, so that their figures can be compared as pairs."""
import dataclasses
import functools
import typing

import loads
import programs

PAYLOADS = [64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]
STREAM_PAYLOADS = [64, 1 << 10, 4 << 10, 64 << 10]
STREAM16_PAYLOADS = [64, 1 << 10, 4 << 10]
# The echo with a copy is the measure of payloads where the copy is what costs.
COPY_FROM = 64 << 10
BASELINE_PAYLOADS = [4 << 10, 64 << 10]
GENERATOR_PAYLOADS = [64, 64 << 10, 1 << 20]
GENERATOR_SECONDS = 1.0  # of a window, at most: a check, with six windows a backend and payload
VERIFY = 0.01
PROCESSES_OF_16_CORES = 4
MOST_PROCESSES = 64  # of softmax-loadgen


@dataclasses.dataclass
class Cell:
    section: str
    name: str
    contenders: dict  # name -> Contender, in the order of even rounds


@dataclasses.dataclass
class Contender:
    measure: typing.Callable  # -> figures
    row: dict = None          # the key columns of the results' CSV; None: not a row of it


@dataclasses.dataclass
class Bench:
    """What the sections measure with."""
    fleet: programs.Fleet
    loadgen: str
    backends: list   # of the service: cuda, cpu; the first is the one the scenarios use
    window: tuple    # (warm-up, measured) seconds
    payloads: list
    processes: int   # of the generator at saturation
    cores: int
    gpus: int
    notes: list      # lines on what cannot be measured here
    unread_clients: int = 64
    without: list = dataclasses.field(default_factory=list)  # of the transports' cells: echo_c, echo_copy, null
    inprocess_flags: list = dataclasses.field(default_factory=list)

    @property
    def service(self):
        return self.backends[0]


def saturation(payload, processes):
    """Connections and requests in flight by payload: the least from which half as many again raise neither the echo nor
    the service by 5 % on 16 cores (the section "generator" looks again in every run). With more processes, on
    larger machines, there are more connections, too."""
    times = max(1, processes // PROCESSES_OF_16_CORES)
    if payload <= 64 << 10:
        return loads.Load(times * (48 if payload == 16 << 10 else 24), 8, processes)
    if payload <= 256 << 10:
        return loads.Load(times * 16, 4, processes)
    if payload <= 4 << 20:
        return loads.Load(times * 16, 2, processes)
    return loads.Load(times * 12, 1, processes)


def default_processes(cores):
    """Of the generator."""
    return 1 if cores < 8 else min(max(PROCESSES_OF_16_CORES, cores // 4), MOST_PROCESSES)


ONE_BY_ONE = loads.Load(1, 1, 1, 1)


def cell_name(transport, payload, load):
    return f"{transport} {payload} {load.connections}x{load.in_flight}"


def contender(bench, backend, method, transport, payload, load):
    """A backend under a load; a row of the results."""
    load = dataclasses.replace(load, method=method)
    row = {"server": programs.SERVERS[backend], "backend": backend, "method": method, "transport": transport,
           "payload_bytes": payload, "connections": load.connections, "in_flight": load.in_flight}
    return Contender(lambda: window_of(bench, bench.fleet.server(backend), backend, payload, load, transport), row)


def window_of(bench, server, backend, payload, load, transport="tcp"):
    # These send back what they got, or what was in memory.
    verify = None if backend in ("echo", "echo_c", "echo_copy", "null") else VERIFY
    load = dataclasses.replace(load, what=loads.of_payload(payload))
    return loads.run(bench.loadgen, server, transport, load, bench.window, verify)


def transport_cell(bench, section, transport, payload, load):
    names = ["echo", "echo_c", "echo_copy", "null"] + bench.backends
    names = [name for name in names if payload >= COPY_FROM or name != "echo_copy"]
    return Cell(section, cell_name(transport, payload, load),
                {f"{backend}/unary": contender(bench, backend, "unary", transport, payload, load)
                 for backend in names if backend not in bench.without})


def saturation_cells(bench):
    return [transport_cell(bench, "saturation", "tcp", payload, saturation(payload, bench.processes))
            for payload in bench.payloads]


def latency_cells(bench):
    return [transport_cell(bench, "latency", "tcp", payload, ONE_BY_ONE) for payload in bench.payloads]


def unix_cells(bench):
    return [transport_cell(bench, "unix", "unix", payload, load) for payload in bench.payloads
            for load in (ONE_BY_ONE, saturation(payload, bench.processes))]


def stream_cells(bench):
    cells = []
    for payload in [p for p in STREAM_PAYLOADS if p in bench.payloads]:
        load = saturation(payload, bench.processes)
        pairs = [("echo", "stream"), (bench.service, "stream"), (bench.service, "unary")]
        cells.append(_methods_cell(bench, f"stream {payload}", pairs, payload, load, load))
    for payload in [p for p in STREAM16_PAYLOADS if p in bench.payloads]:
        load = saturation(payload, bench.processes)
        packed = dataclasses.replace(load, in_flight=load.in_flight * 16)  # as many messages as calls
        pairs = [("echo", "unary"), ("echo", "stream16"), (bench.service, "stream16")]
        cells.append(_methods_cell(bench, f"stream16 {payload}", pairs, payload, load, packed))
    return cells


def _methods_cell(bench, name, pairs, payload, load, packed):
    return Cell("stream", name,
                {f"{backend}/{method}": contender(bench, backend, method, "tcp", payload,
                                                  packed if method == "stream16" else load)
                 for backend, method in pairs})


def baseline_cells(bench):
    backends = ["echo", bench.service]
    for backend in ("sync_baseline", "torch"):
        why = bench.fleet.why_missing(backend)
        if why is None:
            backends.append(backend)
        else:
            bench.notes.append(f"{backend}: not measured: {why}")
    cells = []
    for payload in [p for p in BASELINE_PAYLOADS if p in bench.payloads]:
        load = saturation(payload, bench.processes)
        cells.append(Cell("baselines", cell_name("tcp", payload, load),
                          {f"{backend}/unary": contender(bench, backend, "unary", "tcp", payload, load)
                           for backend in backends}))
    return cells


# Of answers that are as small as the question: rows of logits, their 20 best and their normalizer.
ANSWER = "top20+log-sum-exp"
ANSWER_SHAPES = [("1x262144", "float32"), ("1x128256", "bfloat16"), ("1x128256", "float32"), ("1x16384", "float32"),
                 ("1x1024", "float32")]
ANSWER_BYTES = 20 * 8 + 8 + 64  # the parts in fp32, and a header


def answers_cells(bench):
    """The service, asked for little and for everything, beside a sink: a raw server that takes the same bytes and
    answers with as few."""
    cells = []
    for shape, dtype in ANSWER_SHAPES:
        payload = int(shape.split("x")[1]) * (2 if dtype == "bfloat16" else 4)
        if payload > max(bench.payloads):
            continue
        what = ("--shape", shape, "--dtype", dtype)
        load = dataclasses.replace(saturation(payload, bench.processes), what=what)
        small = dataclasses.replace(load, what=what + ("--answer", ANSWER))

        def window(server, load, verify):
            return Contender(lambda: loads.run(bench.loadgen, server(), "tcp", load, bench.window, verify))

        service = functools.partial(bench.fleet.server, bench.service)
        sink = functools.partial(bench.fleet.server, "sink", ("--answer-bytes", str(ANSWER_BYTES)))
        cells.append(Cell("answers", f"{shape} {dtype}", {"sink": window(sink, small, None),
                                                         "small": window(service, small, VERIFY),
                                                         "tensor": window(service, load, VERIFY)}))
    return cells


def generator_cells(bench):
    """Whether half as many connections, or processes, again raise a side: then the generator was its limit."""
    warm_up, seconds = bench.window
    bench = dataclasses.replace(bench, window=(warm_up, min(seconds, GENERATOR_SECONDS)))
    cells = []
    for payload in [p for p in GENERATOR_PAYLOADS if p in bench.payloads]:
        load = saturation(payload, bench.processes)
        forms = {"as_measured": load,
                 "more_connections": dataclasses.replace(load, connections=load.connections * 3 // 2),
                 "more_processes": dataclasses.replace(load, processes=max(load.processes + 1,
                                                                           load.processes * 3 // 2))}
        contenders = {}
        for backend in ("echo", bench.service):
            for form, of in forms.items():
                contenders[f"{backend}/{form}"] = dataclasses.replace(
                    contender(bench, backend, "unary", "tcp", payload, of), row=None)
        cells.append(Cell("generator", str(payload), contenders))
    return cells

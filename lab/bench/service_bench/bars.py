"""The bars, and what was measured for each. A bar of a ratio is met when the median is at it and the interval is
narrower than MAX_WIDTH, or all of it on one side of the bar; otherwise the figure is not established, and neither is
one of so few pairs that their interval is not one of 95 %."""
import dataclasses

import devices
import fleets
import plan
import ratios

MAX_WIDTH = 0.06
LEVEL = 0.95
KIB = 1 << 10


@dataclasses.dataclass
class Bar:
    section: str
    what: str
    bar: str
    value: ratios.Estimate
    met: bool        # None: reported, or not established
    unit: str = ""


def all_bars(journal, settings):
    service = settings["backends"][0]
    found = []
    for make in (_transport, _latency, _unix, _streams, _answers, _mixed, _regions, _baselines, _inprocess, _overload,
                 _fairness, _unread, _idle, _threads, _crowd, _devices):
        found += make(journal, service)
    return [bar for bar in found if bar.value is not None]


def _at_least(section, what, bar, value, unit=""):
    if value is None or bar is None:
        return Bar(section, what, "reported", value, None, unit)
    established = value.coverage >= LEVEL and (value.width < MAX_WIDTH or value.low >= bar or value.high < bar)
    return Bar(section, what, f">= {bar:g}", value, value.median >= bar if established else None, unit)


def _at_most(section, what, bar, value, unit=""):
    """Of times, whose intervals are as wide as they are: the median counts."""
    met = value.median <= bar if value is not None and value.coverage >= LEVEL else None
    return Bar(section, what, f"<= {bar:g}", value, met, unit)


def size(payload):
    for unit, text in ((1 << 20, "MiB"), (KIB, "KiB")):
        if payload >= unit:
            return f"{payload // unit} {text}"
    return f"{payload} B"


def _payload(cell):
    return int(cell.split()[1])


def _transport(journal, service):
    bars = []
    for cell in journal.cells("saturation"):
        payload, name = _payload(cell), size(_payload(cell))

        def ratio(a, b, cell=cell):
            return ratios.ratio(journal.pairs("saturation", cell, f"{a}/unary", f"{b}/unary", "calls_per_s"))

        if payload < plan.COPY_FROM:
            bars.append(_at_least("saturation", f"null / echo, {name}", 0.95 if payload <= 16 * KIB else None,
                                  ratio("null", "echo")))
        else:
            bars.append(_at_least("saturation", f"null / echo with a copy, {name}", 0.97, ratio("null", "echo_copy")))
        bars.append(_at_least("saturation", f"{service} / echo, {name}", _service_bar(service, payload),
                              ratio(service, "echo")))
        bars.append(_at_least("saturation", f"{service} / echo by the C interface, {name}", None,
                              ratio(service, "echo_c")))
        if payload >= 4 << 20 and service == "cuda":
            bars.append(_at_least("saturation", f"{service} / echo with a copy, {name}", 0.95,
                                  ratio(service, "echo_copy")))
        bars += _copies(journal, service, cell, payload) + _cpu(journal, service, cell, payload)
    return bars


def _cpu(journal, service, cell, payload):
    """Holds still where calls/s do not: on a machine that others load too."""
    against = "echo" if payload < plan.COPY_FROM else "echo_copy"
    return [Bar("saturation", f"server CPU a call, {a} / {b.replace('echo_copy', 'echo with a copy')}, {size(payload)}",
                "reported", ratios.ratio(journal.pairs("saturation", cell, f"{a}/unary", f"{b}/unary",
                                                       "server_cpu_us_per_call")), None)
            for a, b in (("null", against), (service, "echo"))]


def _service_bar(service, payload):
    if service == "cpu":
        return 0.70 if 4 * KIB <= payload <= 1 << 20 else None
    return 0.90 if payload <= 1 << 20 else 0.85


def _copies(journal, service, cell, payload):
    """By the server's own counter; the scrapes see an answer or two of the window's edges in one count only."""
    if payload <= KIB:
        return []
    name, unit = size(payload), "copies"
    copies_in = ratios.estimate(journal.values("saturation", cell, f"{service}/unary", "copies_in"))
    copies_out = ratios.estimate(journal.values("saturation", cell, f"{service}/unary", "copies_out"))
    return [Bar("saturation", f"host bytes copied in per payload byte, {name}", "<= 1.00", copies_in,
                copies_in.median < 1.005 if copies_in else None, unit),
            Bar("saturation", f"host bytes copied out per payload byte, {name}", "0.00", copies_out,
                copies_out.median < 0.005 if copies_out else None, unit)]


def _latency(journal, service):
    bars = []
    for cell in journal.cells("latency"):
        payload = _payload(cell)
        for figure, bar in (("p50_us", 20), ("p99_us", 40)):
            value = ratios.difference(journal.pairs("latency", cell, f"{service}/unary", "echo/unary", figure))
            what = f"1x1 {figure[:3]} over the echo's, {size(payload)}"
            if payload in (64, 4 * KIB):
                bars.append(_at_most("latency", what, bar, value, "us"))
            else:
                bars.append(Bar("latency", what, "reported", value, None, "us"))
    return bars


def _unix(journal, service):
    return [_at_least("unix", f"{service} / echo over a unix socket, {' '.join(cell.split()[1:])}", None,
                      ratios.ratio(journal.pairs("unix", cell, f"{service}/unary", "echo/unary", "calls_per_s")))
            for cell in journal.cells("unix")]


def _streams(journal, service):
    bars = []
    for cell in journal.cells("stream"):
        method, payload = cell.split()[0], _payload(cell)
        name = size(payload)
        if method == "stream":
            bar = 0.90 if payload <= KIB else None
            bars.append(_at_least("stream", f"stream / stream echo, {name}", bar, ratios.ratio(
                journal.pairs("stream", cell, f"{service}/stream", "echo/stream", "calls_per_s"))))
            bars.append(_at_least("stream", f"stream / our own unary, {name}", 1.0 if payload <= KIB else None,
                                  ratios.ratio(journal.pairs("stream", cell, f"{service}/stream", f"{service}/unary",
                                                             "calls_per_s"))))
        else:
            bars.append(_at_least("stream", f"16 requests a message / unary echo, {name}", 3 if payload == 64 else None,
                                  ratios.ratio(journal.pairs("stream", cell, f"{service}/stream16", "echo/unary",
                                                             "calls_per_s"))))
            bars.append(_at_least("stream", f"16 requests a message / the echo of such messages, {name}", None,
                                  ratios.ratio(journal.pairs("stream", cell, f"{service}/stream16", "echo/stream16",
                                                             "calls_per_s"))))
    return bars


def _regions(journal, _service):
    return [_at_least("regions", f"{way} / messages, {cell}", None,
                      ratios.ratio(journal.pairs("regions", cell, way, "messages", "calls_per_s")))
            for cell in journal.cells("regions") for way in ("host", "auto")]


def _devices(journal, _service):
    return [_at_least("devices", f"{number} devices / 1, {cell}", devices.bar_of(cell, number),
                      ratios.ratio(journal.pairs("devices", cell, str(number), "1", "GBps")))
            for cell in journal.cells("devices") for number in devices.NUMBERS[1:]]


def _mixed(journal, _service):
    return [_at_least("mixed", f"widths {cell} / uniform ones of the same mean", 0.95,
                      ratios.ratio(journal.pairs("mixed", cell, "mixed", "uniform", "calls_per_s")))
            for cell in journal.cells("mixed")]


def _answers(journal, service):
    bars, bar = [], 0.90 if service == "cuda" else 0.70
    for cell in journal.cells("answers"):
        bars.append(_at_least("answers", f"20 best of {cell} / a sink of the same bytes", bar,
                              ratios.ratio(journal.pairs("answers", cell, "small", "sink", "calls_per_s"))))
        bars.append(_at_least("answers", f"20 best of {cell} / the whole tensor",
                              1.5 if cell.startswith("1x262144") else None,
                              ratios.ratio(journal.pairs("answers", cell, "small", "tensor", "calls_per_s"))))
    return bars


def _baselines(journal, service):
    return [_at_least("baselines", f"{service} / {backend}, {size(_payload(cell))}", bar,
                      ratios.ratio(journal.pairs("baselines", cell, f"{service}/unary", f"{backend}/unary",
                                                 "calls_per_s")))
            for cell in journal.cells("baselines") for backend, bar in (("sync_baseline", 2.5), ("torch", 10))]


def _inprocess(journal, service):
    one = "1 GPU" if service == "cuda" else service
    cuda = service == "cuda"
    bars = [_at_least("inprocess", "requests/s at 4 KiB", 1.5e6 if cuda else None,
                      ratios.estimate(journal.values("inprocess", "4 KiB", one, "calls_per_s")), "requests/s"),
            _at_least("inprocess", "GB/s in, and as much out, at 1 MiB", None,
                      ratios.estimate(journal.values("inprocess", "1 MiB", one, "GBps")), "GB/s"),
            _at_least("inprocess", "1 MiB / the best in and out through a kernel", 0.90,
                      ratios.ratio(journal.pairs("inprocess", "1 MiB", one, "host suite", "GBps")))]
    for gpus, bar in ((2, 1.9), (4, 3.6), (8, None)):
        bars.append(_at_least("inprocess", f"{gpus} GPUs / 1, 1 MiB", bar,
                              ratios.ratio(journal.pairs("inprocess", "1 MiB", f"{gpus} GPUs", one, "GBps"))))
    return bars


def _overload(journal, _service):
    cell = "4 KiB"
    goodput = _at_least("overload", "goodput at twice the capacity / capacity", 0.95,
                        ratios.ratio(journal.pairs("overload", cell, "2.0", "capacity", "calls_per_s")))
    p99 = _at_most("overload", "p99 of accepted at twice the capacity / at 0.8 of it", 3,
                   ratios.ratio(journal.pairs("overload", cell, "2.0", "0.8", "p99_us")))
    # An open loop that comes late offers less than it says: that judges the generator.
    late = [entry for entry in journal.of("overload", cell)
            if any(entry["windows"][part]["figures"].get("generator_why") for part in ("0.8", "2.0"))]
    if not late:
        return [goodput, p99]
    return [dataclasses.replace(bar, what=f"{bar.what} (the generator was late in {len(late)} rounds)", met=None)
            for bar in (goodput, p99)]


def _fairness(journal, _service):
    return [_at_most("fairness", "p99 of ten with 1 in flight, beside one with 1024 / alone", 3,
                     ratios.ratio(journal.pairs("fairness", "4 KiB", "beside", "alone", "p99_us")))]


def _threads(journal, service):
    bars = []
    for cell in journal.cells("threads"):
        names = list(journal.of("threads", cell)[0]["windows"])

        def best(backend, cell=cell, names=names):
            of = [name for name in names if name.startswith(f"{backend}/") and not name.endswith(fleets.ITSELF)]
            rates = {name: ratios.estimate(journal.values("threads", cell, name, "calls_per_s")) for name in of}
            return max((name for name in of if rates[name]), key=lambda name: rates[name].median, default=None)

        mine, echo, size_ = best(service), best("echo"), size(_payload(cell))
        bars.append(_at_least("threads", f"{service}: threads by itself / {mine.split('/')[1]}, the best, {size_}",
                              0.95, ratios.ratio(journal.pairs("threads", cell, f"{service}/{fleets.ITSELF}", mine,
                                                         "calls_per_s"))))
        if echo is not None:
            bars.append(_at_least("threads", f"{service} / echo, each with its best threads, {size_}", 0.95,
                                  ratios.ratio(journal.pairs("threads", cell, mine, echo, "calls_per_s"))))
    return bars


def _crowd(journal, _service):
    bars = []
    for idle in fleets.IDLE[1:]:
        busy, one = (journal.pairs("crowd", cell, f"{idle} idle", "0 idle", figure)
                     for cell, figure in (("24 busy", "calls_per_s"), ("one call at a time", "p50_us")))
        bars += [_at_least("crowd", f"calls/s beside {idle} idle connections / without", 0.90, ratios.ratio(busy)),
                 _at_most("crowd", f"p50 of one call at a time beside {idle} idle connections, over that without", 25,
                          ratios.difference(one), "us")]
    return bars


def _unread(journal, _service):
    bars = []
    for cell in journal.cells("unread"):
        windows = [entry["windows"]["beside"]["figures"] for entry in journal.of("unread", cell)]
        held = [w["held_bytes_most"] / (w["clients"] * w["share_bytes"]) for w in windows]
        back = ratios.estimate([w["back_s"] for w in windows])
        bars += [
            _at_most("unread", f"{cell}: held by the clients that never read / their share", 1, ratios.estimate(held)),
            Bar("unread", f"{cell}: all back after", f"<= {windows[0]['answer_timeout_s'] + 1}", back,
                back.high <= windows[0]["answer_timeout_s"] + 1, "s"),
            _at_most("unread", f"{cell}: p99 of the others / alone", 2,
                     ratios.ratio(journal.pairs("unread", cell, "beside", "alone", "p99_us")))]
    return bars


def _idle(journal, _service):
    bars = []
    for cell in journal.cells("idle"):
        cores = ratios.estimate(journal.values("idle", cell, cell, "cpu_cores"))
        wakeups = ratios.estimate(journal.values("idle", cell, cell, "wakeups_per_s"))
        bars += [_at_most("idle", f"{cell}: cores used by an idle server", 0.02, cores, "cores"),
                 Bar("idle", f"{cell}: wake-ups of an idle server", "reported", wakeups, None, "/s")]
    return bars

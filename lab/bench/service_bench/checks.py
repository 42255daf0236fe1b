"""Whether a run counts: the generator and the echo are not the limit, and the figures are enough of them."""
import dataclasses

import ratios

ROUNDS = 7
SECONDS = 5
# What the echo must reach over TCP on the machine the bars are for (16 cores, an H100): payload -> figure, least.
FLOOR_CORES = 16
FLOORS = {64: ("calls_per_s", 260_000, "calls/s"), 64 << 10: ("GBps", 8.5, "GB/s"), 1 << 20: ("GBps", 9.5, "GB/s")}
HIGHEST_GAIN = 1.05
LEAST_VERIFIED = 0.008  # of 1 %; which answers are taken is drawn


@dataclasses.dataclass
class Check:
    what: str
    ok: bool  # None: does not apply here, or was not measured
    why: str


def all_checks(journal, settings):
    return [_floor(journal, settings), _shared(settings), _generator(journal), _rounds(journal, settings),
            _verified(journal)]


def _floor(journal, settings):
    what = "1 the echo is as fast as this kind of machine allows"
    if settings["cores"] != FLOOR_CORES:
        return Check(what, None, f"the floors are for {FLOOR_CORES} cores; this machine has {settings['cores']}")
    seen, ok = [], True
    for payload, (figure, least, unit) in FLOORS.items():
        cells = [cell for cell in journal.cells("saturation") if cell.startswith(f"tcp {payload} ")]
        values = [v for cell in cells for v in journal.values("saturation", cell, "echo/unary", figure)]
        best = ratios.estimate(values)
        if best is None:
            return Check(what, None, f"the echo at {payload} bytes was not measured")
        ok = ok and best.median >= least
        seen.append(f"{payload} B: {best.median:,.6g} {unit} (least {least:,})")
    return Check(what, ok, "; ".join(seen))


def _shared(settings):
    queues = settings.get("queues", {})
    ok = len(set(queues.values())) == 1 and len(queues) > 1 if queues else None
    return Check("2 echo and service share process and channel settings, queues and framing", ok,
                 "common/base/process_settings.h and server/rpc/accept/channel_settings.h are in both; queues: "
                 + ", ".join(f"{name} {count}" for name, count in queues.items()))


def _generator(journal):
    what = "3 more connections or processes raise neither side by 5 %"
    seen, ok = [], True
    for cell in journal.cells("generator"):
        for backend in dict.fromkeys(name.split("/")[0] for entry in journal.of("generator", cell)
                                     for name in entry["windows"]):
            for form in ("more_connections", "more_processes"):
                gain = ratios.ratio(journal.pairs("generator", cell, f"{backend}/{form}", f"{backend}/as_measured",
                                                  "calls_per_s"))
                ok = ok and gain.median <= HIGHEST_GAIN
                seen.append(f"{backend} {cell} B {form.replace('_', ' ')} {gain.median:.2f}")
    windows = [window["figures"] for entry in journal.of("saturation") for window in entry["windows"].values()]
    used = ""
    if windows:
        limited = sum(1 for window in windows if window.get("generator_why"))
        used = (f"the generator used up to {max(w['generator_cores'] for w in windows):.1f} cores and calls itself the "
                f"limit of {limited} of {len(windows)} windows; ")
    return Check(what, ok if seen else None, used + ("; ".join(seen) or "the section generator was not measured"))


def _rounds(journal, settings):
    sections = ("saturation", "latency", "unix", "stream", "baselines")
    counts = [len(journal.of(section, cell)) for section in sections for cell in journal.cells(section)]
    if not counts:
        return Check(f"4 at least {ROUNDS} rounds of {SECONDS} s", None, "nothing was measured")
    seconds = settings["seconds"]
    return Check(f"4 at least {ROUNDS} rounds of {SECONDS} s", min(counts) >= ROUNDS and seconds >= SECONDS,
                 f"{min(counts)} to {max(counts)} rounds of {seconds:g} s; the order turns with each round")


def _verified(journal):
    what = "5 1 % of the answers is verified"
    windows = [window["figures"] for entry in journal.rounds for window in entry["windows"].values()
               if window["figures"].get("verified")]
    if not windows:
        return Check(what, None, "nothing was measured that computes")
    answered, verified = sum(w["answered"] for w in windows), sum(w["verified"] for w in windows)
    wrong = sum(w["wrong"] for w in windows)
    return Check(what, verified >= LEAST_VERIFIED * answered and wrong == 0,
                 f"{verified:,} of {answered:,} ({verified / answered:.2%}): {wrong} wrong")

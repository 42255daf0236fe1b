"""The section `devices`: the service on one, two, four and eight devices of one process, by messages and by regions of
the host's and of the devices' memory. Without a GPU the CPU poses as two, which shows that the section works."""
import dataclasses
import functools

import loads
import plan
from plan import Cell, Contender

NUMBERS = (1, 2, 4, 8)
# In bytes: requests in messages or in the host's memory.
PAYLOADS = {"64 KiB": 64 << 10, "1 MiB": 1 << 20}
DEVICE_SHAPE = "64x128256"
IN_FLIGHT_A_DEVICE = 4
# Of one device's rate, by number, where the memory is the host's. Devices share nothing of their own memory.
HOST_BARS = {4: 3.6, 8: 6.5}
DEVICE_BAR = 0.95


def cells(bench):
    cuda = bench.service == "cuda"
    numbers = [n for n in NUMBERS if n <= (bench.gpus if cuda else 2)]

    def form(number, load, *extra):
        return Contender(functools.partial(_measure, bench, number, load, extra))

    found = []
    for name, payload in PAYLOADS.items():
        load = dataclasses.replace(plan.saturation(payload, bench.processes), what=loads.of_payload(payload))
        for way, extra in (("messages", ()), ("host regions", ("--regions", "host"))):
            found.append(Cell("devices", f"{way}, {name}", {str(n): form(n, load, *extra) for n in numbers}))
    if cuda:
        def share(number):
            return loads.Load(number, IN_FLIGHT_A_DEVICE, min(number, bench.processes), what=("--shape", DEVICE_SHAPE))

        found.append(Cell("devices", f"device regions, {DEVICE_SHAPE}",
                          {str(n): form(n, share(n), "--regions", "device") for n in numbers}))
    if cuda and bench.gpus < NUMBERS[-1]:
        bench.notes.append(f"{NUMBERS[-1]} devices: not measured: this machine has {bench.gpus}")
    return found


def _measure(bench, number, load, extra):
    name = f"{number}_devices"
    chosen = (("--devices", ",".join(map(str, range(number)))) if bench.service == "cuda"
              else ("--unsafe-testing", "--fault", f"devices:{number}"))
    server = bench.fleet.server(bench.service, name=name, extra=chosen + (
        "--regions-socket", bench.fleet.socket(f"{name}.sock"), "--regions-connection-bytes", "1GiB"))
    figures = loads.run(bench.loadgen, server, "tcp", load, bench.window, plan.VERIFY, extra)
    # What is full: all cores, or each device's link by so much in and as much out.
    return {**figures, "GBps_a_device": figures["GBps"] / number}


def bar_of(cell, number):
    """Of the rate of so many devices over one's; None: it is reported."""
    if cell.startswith("device regions"):
        return DEVICE_BAR * number
    return HOST_BARS.get(number) if cell == "host regions, 1 MiB" else None

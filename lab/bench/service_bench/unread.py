"""The section `unread`: clients that take large answers and never read them, beside normal load."""
import re
import threading
import time
import urllib.request

import loads
import never_reading
from plan import VERIFY, Cell, Contender
from waiting import eventually, let_pass

ANSWER_BYTES = 16 << 20
# Each client wants twice as much as its share, so that a server which kept to no share would be seen.
SHARE_BYTES = 16 << 20
CALLS = 2
ANSWER_TIMEOUT_S = 2
# Up to 1 KiB an answer is copied, so whatever is held is the never-reading clients'.
GOOD = loads.Load(8, 2, what=loads.of_payload(1 << 10))
MODES = {"shut window": ("tcp", True), "full TCP socket": ("tcp", False), "full unix socket": ("unix", False)}


def cells(bench):
    return [Cell("unread", mode, {"alone": Contender(lambda: _good(bench)),
                                  "beside": Contender(lambda mode=mode: _beside(bench, *MODES[mode]))})
            for mode in MODES]


def _server(bench):
    flags = ["--answer-timeout", f"{ANSWER_TIMEOUT_S}s", "--max-unread-bytes-per-connection", str(SHARE_BYTES)]
    return bench.fleet.server(bench.service, flags, f"{bench.service}_unread")


def _good(bench):
    window = (bench.window[0], max(bench.window[1], ANSWER_TIMEOUT_S + 2))
    return loads.run(bench.loadgen, _server(bench), "tcp", GOOD, window, VERIFY)


def _beside(bench, transport, shut_window):
    server = _server(bench)
    watch = _Slabs(server.metrics)
    clients = [never_reading.Client(server.address(transport), shut_window) for _ in range(bench.unread_clients)]
    asked = []
    asking = threading.Thread(target=_ask_all, args=(clients, bench.window[0], asked))
    try:
        asking.start()
        seen = _good(bench)
        asking.join(120)
        if len(asked) != len(clients):
            raise RuntimeError(f"{len(asked)} of {len(clients)} never-reading clients could send their request")
        back = watch.wait_until_free(asked[-1], ANSWER_TIMEOUT_S + 20)
    finally:
        for client in clients:
            client.close()
        watch.stop()
    return {**seen, **watch.figures(), "back_s": back, "clients": len(clients), "answer_timeout_s": ANSWER_TIMEOUT_S}


def _ask_all(clients, delay, asked):
    let_pass(delay)
    message = never_reading.softmax_message(ANSWER_BYTES)

    def ask(client):
        client.ask(message, CALLS)
        asked.append(time.monotonic())

    threads = [threading.Thread(target=ask, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class _Slabs:
    """Reads the server's gauges ten times a second."""

    def __init__(self, metrics):
        self._url = f"http://{metrics}/metrics"
        self._samples = []  # (time, slabs used, slabs held by answers)
        text = self._read()
        self._total = self._gauge(text, r'softmax_slabs\{state="total"\}')
        self._slab_bytes = self._gauge(text, r'softmax_setting\{name="slab_bytes"\}')
        self._share = self._gauge(text, r'softmax_setting\{name="max_unread_bytes_per_connection"\}')
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self):
        self._stopping.set()
        self._thread.join()

    def wait_until_free(self, since, seconds):
        """Seconds from `since` until no answer holds a slab; `seconds` when that did not come in time."""
        seen = []

        def free():
            seen[:] = self._held()
            return any(held > 0 for _, held in seen) and seen[-1][0] > since and seen[-1][1] == 0
        if not eventually(free, since + seconds - time.monotonic(), 0.1):
            return seconds
        # The first sample from which on nothing was held.
        last_held = max(at for at, held in seen if held > 0)
        return max(0.0, min(at for at, _ in seen if at > max(last_held, since)) - since)

    def figures(self):
        return {"held_bytes_most": max(held for _, held in self._held()) * self._slab_bytes,
                "used_slabs_most": max(used for _, used, _ in self._samples), "slabs": self._total,
                "share_bytes": self._share}

    def _held(self):
        return [(at, held) for at, _, held in list(self._samples)]

    def _run(self):
        while True:
            text = self._read()
            self._samples.append((time.monotonic(), self._gauge(text, r'softmax_slabs\{state="used"\}'),
                                  self._gauge(text, r'softmax_slabs\{state="held_by_answers"\}')))
            if self._stopping.wait(0.1):
                return

    def _read(self):
        with urllib.request.urlopen(self._url, timeout=20) as answer:
            return answer.read().decode()

    @staticmethod
    def _gauge(text, pattern):
        found = re.search("^" + pattern + r" (\S+)$", text, re.MULTILINE)
        if not found:
            raise RuntimeError(f"the server's metrics have no {pattern}")
        return float(found.group(1))

"""A server started for a long test, and what /proc says of it."""
import collections
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
from waiting import eventually  # noqa: E402

Server = collections.namedtuple("Server", "pid started address metrics")
Sample = collections.namedtuple("Sample", "rss descriptors threads cpu_s")


def _stat(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()


def start_time(pid):
    """In clock ticks since boot: tells a process from a later one with its number. None: there is none."""
    try:
        return int(_stat(pid)[19])
    except (OSError, IndexError):
        return None


def wait_for(log, pattern, seconds):
    if found := eventually(lambda: re.search(pattern, log.read_text(errors="replace")), seconds):
        return found.group(1)
    raise SystemExit(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")


def start_server(program, flags, log):
    """Outlives this process."""
    with log.open("w") as out:
        process = subprocess.Popen([program, "--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", *flags],
                                   stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    address = wait_for(log, r"listening on (\S+)", 30)
    return Server(process.pid, start_time(process.pid), address, wait_for(log, r"metrics on (\S+)", 30))


def look(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        status = file.read()
    fields = _stat(pid)
    return Sample(rss=int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024,
                  descriptors=len(os.listdir(f"/proc/{pid}/fd")),
                  threads=int(re.search(r"Threads:\s+(\d+)", status).group(1)),
                  cpu_s=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


class Sampler:
    """Looks at a process again and again, until stop() gives the medians of what was seen."""

    def __init__(self, pid, every_s):
        self._pid, self._every_s = pid, every_s
        self._samples, self._over = [], threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    @staticmethod
    def is_running(pid, started):
        return start_time(pid) == started

    def _look_on(self):
        while not self._over.wait(self._every_s):
            self._samples.append(look(self._pid))

    def start(self):
        self._thread.start()

    def stop(self):
        self._over.set()
        self._thread.join()
        samples = self._samples or [look(self._pid)]
        middle = [int(statistics.median_low(getattr(one, name) for one in samples))
                  for name in ("rss", "descriptors", "threads")]
        return Sample(*middle, samples[-1].cpu_s)

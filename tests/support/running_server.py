"""A server of its own for a test in Python."""
import re
import signal
import subprocess

from waiting import eventually


class RunningServer:
    """softmax-server on the CPU, by default on free ports of loopback; `program` may be a list, of what runs it and it.
    It writes to the file `log`, behind what is there. `address` and `metrics` are where it listens; "none" for
    `metrics` is none."""

    def __init__(self, program, log, *flags, address="127.0.0.1:0", metrics="127.0.0.1:0", environment=None):
        command = [program] if isinstance(program, str) else program
        with open(log, "ab") as output:
            self._log, self._start = log, output.tell()
            self.process = subprocess.Popen(
                [*command, "--backend=cpu", f"--address={address}", f"--metrics-address={metrics}", *flags],
                stdout=output, stderr=output, env=environment)

        def listens():
            self.address, self.metrics = self.said("listening on"), self.said("metrics on")
            return self.address and (self.metrics or metrics == "none")
        eventually(lambda: self.process.poll() is not None or listens(), 60)
        if self.process.poll() is not None or not listens():
            self.kill()
            with open(log, encoding="utf-8", errors="replace") as text:
                raise RuntimeError("the server did not start:\n" + text.read())

    def said(self, words):
        """The address that stands behind these words in the log, if it has them."""
        with open(self._log, encoding="utf-8", errors="replace") as text:
            text.seek(self._start)
            found = re.search(words + r" (\S+)\n", text.read())
        return found and found.group(1)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Lets it end by itself: its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(40)
        finally:
            self.process.kill()

"""Real servers for the tests: SOFTMAX_SERVER and SOFTMAX_FAKE_SERVER name the programs."""
import contextlib
import os
import re
import signal
import subprocess
import time

import pytest

import softmax_client


def pytest_addoption(parser):
    parser.addoption("--random-calls", type=int, default=300)


class Server:
    """softmax-server on the CPU, on a free port of loopback unless told."""

    def __init__(self, folder, *flags, address="127.0.0.1:0"):
        self.log = folder / "server.log"
        with open(self.log, "ab") as log:
            start = log.tell()
            self.process = subprocess.Popen(
                [os.environ["SOFTMAX_SERVER"], "--address", address, "--metrics-address", "none", "--backend", "cpu",
                 "--cpu-threads", "1", "--arena-bytes", "256MiB", *flags], stdout=log, stderr=log,
                env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"})
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"listening on (127\.0\.0\.1:\d+)", self.log.read_text()[start:])
            if found:
                self.address = found.group(1)
                return
            time.sleep(0.02)
        self.process.kill()
        raise RuntimeError("the server did not start:\n" + self.log.read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(40)
        finally:
            self.process.kill()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def client(server):
    with softmax_client.Client(server.address) as connected:
        yield connected


@pytest.fixture
def own_server(tmp_path):
    """Makes servers that a test may kill: own_server(flags..., address=...)."""
    with contextlib.ExitStack() as stack:
        def start(*flags, **named):
            running = Server(tmp_path, *flags, **named)
            stack.callback(running.kill)
            return running
        yield start


@pytest.fixture
def slow_server(tmp_path):
    """The address of a server that takes ten minutes for every answer."""
    address = f"unix:{tmp_path}/slow.sock"
    with subprocess.Popen([os.environ["SOFTMAX_FAKE_SERVER"], address, "600000"]) as process:
        softmax_client.Client(address).wait_for_connection(30)
        yield address
        process.kill()

"""Real servers for the tests: SOFTMAX_SERVER and SOFTMAX_FAKE_SERVER name the programs."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

import softmax_client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from running_server import RunningServer  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--random-calls", type=int, default=300)


def Server(folder, *flags, address="127.0.0.1:0"):
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return RunningServer(os.environ["SOFTMAX_SERVER"], folder / "server.log", "--cpu-threads=1", "--arena-bytes=256MiB",
                         *flags, address=address, metrics="none", environment=environment)


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
    with open(tmp_path / "slow.log", "wb") as log, subprocess.Popen(
            [os.environ["SOFTMAX_FAKE_SERVER"], address, "600000"], stdout=log) as process:
        softmax_client.Client(address).wait_for_connection(30)
        yield address
        process.kill()


@pytest.fixture
def slow_requests(slow_server, tmp_path):
    """How many requests the slow server has: slow_requests()."""
    return lambda: int((re.findall(r"(\d+) requests", (tmp_path / "slow.log").read_text()) or [0])[-1])

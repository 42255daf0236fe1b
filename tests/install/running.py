"""What the tests here share: a server to talk to, and commands that must end well."""
import contextlib
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from waiting import eventually  # noqa: E402

# ctest shows a test as skipped that ends so.
SKIPPED = 77


@contextlib.contextmanager
def server(command, folder, name="server.sock"):
    """A server on a unix socket in `folder`, its command without the address; its target."""
    path = os.path.join(folder, name)
    process = subprocess.Popen([*command, "unix:" + path])
    try:
        eventually(lambda: process.poll() is not None or _accepts(path), 60)
        if not _accepts(path):
            raise RuntimeError("the server did not start")
        yield "unix:" + path
    finally:
        process.kill()
        process.wait()


def _accepts(path):
    with socket.socket(socket.AF_UNIX) as attempt:
        try:
            attempt.connect(path)
            return True
        except OSError:
            return False


def run(command, timeout=600, stdin="", environment=None):
    """Its standard output. Raises with everything it said when it fails. CMake builds with Ninja, which
    scripts/setup.sh installs: there may be no make."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
                          env={"CMAKE_GENERATOR": "Ninja", **os.environ, **(environment or {})})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout

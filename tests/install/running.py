"""What the tests here share: a server to talk to, and commands that must end well."""
import contextlib
import os
import socket
import subprocess
import time

# ctest shows a test as skipped that ends so.
SKIPPED = 77


@contextlib.contextmanager
def server(binary, folder):
    """The fake server on a unix socket in `folder`; its target."""
    path = os.path.join(folder, "server.sock")
    process = subprocess.Popen([binary, "unix:" + path])
    try:
        deadline = time.monotonic() + 60
        while not _accepts(path):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start")
            time.sleep(0.02)
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

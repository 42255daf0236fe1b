"""The example that plots; apart, for matplotlib takes seconds to start."""
import pathlib
import subprocess
import sys

import pytest


def test_the_example_that_plots(server, tmp_path):
    pytest.importorskip("matplotlib")
    example = pathlib.Path(__file__).parents[3] / "client/examples/python/classify.py"
    done = subprocess.run([sys.executable, "-B", example, server.address, tmp_path / "plot.png"], text=True,
                          capture_output=True, timeout=120, check=True)
    lines = [line.split(": ") for line in done.stdout.splitlines()]
    assert len(lines) == 4 and all(answers.startswith(label) for label, answers in lines), done.stdout
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")

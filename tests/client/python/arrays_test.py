"""What can be sent and where answers come: kinds of arrays, copies, errors."""
import array
import pathlib
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import softmax_client
from reference import Dlpack, check, from_bfloat16, sent_of, to_bfloat16

RANDOM = np.random.default_rng(7)


def values(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


class OnlyInterface:
    def __init__(self, x):
        self.x, self.__array_interface__ = x, x.__array_interface__


@pytest.mark.parametrize("make, address", [
    (lambda x: x, lambda a: a.ctypes.data),
    (lambda x: memoryview(x), lambda a: np.asarray(a).ctypes.data),
    (lambda x: array.array("f", x.tolist()), lambda a: a.buffer_info()[0]),
    (OnlyInterface, lambda a: a.x.ctypes.data),
    (Dlpack, lambda a: a.array.ctypes.data),
])
def test_every_kind_of_array_is_sent_from_where_it_lies(client, make, address):
    x = values(33)
    given = make(x)
    assert sent_of(given)[0] == address(given)
    check(client.softmax(given), x, "float32", -1, False)


def test_an_answer_is_copied_into_one_new_array_and_nothing_else(client):
    x = values(64, 4096)  # 1 MiB
    client.softmax(x)
    tracemalloc.start()
    try:
        y = client.softmax(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert y.flags.c_contiguous and y.flags.writeable and y.flags.owndata
    assert x.nbytes <= peak < x.nbytes + 100_000


def test_out_is_the_callers_memory(client):
    x = values(5, 700)
    out = np.zeros_like(x)
    place = out.ctypes.data
    assert client.softmax(x, out=out) is out and out.ctypes.data == place
    check(out, x, "float32", -1, False)
    before = x.copy()
    assert client.log_softmax(x, out=x) is x
    check(x, before, "float32", -1, True)


@pytest.mark.parametrize("out, error", [
    (np.zeros((2, 3), np.float64), ValueError), (np.zeros((3, 2), np.float32), ValueError),
    (np.zeros((2, 6), np.float32)[:, ::2], ValueError), (np.zeros((2, 3), ">f4"), ValueError),
    ([[0, 0, 0], [0, 0, 0]], TypeError), (b"x" * 24, TypeError)])
def test_a_wrong_out_is_refused(client, out, error):
    with pytest.raises(error, match="^out: "):
        client.softmax(values(2, 3), out=out)


def test_a_read_only_out_is_refused_and_a_read_only_input_is_not(client):
    x = values(2, 3)
    x.flags.writeable = False
    y = client.softmax(x)
    for out in (x, memoryview(x), OnlyInterface(x), memoryview(x.tobytes()).cast("f", (2, 3))):
        with pytest.raises(ValueError, match="^out: .* read-only"):
            client.softmax(y, out=out)


def test_bfloat16_through_dlpack(client):
    bits = to_bfloat16(values(7, 50))
    given, out = Dlpack(bits), Dlpack(np.zeros_like(bits))
    assert client.softmax(given, out=out) is out
    check(from_bfloat16(out.array), from_bfloat16(bits), "bfloat16", -1, False)
    assert given.deleted == 1 and out.deleted == 1
    check(client.softmax(given, dtype="float32"), from_bfloat16(bits), "float32", -1, False)
    try:
        import ml_dtypes  # noqa: F401
    except ImportError:
        with pytest.raises(TypeError, match="ml_dtypes"):
            client.softmax(given)


def test_bfloat16_of_ml_dtypes(client):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = values(7, 50).astype(ml_dtypes.bfloat16)
    assert sent_of(x)[0] == x.ctypes.data
    for y in (client.softmax(x), client.softmax(x[::-1])[::-1], client.softmax(x, out=np.empty_like(x))):
        assert y.dtype == ml_dtypes.bfloat16
        check(y.astype(np.float32), x.astype(np.float32), "bfloat16", -1, False)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64"])
def test_torch_tensors_come_back_as_tensors(client, name):
    torch = pytest.importorskip("torch")
    x = torch.randn(4, 100).to(getattr(torch, name))
    assert sent_of(x)[0] == x.data_ptr()
    for given in (x, x.t()):
        y = client.softmax(given)
        assert y.dtype == x.dtype and y.shape == given.shape
        check(y.to(torch.float64).numpy(), given.to(torch.float64).numpy().astype(
            "float64" if name == "float64" else "float32"), name, -1, False)


def test_options_reach_the_server(client):
    x = values(3, 4, 5)
    check(client.softmax(x, axis=1, scale=0.5), x, "float32", 1, False, 0.5)
    for dtype in ("float64", np.float64, np.dtype("float64"), np.double):
        assert client.softmax(x, dtype=dtype).dtype == np.float64
    y = client.softmax(x, lengths=np.full((3, 4), 2))
    assert (y[..., 2:] == 0).all()
    check(y[..., :2], x[..., :2], "float32", -1, False)
    assert (client.log_softmax(x, lengths=[2] * 12)[..., 2:] == -np.inf).all()
    with pytest.raises(TypeError):
        client.softmax(x, dtype="int8")


def test_what_the_server_tells(client, server):
    info = client.server_info()
    assert info["backend"] == "cpu" and "bfloat16" in info["dtypes"] and info["max_rank"] == 8
    before = client.stats()["calls"]
    client.softmax([1.0])
    assert client.stats()["calls"] == before + 1


def test_the_example(server):
    example = pathlib.Path(__file__).parents[3] / "client/examples/python/softmax_request.py"
    done = subprocess.run([sys.executable, "-B", example, server.address], input="1 2 3\n0 0 0\n", text=True,
                          capture_output=True, timeout=60, check=True)
    rows = np.array([line.split() for line in done.stdout.splitlines()], float)
    assert np.allclose(rows, [[0.0900306, 0.2447285, 0.6652410], [1 / 3] * 3], atol=1e-6)

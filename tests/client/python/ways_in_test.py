"""What may be x, in the tables of ways_in.py: each is answered right, or refused by name, and alike by every call."""
import array
import contextlib
import struct
import sys
import types

import numpy as np
import pytest

import softmax_client
from reference import Dlpack, check, from_bfloat16, sent_of, to_bfloat16
from ways_in import REFUSED, TAKEN, WAYS, Interface, Labelled, Raises, X, asked_async, mapped, unaligned


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_is_answered_alike_by_every_way(client, server, name):
    make, sent = TAKEN[name]
    assert sent_of(make())[1] == sent.tobytes()  # every bit, those of NaNs included
    expected = client.softmax(sent)
    if not np.isnan(sent).any() and sent.dtype != np.float16:
        check(expected, sent, sent.dtype.name, -1, False)
    for way, (_, call) in WAYS.items():
        answer = call(client, server, make(), sent)
        if way == "asyncio, summarize":
            continue  # that it comes is enough: "summarize" has the values
        assert answer.dtype == sent.dtype and answer.shape == sent.shape, way
        if way == "log_softmax":
            assert np.allclose(answer, expected, rtol=1e-2, atol=1e-6, equal_nan=True), way
        else:
            assert np.array_equal(answer, expected, equal_nan=True), way


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_alike_by_every_way(client, server, name):
    make, error, says = REFUSED[name]
    for way, (argument, call) in WAYS.items():
        with pytest.raises(error) as caught:
            call(client, server, make(), X)
        text = str(caught.value)
        assert [part for part in says if part.replace("{x}", argument) not in text] == [], (way, text)
        assert not isinstance(caught.value, softmax_client.SoftmaxError), way
    assert np.array_equal(client.softmax(X), client.softmax(X.copy()))  # nothing is left behind


# What is refused as x for what it is, is refused as a place for answers, too.
@pytest.mark.parametrize("name", [name for name in REFUSED if "huge" not in name and "rank" not in name])
def test_the_same_is_no_place_for_answers(client, server, name):
    make = REFUSED[name][0]
    for asking in (lambda out: client.softmax(X, out=out), lambda out: client.log_softmax(X, out=out),
                   lambda out: asked_async(lambda c, x, _: c.softmax(x, out=out))(client, server, X, X)):
        out = make()
        if out is None:
            continue  # which means a new array
        with pytest.raises((TypeError, ValueError), match="^out: "):
            asking(out)


@pytest.mark.parametrize("make, says", [
    (lambda: np.ma.array([4, 4, 4], mask=[0, 1, 0]), ": is a numpy.ma"),
    (lambda: np.array([[4, 4, 4]]).view(np.matrix), ": is a numpy.matrix"),
    (lambda: [4, np.ma.masked, 4], r"\[1\]: masked"),
    (lambda: [4, True, 4], r"\[1\]: True is a bool"),
    (lambda: np.array([True] * 3), ": is a numpy.ndarray of bool"),
    (lambda: [4, 4.0, 4], r"\[1\]: 4.0 is a float, must be a whole number"),
    (lambda: np.float32([4, 4, 4]), ": is a numpy.ndarray of float32"),
    (lambda: [4, 2**70, 4], r"\[1\]: 1180591620717411303424, must be"),
    (lambda: np.array([4, 2**63, 4], np.uint64), r"\[1\]: 9223372036854775808, must be"),
    (lambda: np.array([[4], [-7], [4]], ">i8"), r"\[1\]\[0\]: -7, must be"),
    (lambda: [[4, 4], [4]], r"\[1\]: has length 1"),
    (lambda: "444", ": is a str"), (lambda: ["4"], r"\[0\]: '4' is a str"), (lambda: [None], r"\[0\]: None"),
    (lambda: np.array([4] * 3, "m8[s]"), r": is a numpy.ndarray of timedelta64\[s\]"),
    (lambda: Dlpack(X), ": is a reference.Dlpack of float32"),
    (lambda: Raises(BufferError("readonly")), ": is a .*readonly"), (Labelled, ": is a .*Labelled"),
    (lambda: np.array([4, 4, 4], object), ": is a numpy.ndarray of object")])
@pytest.mark.parametrize("argument", ["lengths", "indices"])
def test_numbers_of_rows_are_whole_and_named(client, server, argument, make, says):
    calls = [lambda: client.summarize(X, top_k=1, **{argument: make()}),
             lambda: asked_async(lambda c, x, _: c.summarize(x, top_k=1, **{argument: make()}))(client, server, X, X)]
    if argument == "lengths":
        calls += [lambda: client.softmax(X, lengths=make()), lambda: client.log_softmax(X, lengths=make()),
                  lambda: client.stream().send(X, lengths=make())]
    for call in calls:
        with pytest.raises((TypeError, ValueError), match=f"^{argument}{says}"):
            call()


@pytest.mark.parametrize("lengths", [
    [4, 2, 1], (4, 2, 1), [[4], [2], [1]], np.array([4, 2, 1], np.uint8), np.array([4, 9, 2, 9, 1], ">i8")[::2],
    [np.int64(4), np.uint8(2), 1], array.array("I", [4, 2, 1]), Dlpack(np.array([4, 2, 1]), code=0),
    [np.array(4), np.array(2), np.array(1)]])
def test_lengths_in_every_form(client, lengths):
    expected = client.softmax(X, lengths=np.array([4, 2, 1], np.uint32))
    assert np.array_equal(client.softmax(X, lengths=lengths), expected)
    assert expected[1, 2] == expected[2, 1] == 0 and expected[0, 3] > 0
    assert np.array_equal(client.softmax(X[0], lengths=2), client.softmax(X[0], lengths=[2]))
    for none in ([], [[]], np.array([]), np.zeros((0, 1), np.int64)):
        assert client.softmax(X[:0], lengths=none).shape == (0, 4)


def test_places_for_answers(client):
    expected = client.softmax(X)
    memory = bytearray(X.nbytes)
    numbers = array.array("f", [0] * 4)
    for out, read in ((mapped(X), lambda out: out), (memoryview(memory).cast("f", (3, 4)), np.asarray),
                      (Dlpack(np.zeros_like(X)), lambda out: out.array),
                      (Interface(np.zeros_like(X)), lambda out: out.x), (unaligned(X), lambda out: out)):
        assert client.softmax(X, out=out) is out
        assert np.array_equal(read(out), expected)
    assert client.softmax(X[0], out=numbers) is numbers
    assert struct.pack("4f", *numbers) == client.softmax(X[0]).tobytes()
    for out in (Dlpack(np.zeros((3, 8), np.float32)[:, ::2]), Interface(np.zeros((4, 3), np.float32).T), X.T.copy().T):
        with pytest.raises(ValueError, match="^out: .*row-major"):
            client.softmax(X, out=out)


def test_bfloat16_with_gaps(client):
    bits = to_bfloat16(X)
    for given, sent in ((Dlpack(bits[:, ::2]), bits[:, ::2]), (Dlpack(bits.T), bits.T), ([Dlpack(bits[1])], bits[1:2])):
        out = Dlpack(np.zeros(sent.shape, np.uint16))
        assert client.softmax(given, out=out) is out
        check(from_bfloat16(out.array), from_bfloat16(np.ascontiguousarray(sent)), "bfloat16", -1, False)


@contextlib.contextmanager
def a_torch(monkeypatch):
    """As much of torch as the package touches."""
    class Tensor(Dlpack):
        pass

    def empty(shape, dtype, device):
        assert device == "cpu"
        return Tensor(np.zeros(shape, dtype))

    torch = types.ModuleType("torch")
    torch.Tensor, torch.empty, torch.float32, torch.float64 = Tensor, empty, np.float32, np.float64
    monkeypatch.setitem(sys.modules, "torch", torch)
    yield torch


def test_tensors_for_tensors(client, server, monkeypatch):
    with a_torch(monkeypatch) as torch:
        for call in (client.softmax, lambda x, **named: asked_async(lambda c, x, _: c.softmax(x, **named))(
                client, server, x, None)):
            for dtype in (None, "float64"):
                answer = call(torch.Tensor(X.T), dtype=dtype)
                assert isinstance(answer, torch.Tensor)
                check(answer.array, X.T.copy(), dtype or "float32", -1, False)
            assert type(call(X)) is np.ndarray
        assert client.summarize(torch.Tensor(X), top_k=1).top_indices.shape == (3, 1)
        check(client.softmax_batch([torch.Tensor(X)])[0], X, "float32", -1, False)

        class MaskedTensor(torch.Tensor):
            pass

        class Unexportable(torch.Tensor):
            def __dlpack__(self):
                raise RuntimeError("QUInt/QInt types are not supported by dlpack")

        Unexportable.__module__ = "torch.nn.parameter"
        for tensor, says in ((MaskedTensor(X), "MaskedTensor.*would be lost"), (Unexportable(X), "QUInt/QInt"),
                             (torch.Tensor(X, code=6, bits=8), "Tensor of bool8")):
            for way, (argument, call) in WAYS.items():
                with pytest.raises(TypeError, match=f"{says}") as caught:
                    call(client, server, tensor, X)
                assert str(caught.value).startswith(f"{argument}: "), way
            with pytest.raises(TypeError, match=f"^out: .*{says}"):
                client.softmax(X, out=tensor)


def test_real_torch(client, server):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X.copy())
    for tensor, says in ((x > 0, "ool"), (x.to_sparse(), "layout"), (x.clone().requires_grad_(), "gradient"),
                         (torch.quantize_per_tensor(x, 1, 0, torch.qint8), "QInt"), (x.to("meta"), "meta"),
                         (torch.nn.Parameter(x), "gradient"), (x.to(torch.complex64), "complex"), (x.long(), "int64")):
        for way, (argument, call) in WAYS.items():
            with pytest.raises(TypeError, match=says) as caught:
                call(client, server, tensor, X)
            assert str(caught.value).startswith(f"{argument}: "), way
        with pytest.raises(TypeError, match="^out: "):
            client.softmax(X, out=tensor)
    expected = client.softmax(X)
    for tensor in (x, x.t().contiguous().t(), torch.nn.Parameter(x, requires_grad=False), x.flip(0).flip(0)):
        answer = client.softmax(tensor)
        assert type(answer) is torch.Tensor and np.array_equal(answer.numpy(), expected)
    assert np.array_equal(client.softmax(X, lengths=torch.tensor([4, 2, 1])), client.softmax(X, lengths=[4, 2, 1]))
    assert np.array_equal(client.softmax([x[0], x[1]]), expected[:2])


def test_real_pandas(client, server):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X)
    for x, kind in ((frame, "DataFrame"), (frame[0], "Series"), (frame[0].astype("Float64"), "Series"),
                    (frame[0].astype(object), "Series"), (pandas.Index([1.5, 2.5]), "Index"), (pandas.NA, "NAType")):
        for way, (argument, call) in WAYS.items():
            with pytest.raises(TypeError, match=kind) as caught:
                call(client, server, x, X)
            assert str(caught.value).startswith(f"{argument}: "), way
    assert np.array_equal(client.softmax(frame.to_numpy()), client.softmax(X))


def test_a_list_of_a_million_numbers(client):
    x = np.random.default_rng(1).standard_normal((1000, 1000)).astype(np.float32)
    assert np.array_equal(client.softmax(x.tolist()), client.softmax(x))

"""Arrays in memory that the server shares."""
import asyncio
import gc
import sys
import types

import numpy as np
import pytest

import reference
import softmax_client
from conftest import Server
from softmax_client import _dlpack, regions

X = np.random.default_rng(7).standard_normal((8, 1000)).astype(np.float32)


@pytest.fixture(scope="module")
def sharing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharing")
    running = Server(folder, "--regions-socket", str(folder / "regions.sock"), "--regions-bytes", "64MiB",
                     "--max-request-bytes", "16MiB", "--max-response-bytes", "16MiB")
    yield running
    assert running.stop() == 0


@pytest.fixture()
def client(sharing):
    with softmax_client.Client(sharing.address) as connected:
        yield connected


def filled(client, x):
    shared = client.allocate(x.shape, x.dtype.name)
    shared[...] = x
    return shared


def right(answer, x=X):
    expected = reference.softmax(x.astype(np.float64), -1, False)[0].astype(np.float64)
    np.testing.assert_allclose(np.asarray(answer, np.float64), expected, rtol=2e-3 if x.itemsize == 2 else 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_arrays_are_x_and_out(client, dtype):
    x = X.astype(dtype)
    shared = filled(client, x)
    assert isinstance(shared, np.ndarray) and shared.dtype == dtype and shared.flags.writeable
    right(client.softmax(shared), x)
    out = client.allocate(x.shape, dtype)
    assert client.softmax(shared, out=out) is out
    right(out, x)
    right(client.softmax(x, out=out), x)
    assert client.softmax(shared, out=shared) is shared
    right(shared, x)


def test_views_and_every_kind_of_call(client):
    shared = filled(client, X)
    right(client.softmax(shared[2:5]), X[2:5])
    for answer in client.softmax_batch([shared, X, shared[:1]])[:2]:
        right(answer)
    with client.stream() as stream:
        stream.send(shared)
        right(stream.receive()[1])
    assert client.summarize(shared, top_k=1).top_indices[:, 0].tolist() == X.argmax(-1).tolist()


def test_asyncio(sharing):
    async def ask():
        async with softmax_client.AsyncClient(sharing.address) as client:
            shared = client.allocate(X.shape)
            shared[...] = X
            out = client.allocate(X.shape)
            assert await client.softmax(shared, out=out) is out
            right(out)
    asyncio.run(ask())


def test_the_memory_goes_with_the_last_array(client):
    shape = (4 << 20,)  # 16 MiB of float32; a connection may have 32
    for _ in range(10):
        whole = client.allocate(shape)
        view = whole[5:10]
        del whole
        view[:] = 1
        del view
        gc.collect()
    kept = client.allocate(shape), client.allocate(shape)
    with pytest.raises(softmax_client.ResourceExhaustedError):
        client.allocate(shape)
    client.close()
    kept[0][:] = 1  # still there


def test_a_large_array_does_not_travel(client):
    x = np.zeros((1, 5 << 20), np.float32)  # above max_request_bytes
    with pytest.raises(softmax_client.InvalidArgumentError):
        client.softmax(x)
    shared = filled(client, x)
    assert client.softmax(shared, out=shared)[0, 0] == pytest.approx(1 / x.size, rel=1e-3)


def test_the_automatic_mode(sharing, server):
    for running in (sharing, server):
        with softmax_client.Client(running.address, regions=True) as client:
            x = np.tile(X, (16, 1))
            for _ in range(50):
                right(client.softmax(x), x)


def test_what_is_wrong_is_named(client, server):
    with pytest.raises(ValueError, match="memory: is 'gpu', must be 'host' or 'device'"):
        client.allocate((1,), memory="gpu")
    with pytest.raises(ValueError, match=r"shape: is \[2, -1\]"):
        client.allocate((2, -1))
    with pytest.raises(softmax_client.SoftmaxError, match="UNIMPLEMENTED|device"):
        client.allocate((1,), memory="device")
    with softmax_client.Client(server.address) as without:
        with pytest.raises(softmax_client.SoftmaxError, match="shares no memory"):
            without.allocate((1,))


class FakeRegion:
    address, cuda_device = 0x7000, 1

    def dlpack(self, *told):
        return told


def test_arrays_on_a_device_tell_where_they_are(client):
    array = regions.DeviceArray(FakeRegion(), (2, 3), "float32")
    assert array.nbytes == 24
    assert array.__dlpack_device__() == (2, 1)
    assert array.__dlpack__(stream=5) == ((2, 3), 2, 32)
    assert array.__cuda_array_interface__ == {"shape": (2, 3), "typestr": "<f4", "data": (0x7000, False),
                                              "strides": None, "version": 3}
    for dtype, typestr in (("float16", "<f2"), ("float64", "<f8")):
        told = regions.DeviceArray(FakeRegion(), (2, 3), dtype).__cuda_array_interface__
        assert told["typestr"] == typestr == np.dtype(dtype).str
    bits = regions.DeviceArray(FakeRegion(), (2, 3), "bfloat16")
    assert bits.__dlpack__() == ((2, 3), 4, 16)
    assert not hasattr(bits, "__cuda_array_interface__")
    for call in (client.softmax, client.summarize):
        with pytest.raises(TypeError, match="x: is on a device, and not in memory of this client's allocate()"):
            call(array, **({"top_k": 1} if call == client.summarize else {}))
    with pytest.raises(TypeError, match="out: is on a device"):
        client.softmax(np.zeros((2, 3), np.float32), out=array)


def test_arrays_on_a_device_are_copied_to_and_from(client):
    array = regions.DeviceArray(client._calls.allocate(X.nbytes, False, None), X.shape, "float32")
    array.copy_from(X[::-1])
    np.testing.assert_array_equal(array.copy(), X[::-1])
    with pytest.raises(ValueError, match=r"x: is float64 \[8, 1000\], must be float32 \[8, 1000\]"):
        array.copy_from(X.astype(np.float64))


def test_torchs_tensors_on_a_device(client, monkeypatch):
    class Tensor:
        is_cuda, requires_grad, dtype, device, shape = True, False, "torch.float32", "cuda:1", (2, 3)
        contiguous = True

        def is_contiguous(self):
            return self.contiguous

        def data_ptr(self):
            return 0x7000
    awaited = []
    stream = types.SimpleNamespace(synchronize=lambda: awaited.append(True))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(
        Tensor=Tensor, cuda=types.SimpleNamespace(current_stream=lambda device: stream)))
    x = Tensor()
    assert regions.on_device("x", x) == (0x7000, (2, 3), "float32", x)
    assert awaited == [True]
    x.contiguous = False
    with pytest.raises(ValueError, match="x: is a tensor on a device with gaps"):
        regions.on_device("x", x)
    x.requires_grad = True
    with pytest.raises(TypeError, match="gradient"):
        regions.on_device("x", x)


def test_a_capsule_holds_the_memory(client):
    region = client._calls.allocate(64, False, None)
    capsule = region.dlpack((2, 3), 2, 32)
    del region
    memory = _dlpack.memory_of(capsule)
    assert memory.dtype == "float32" and np.asarray(memory).shape == (2, 3)

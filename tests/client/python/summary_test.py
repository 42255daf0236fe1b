"""Answers as small as the question: what comes back of each row, with the bits of the whole answer."""
import asyncio

import numpy as np
import pytest

import softmax_client


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("log", [False, True])
def test_parts_have_the_whole_answers_bits(client, dtype, log):
    random = np.random.default_rng(3)
    x = random.standard_normal((3, 50, 4)).astype(dtype)
    whole = (client.log_softmax if log else client.softmax)(x, axis=1)
    rows = np.moveaxis(whole, 1, -1)
    at = random.integers(0, 50, (3, 4, 2))
    part = client.summarize(x, top_k=7, indices=at, log_sum_exp=True, entropy=True, log=log, axis=1)
    order = np.argsort(-np.moveaxis(x, 1, -1), axis=-1, kind="stable")[..., :7]
    assert part.top_indices.dtype == np.int32 and np.array_equal(part.top_indices, order)
    assert part.top_values.dtype == x.dtype
    assert np.array_equal(part.top_values, np.take_along_axis(rows, order, -1))
    assert np.array_equal(part.values_at, np.take_along_axis(rows, at, -1))
    wide = np.moveaxis(x, 1, -1).astype(np.float64)
    expected = np.log(np.exp(wide).sum(-1))
    assert part.log_sum_exp.shape == (3, 4) and np.allclose(part.log_sum_exp, expected, rtol=1e-6)
    assert part.log_sum_exp.dtype == (np.float64 if dtype == "float64" else np.float32)
    assert np.array_equal(part.maximum, wide.max(-1).astype(part.maximum.dtype))
    p = np.exp(wide - expected[..., None])
    assert np.allclose(part.entropy, -(p * np.log(p)).sum(-1), rtol=1e-5)


def test_only_what_is_asked_for(client):
    part = client.summarize(np.zeros((2, 3), np.float32), top_k=2, lengths=[3, 1], dtype="float64")
    assert np.array_equal(part.top_indices, [[0, 1], [0, -1]])
    assert part.top_values.dtype == np.float64 and np.allclose(part.top_values, [[1 / 3] * 2, [1, 0]])
    assert part.values_at is part.log_sum_exp is part.maximum is part.entropy is None
    assert client.summarize(np.zeros((2, 0), np.float32), top_k=2) == softmax_client.Summary()


def test_the_log_probability_of_a_label(client):
    x = np.random.default_rng(1).standard_normal((5, 1000)).astype(np.float32)
    labels = np.arange(5) * 7
    part = client.summarize(x, indices=labels, log=True)
    assert np.array_equal(part.values_at[:, 0], client.log_softmax(x)[np.arange(5), labels])


def test_asyncio(server):
    async def run():
        async with softmax_client.AsyncClient(server.address) as client:
            x = np.array([[1, 3, 2]], np.float32)
            parts = await asyncio.gather(*(client.summarize(x, top_k=k) for k in (1, 2, 3)))
            assert [list(part.top_indices[0]) for part in parts] == [[1], [1, 2], [1, 2, 0]]
            with pytest.raises(softmax_client.InvalidArgumentError, match="top_k"):
                await client.summarize(x, top_k=100000)

    asyncio.run(run())

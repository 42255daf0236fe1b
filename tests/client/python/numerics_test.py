"""Random calls against the reference."""
import numpy as np

from reference import Dlpack, check, from_bfloat16, to_bfloat16

TYPES = ("float32", "float16", "bfloat16", "float64")


def random_shape(random):
    rank = int(random.integers(1, 9))
    limit = int(random.choice([8, 64, 4096]))
    shape = [1] * rank
    for _ in range(int(random.integers(1, 12))):
        i = int(random.integers(rank))
        shape[i] = int(random.integers(1, max(2, min(65, limit // max(1, int(np.prod(shape)) // shape[i])))))
    if random.random() < 0.05:
        shape[int(random.integers(rank))] = 0
    return shape


def random_values(random, shape, dtype):
    x = random.standard_normal(shape) * random.choice([0.1, 1, 20])
    kind = random.random()
    if x.size and kind < 0.25:
        places = random.random(shape) < 0.2
        x[places] = random.choice([np.nan, np.inf, -np.inf])
    return x.astype("float64" if dtype == "float64" else "float16" if dtype == "float16" else "float32")


def with_strides(random, x):
    """An array of the same values, sometimes with gaps, turned around or with its dimensions in another order."""
    kind = random.integers(5)
    if kind == 0 and x.ndim > 1:
        order = random.permutation(x.ndim)
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if kind == 1:
        return np.flip(np.ascontiguousarray(np.flip(x)))
    if kind == 2:
        wide = np.full((*x.shape, 3), 9, x.dtype)
        wide[..., 1] = x
        return wide[..., 1]
    return x


def one_call(client, random):
    dtype = str(random.choice(TYPES))
    shape = random_shape(random)
    axis = int(random.integers(-len(shape), len(shape)))
    log, scale = bool(random.random() < 0.5), float(random.choice([1, 1, 0.125, 2]))
    x = random_values(random, shape, dtype)
    answer_type = str(random.choice(TYPES)) if random.random() < 0.3 else dtype
    call = client.log_softmax if log else client.softmax
    options = {"axis": axis, "scale": scale}
    if answer_type != dtype:
        options["dtype"] = answer_type
    given = with_strides(random, x)
    if dtype == "bfloat16":
        bits = to_bfloat16(x)
        x, given = from_bfloat16(bits), Dlpack(bits)
    out = None
    if answer_type == "bfloat16":
        out = Dlpack(np.zeros(shape, np.uint16))
    elif random.random() < 0.3:
        out = np.zeros(shape, answer_type)
    with np.errstate(over="ignore", invalid="ignore"):
        y = call(given, out=out, **options)
        y = from_bfloat16(y.array) if answer_type == "bfloat16" else y
        assert answer_type == "bfloat16" or y.dtype == answer_type
        check(y, x, answer_type, axis, log, scale)


def test_random_calls_are_right(client, request):
    for seed in range(request.config.getoption("random_calls")):
        try:
            one_call(client, np.random.default_rng(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_wrong_answer_would_be_seen():
    x = np.random.default_rng(1).standard_normal((4, 9)).astype(np.float32)
    right = np.exp(x.astype(np.float64))
    right = (right / right.sum(-1, keepdims=True)).astype(np.float32)
    check(right, x, "float32", -1, False)
    for wrong in (right * np.float32(1 + 2e-6), np.zeros_like(right), np.where(right > 0.3, np.nan, right)):
        try:
            check(wrong, x, "float32", -1, False)
        except AssertionError:
            continue
        raise RuntimeError("a wrong answer passed")

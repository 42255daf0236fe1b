"""Slips of a new user: each error names the field, the value, and what it must be."""
import numpy as np
import pytest

import softmax_client

X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize("options, error, says", [
    ({"axis": 2}, ValueError, ["axis: 2", "-2 to 1"]),
    ({"axis": 2**40}, ValueError, ["axis: 1099511627776", "-rank to rank - 1"]),
    ({"axis": 1.0}, TypeError, ["axis: 1.0", "whole number"]),
    ({"axis": "last"}, TypeError, ["axis: 'last'", "whole number"]),
    ({"scale": "2"}, TypeError, ["scale: '2'", "a number"]),
    ({"scale": 10**5000}, TypeError, ["scale: a number of 16610 bits", "a number"]),
    ({"scale": "2" * 1000}, TypeError, ["scale: '222222", "22..., must be a number"]),
    ({"axis": -(2**5000)}, TypeError, ["axis: a number of 5001 bits", "whole number"]),
    ({"scale": 0}, ValueError, ["scale: 0", "above 0"]),
    ({"scale": float("nan")}, ValueError, ["scale: nan", "finite"]),
    ({"timeout": "1s"}, TypeError, ["timeout: '1s'", "a number"]),
    ({"timeout": float("nan")}, ValueError, ["timeout: nan", "seconds"]),
    ({"timeout": 0}, ValueError, ["timeout: 0", "above 0 seconds"]),
    ({"timeout": -1.5}, ValueError, ["timeout: -1.5", "above 0 seconds"]),
    ({"dtype": "float8"}, TypeError, ["dtype: float8", "float32, float16, bfloat16 and float64"]),
    ({"dtype": int}, TypeError, ["dtype: int64", "float32, float16, bfloat16 and float64"]),
    ({"lengths": [1, -3]}, ValueError, ["lengths[1]: -3", "0 to 4294967295"]),
    ({"lengths": [1.5, 2]}, TypeError, ["lengths[0]: 1.5", "whole number"]),
    ({"lengths": np.float32([1, 2])}, TypeError, ["lengths: ", "float32", "whole numbers"]),
    ({"lengths": [1]}, ValueError, ["lengths", "1", "2"]),
    ({"lengths": [1, 4]}, ValueError, ["lengths", "4", "3"]),
    ({"out": np.zeros(3, np.int32)}, TypeError, ["out: ", "numpy.ndarray of int32", "must be of float32"]),
    ({"out": np.zeros((3, 2), np.float32)}, ValueError, ["out: ", "[3, 2]", "[2, 3]"]),
    ({"axes": 1}, TypeError, ["'axes'"])])
def test_options_of_a_request(client, options, error, says):
    names_all(error, says, lambda: client.softmax(X, **options))


@pytest.mark.parametrize("options, error, says", [
    ({}, ValueError, ["asks for nothing"]),
    ({"top_k": -1}, ValueError, ["top_k: -1", "max_top_k"]),
    ({"top_k": 1.5}, TypeError, ["top_k: 1.5", "whole number"]),
    ({"top_k": 1025}, ValueError, ["top_k", "1025", "1024"]),
    ({"indices": [7, 0]}, ValueError, ["indices", "7", "2"]),
    ({"indices": [0, 1, 2]}, ValueError, ["indices: has 3", "a multiple of 2"]),
    ({"indices": [-2, 0]}, ValueError, ["indices[0]: -2", "-1 to"])])
def test_options_of_a_summary(client, options, error, says):
    names_all(error, says, lambda: client.summarize(X, **options))


@pytest.mark.parametrize("options, error, says", [
    ({"target": 50051}, TypeError, ["target: 50051", "str"]),
    ({"target": "localhost"}, ValueError, ["target", "'localhost'", "port"]),
    ({"deadline": "10s"}, TypeError, ["deadline: '10s'", "a number"]),
    ({"deadline": 0}, ValueError, ["deadline: 0", "above 0"]),
    ({"connections": 1.5}, TypeError, ["connections: 1.5", "whole number"]),
    ({"connections": 0}, ValueError, ["connections: 0", "1 to 1024"]),
    ({"keepalive_time": "x"}, TypeError, ["keepalive_time: 'x'", "a number"]),
    ({"max_receive_bytes": "1MiB"}, TypeError, ["max_receive_bytes: '1MiB'", "whole number"]),
    ({"retry": softmax_client.Retry(max_attempts=0)}, ValueError, ["retry.max_attempts: 0", "1 to 1000"]),
    ({"retry": softmax_client.Retry(multiplier="2")}, TypeError, ["retry.multiplier: '2'", "a number"])])
def test_options_of_a_client(options, error, says):
    names_all(error, says, lambda: softmax_client.Client(**options))


def test_counts_and_ids_of_streams(client):
    for count, error in ((0, ValueError), (-1, ValueError), ("8", TypeError)):
        names_all(error, [f"max_in_flight: {count!r}"], lambda n=count: client.stream(max_in_flight=n))
        names_all(error, [f"max_in_flight: {count!r}"], lambda n=count: client.softmax_batch([X], max_in_flight=n))
    with client.stream() as stream:
        names_all(TypeError, ["id: -1", "0 to 2**64 - 1"], lambda: stream.send(X, id=-1))
        names_all(TypeError, ["timeout: 'x'", "a number"], lambda: stream.receive(timeout="x"))


def test_a_time_limit_is_above_0_and_a_wait_may_be_0(client):
    for limit in (0, 0.0, -1, float("-inf")):
        says = [f"timeout: {limit!r}", "above 0 seconds"]
        for call in (client.softmax, client.log_softmax,
                     lambda x, timeout: client.summarize(x, top_k=1, timeout=timeout),
                     lambda x, timeout: client.softmax_batch([x], timeout=timeout),
                     lambda x, timeout: client.stream(timeout=timeout)):
            names_all(ValueError, says, lambda call=call, limit=limit: call(X, timeout=limit))
        with client.stream() as stream:
            names_all(ValueError, says, lambda limit=limit: stream.send(X, timeout=limit))
    for limit in (600, float("inf")):
        assert client.softmax(X, timeout=limit).shape == X.shape
    client.wait_for_connection(0)
    with client.stream() as stream:
        assert stream.receive(timeout=0) is None
        for wait in (stream.receive, client.wait_for_connection):
            names_all(ValueError, ["timeout: -1", "0 seconds or more"], lambda wait=wait: wait(timeout=-1))


def test_answers_to_yes_or_no(client):
    names_all(TypeError, ["log: 'yes'", "True or False"], lambda: client.softmax_batch([X], log="yes"))
    names_all(TypeError, ["entropy: 'yes'", "True or False"], lambda: client.summarize(X, entropy="yes"))
    names_all(TypeError, ["health_checks: 'no'"], lambda: softmax_client.Client("localhost:1", health_checks="no"))


def names_all(error, says, call):
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert [part for part in says if part not in text] == [], text

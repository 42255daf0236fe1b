"""Streams, batches and asyncio."""
import asyncio
import threading

import numpy as np
import pytest

import softmax_client
from reference import check
from waiting import eventually

RANDOM = np.random.default_rng(3)
XS = [RANDOM.standard_normal((2, 1 + i)).astype(np.float32) for i in range(100)]


def test_a_batch_is_answered_in_order(client):
    for x, y in zip(XS, client.softmax_batch(XS)):
        check(y, x, "float32", -1, False)
    for x, y in zip(XS, client.softmax_batch(iter(XS), log=True, dtype="float64", axis=0)):
        assert y.dtype == np.float64
        check(y, x, "float64", 0, True)
    assert client.softmax_batch([]) == []


def test_a_wrong_one_of_a_batch_spoils_no_other(client):
    flat, masked = np.zeros(3, np.float32), np.ma.array(XS[3])  # refused by the library, and before it
    xs = [XS[3], flat, masked, XS[4]]
    good, wrong, refused, also_good = client.softmax_batch(xs, axis=1, return_exceptions=True)
    assert isinstance(wrong, softmax_client.InvalidArgumentError)
    assert isinstance(refused, TypeError) and str(refused).startswith("xs[2]: is a numpy.ma")
    check(good, XS[3], "float32", -1, False)
    check(also_good, XS[4], "float32", -1, False)
    with pytest.raises(softmax_client.InvalidArgumentError):
        client.softmax_batch(xs[:2], axis=1)
    with pytest.raises(TypeError, match=r"^xs\[2\]: "):
        client.softmax_batch(xs, axis=1)
    with pytest.raises(TypeError, match="^xs: is a NoneType"):
        client.softmax_batch(None)


def test_a_stream_answers_every_request(client):
    with client.stream(max_in_flight=7) as stream:
        assert [stream.send(x) for x in XS] == list(range(100))
        stream.finish()
        answers = dict(stream)
        assert stream.receive() is None
    assert len(answers) == 100
    for i, x in enumerate(XS):
        check(answers[i], x, "float32", -1, False)


def test_one_thread_sends_while_another_receives(client):
    with client.stream() as stream:
        sender = threading.Thread(target=lambda: [stream.send(x, id=1000 + i) for i, x in enumerate(XS)])
        sender.start()
        answers = {}
        while len(answers) < 100:
            answer = stream.receive(timeout=10)
            if answer:
                answers[answer[0]] = answer[1]
        sender.join()
    check(answers[1005], XS[5], "float32", -1, False)


def test_a_streams_wrong_request_has_an_exception_as_its_answer(client):
    with client.stream() as stream:
        stream.send(XS[3], lengths=[9, 9])
        stream.send(XS[3])
        answers = dict(stream)
        assert isinstance(answers[0], softmax_client.InvalidArgumentError)
        check(answers[1], XS[3], "float32", -1, False)
        with pytest.raises(TypeError):
            stream.send("x")


def test_an_id_cannot_be_used_twice_at_once(slow_server):
    with softmax_client.Client(slow_server) as client, client.stream() as stream:
        stream.send(XS[0], id=5)
        with pytest.raises(ValueError, match="5"):
            stream.send(XS[0], id=5)
        assert stream.receive(timeout=0.05) is None
        stream.cancel()
        assert isinstance(stream.receive()[1], softmax_client.CancelledError)
        stream.close()
        with pytest.raises(RuntimeError, match="closed"):
            stream.send(XS[0])


def test_a_killed_server_breaks_a_stream(own_server):
    server = own_server()
    with softmax_client.Client(server.address) as client, client.stream() as stream:
        stream.send(XS[0])
        stream.receive()
        server.kill()
        with pytest.raises(softmax_client.UnavailableError):
            for x in XS * 100:
                stream.send(x)
                id_and_answer = stream.receive()
                if isinstance(id_and_answer[1], Exception):
                    raise id_and_answer[1]


def test_asyncio(server):
    async def run():
        async with softmax_client.AsyncClient(server.address) as client:
            answers = await asyncio.gather(*(client.softmax(x) for x in XS))
            out = np.zeros_like(XS[9])
            assert await client.log_softmax(XS[9], out=out) is out
            check(out, XS[9], "float32", -1, True)
            wrong = await asyncio.gather(client.softmax(np.zeros((2, 2), np.float32), axis=5), return_exceptions=True)
            assert isinstance(wrong[0], softmax_client.InvalidArgumentError)
            assert (await client.server_info())["backend"] == "cpu"
            await client.wait_for_connection()
            assert client.stats()["calls"] == 101
            return answers

    for x, y in zip(XS, asyncio.run(run())):
        check(y, x, "float32", -1, False)


def test_a_cancelled_task_cancels_its_call(slow_server, slow_requests):
    async def run():
        async with softmax_client.AsyncClient(slow_server, deadline=600) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.softmax(XS[0]), 0.2)
            assert await asyncio.to_thread(eventually, lambda: client.stats()["calls_by_code"][1] == 1)
            before = slow_requests()
            waiting = asyncio.ensure_future(client.softmax(XS[0]))
            assert await asyncio.to_thread(eventually, lambda: slow_requests() > before)
        with pytest.raises(softmax_client.CancelledError):
            await waiting

    asyncio.run(run())


def test_asyncio_streams(server):
    async def run():
        async with softmax_client.AsyncClient(server.address) as client, client.stream(max_in_flight=5) as stream:
            async def send():
                for x in XS:
                    await stream.send(x)

            sending = asyncio.ensure_future(send())
            answers = {}
            while len(answers) < 100:
                answer = await stream.receive()
                if answer is None:
                    await asyncio.sleep(0)
                else:
                    answers[answer[0]] = answer[1]
            await sending
            await stream.finish()
            return answers

    answers = asyncio.run(run())
    for i, x in enumerate(XS):
        check(answers[i], x, "float32", -1, False)


def test_a_client_belongs_to_one_loop(server):
    client = softmax_client.AsyncClient(server.address)

    async def call():
        return await client.softmax(XS[0])

    asyncio.run(call())  # that loop is closed now
    asyncio.run(call())

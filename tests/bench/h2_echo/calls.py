"""What a client of gRPC expects of a server, by Python's grpcio: calls.py ADDRESS. Prints ok."""
import os
import random
import sys
import threading
import time

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from waiting import let_pass  # noqa: E402

SERVICE = "/softmax.v1.SoftmaxService/"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def ends_with(call, code, text=None):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert text is None or text in error.details(), error
        return error
    raise AssertionError(f"answered, and not {code}")


def unary_calls(channel):
    call = channel.unary_unary(SERVICE + "Softmax")
    for size in (0, 1, 1000, 16384, 70_000, 5 << 20, 64 << 20):
        message = random.Random(size).randbytes(size)
        assert call(message, timeout=60) == message, size
    many = [(message, call.future(message, timeout=60))
            for message in (random.Random(i).randbytes(i * 37) for i in range(1000))]
    assert all(future.result() == message for message, future in many)


def streams(channel):
    call = channel.stream_stream(SERVICE + "SoftmaxStream")
    assert list(call(iter([]), timeout=10)) == []
    messages = [random.Random(i).randbytes(i * i % 100_000) for i in range(500)]
    assert list(call(iter(messages), timeout=60)) == messages
    # One at a time: each answer comes before the next message goes.
    turn = threading.Semaphore(1)

    def one_by_one():
        for message in messages[:50]:
            assert turn.acquire(timeout=10)
            yield message

    for sent, answer in zip(messages, call(one_by_one(), timeout=60)):
        assert sent == answer
        turn.release()


def a_slow_reader(channel):
    """Does not read for a while: what it is sent waits, within the windows, and is whole."""
    call = channel.stream_stream(SERVICE + "SoftmaxStream")
    messages = [bytes([i]) * (1 << 20) for i in range(64)]
    answers = call(iter(messages), timeout=60)
    let_pass(0.5)
    assert all(sent == answer for sent, answer in zip(messages, answers, strict=True))


def metadata(channel):
    sent = (("x-grpc-test-echo-initial", "seen"), ("x-grpc-test-echo-trailing-bin", b"\x00\xff\x01"))
    _, call = channel.unary_unary(SERVICE + "Softmax").with_call(b"x", metadata=sent, timeout=10)
    assert ("x-grpc-test-echo-initial", "seen") in call.initial_metadata(), call.initial_metadata()
    assert ("x-grpc-test-echo-trailing-bin", b"\x00\xff\x01") in call.trailing_metadata(), call.trailing_metadata()
    softmax = channel.unary_unary(SERVICE + "Softmax")
    ends_with(lambda: softmax(b"x", metadata=[("x-much", "y" * 20_000)], timeout=10), grpc.StatusCode.INTERNAL)
    assert softmax(b"x", timeout=10) == b"x"


def errors(channel):
    softmax = channel.unary_unary(SERVICE + "Softmax")
    nothing = channel.unary_unary(SERVICE + "Nothing")
    ends_with(lambda: nothing(b"x", timeout=10), grpc.StatusCode.UNIMPLEMENTED, "method")
    ends_with(lambda: channel.unary_unary("/x/y")(b"x" * 3_000_000, timeout=10), grpc.StatusCode.UNIMPLEMENTED)
    for code in grpc.StatusCode:
        if code != grpc.StatusCode.OK:
            asked = [("x-test-status", f"{code.value[0]} 7 % of it")]
            ends_with(lambda asked=asked: softmax(b"x", metadata=asked, timeout=10), code, "7 % of it")
    ends_with(lambda: list(channel.stream_stream(SERVICE + "SoftmaxStream")(
        iter([b"x"]), metadata=[("x-test-status", "9 so")], timeout=10)), grpc.StatusCode.FAILED_PRECONDITION, "so")
    ends_with(lambda: softmax(b"x" * 10_000, compression=grpc.Compression.Gzip, timeout=10),
              grpc.StatusCode.UNIMPLEMENTED, "identity")
    ends_with(lambda: softmax(b"x" * (66 << 20), timeout=60), grpc.StatusCode.RESOURCE_EXHAUSTED, "too large")


def deadlines(channel):
    never = channel.unary_unary(SERVICE + "Never")
    for timeout in (0.05, 0.3):
        began = time.monotonic()
        ends_with(lambda timeout=timeout: never(b"x", timeout=timeout), grpc.StatusCode.DEADLINE_EXCEEDED)
        assert timeout * 0.9 < time.monotonic() - began < timeout + 5
    # The server's own, of a client that would wait for ever.
    ends_with(lambda: never(b"x", metadata=[("grpc-timeout", "100m")]), grpc.StatusCode.DEADLINE_EXCEEDED, "is over")
    waits = [never.future(b"x", timeout=0.1 + i / 1000) for i in range(100)]
    assert all(wait.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED for wait in waits)
    assert channel.unary_unary(SERVICE + "Softmax")(b"x", timeout=99_999_999) == b"x"


def cancellations(channel):
    never = channel.unary_unary(SERVICE + "Never")
    # More than may be open at once: each cancellation makes room.
    for _ in range(600):
        call = never.future(b"x", timeout=60)
        call.cancel()
    stream = channel.stream_stream(SERVICE + "SoftmaxStream")(iter(lambda: b"x" * 1000, None), timeout=60)
    for _, _answer in zip(range(100), stream):
        pass
    stream.cancel()
    assert channel.unary_unary(SERVICE + "Softmax")(b"x", timeout=30) == b"x"


def main(address):
    for part in (unary_calls, streams, a_slow_reader, metadata, errors, deadlines, cancellations):
        with grpc.insecure_channel(address, OPTIONS) as channel:
            part(channel)
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])

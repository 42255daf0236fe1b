"""Servers that die, drain or refuse; Ctrl-C, forks, and interpreters that end with calls open."""
import copy
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import softmax_client
from softmax_client import StatusCode
from softmax_client.errors import error_of
from waiting import eventually, let_pass

X = np.zeros((2, 5), np.float32)
ONCE = softmax_client.Retry(max_attempts=1)


# A shell's background jobs begin with SIGINT ignored.
HEARS_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def in_a_process(program, *arguments, timeout=60, interrupt_after=None, ends_when=lambda: True):
    """Runs the text as a Python program, its standard input open until `ends_when`; (exit code, output)."""
    command = [sys.executable, "-B", "-c", HEARS_CTRL_C + textwrap.dedent(program), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        try:
            if interrupt_after:
                first = process.stdout.readline()
                assert first.strip() == interrupt_after, first + process.stdout.read()
                let_pass(0.3)  # of the call, of which some ask no server
                process.send_signal(signal.SIGINT)
            assert eventually(ends_when)
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError("hangs") from None
    return process.returncode, output


def test_nobody_listens():
    with softmax_client.Client("127.0.0.1:1", retry=ONCE) as client:
        with pytest.raises(softmax_client.UnavailableError, match="127.0.0.1:1") as caught:
            client.softmax(X)
    assert caught.value.code == StatusCode.UNAVAILABLE and isinstance(caught.value, ConnectionError)


def test_a_server_that_is_killed_and_comes_back(own_server):
    first = own_server()
    with softmax_client.Client(first.address, wait_for_ready=True, deadline=60) as client:
        client.softmax(X)
        first.kill()
        with pytest.raises(softmax_client.SoftmaxError):
            client.softmax(X, timeout=0.2)
        own_server(address=first.address)
        assert np.allclose(client.softmax(X), 0.2)


def test_a_server_that_drains_is_left_for_another(own_server):
    draining, staying = own_server("--drain-delay", "1s"), own_server()
    with softmax_client.Client(f"{draining.address},{staying.address}") as client:
        client.wait_for_connection()
        draining.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert np.allclose(client.softmax(X), 0.2)
        assert draining.stop() == 0


def test_the_deadline_is_kept(slow_server):
    with softmax_client.Client(slow_server, deadline=0.2) as client:
        for call in (lambda: client.softmax(X), lambda: client.softmax_batch([X])):
            start = time.monotonic()
            with pytest.raises(softmax_client.DeadlineExceededError) as caught:
                call()
            assert isinstance(caught.value, TimeoutError) and caught.value.errno is None
            assert 0.19 < time.monotonic() - start < 10


@pytest.mark.parametrize("code", [code for code in StatusCode if code != StatusCode.OK])
def test_a_status_is_no_error_number_of_the_system(code):
    error = error_of(code, "words", 1.5)
    for same in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is type(error) and str(same) == f"{code.name}: words"
        assert (same.code, same.message, same.retry_after) == (code, "words", 1.5) == same.args
        for name in ("errno", "strerror", "filename", "filename2"):
            assert getattr(same, name, None) is None, name


def test_a_tensor_above_the_servers_limit_is_refused(own_server):
    small = own_server("--max-request-bytes", "1MiB")
    with softmax_client.Client(small.address) as client:
        with pytest.raises(softmax_client.InvalidArgumentError, match="max_request_bytes"):
            client.softmax(np.zeros((1000, 1000), np.float32))


def test_close_ends_calls_of_other_threads(slow_server, slow_requests):
    client = softmax_client.Client(slow_server, deadline=600)
    ended = []

    def call():
        with pytest.raises(softmax_client.CancelledError):
            client.softmax(X)
        ended.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: slow_requests() == 4)
    client.close()
    client.close()
    for thread in threads:
        thread.join(20)
    assert len(ended) == 4
    for use in (lambda: client.softmax(X), client.server_info, client.stats, client.stream):
        with pytest.raises(RuntimeError, match="closed"):
            use()


CALLS = {
    "softmax": "client.softmax(x)", "batch": "client.softmax_batch([x])", "finish": "s.send(x); s.finish()",
    "receive": "s.send(x); s.receive()", "send": "[s.send(x) for _ in range(9)]",
    "pause": "softmax_client.Client('127.0.0.1:1', deadline=600, wait_for_ready=True).softmax(x)",
    "connect": "softmax_client.Client('127.0.0.1:1').wait_for_connection(600)",
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_a_call(slow_server, name):
    code, output = in_a_process(f"""
        import sys, numpy as np, softmax_client
        x = np.zeros((2, 5), np.float32)
        client = softmax_client.Client(sys.argv[1], deadline=600)
        s = client.stream(max_in_flight=4)
        print("begun", flush=True)
        try:
            {CALLS[name]}
        except KeyboardInterrupt:
            print("interrupted")
        """, slow_server, interrupt_after="begun")
    assert (code, output.strip()) == (0, "interrupted")


def test_what_interrupts_come_between_is_neither_lost_nor_counted_twice(server):
    code, output = in_a_process("""
        import signal, sys, time, numpy as np, softmax_client
        class Interrupted(Exception): pass
        def interrupt(*_):
            global inside, interrupts
            if inside:
                inside, interrupts = False, interrupts + 1
                raise Interrupted
        signal.signal(signal.SIGALRM, interrupt)
        client = softmax_client.Client(sys.argv[1])
        stream = client.stream(max_in_flight=8)
        answers, begun, inside, interrupts, end = {}, 0, False, 0, time.monotonic() + 3
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        while time.monotonic() < end:
            begun += 1
            try:
                inside = True
                stream.send(np.full((2, 64), begun, np.float64), id=begun)
                answer = stream.receive()
                inside = False
                answers[answer[0]] = answer[1]
            except Interrupted: pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        stream.finish()
        for id, answer in stream: answers[id] = answer
        assert interrupts > 10 and all(np.allclose(answer, 1 / 64) for answer in answers.values())
        print("over")
        """, server.address)
    assert (code, output.strip()) == (0, "over")


def test_ctrl_c_is_for_the_main_thread_only(server):
    code, output = in_a_process("""
        import sys, threading, numpy as np, softmax_client
        x = np.zeros((2, 5), np.float32)
        client = softmax_client.Client(sys.argv[1])
        slow = softmax_client.Client("127.0.0.1:1", wait_for_ready=True, deadline=600)
        calls, over = [], threading.Event()
        def work():
            while not over.is_set():
                client.softmax(x)
                calls.append(1)
        thread = threading.Thread(target=work)
        thread.start()
        print("begun", flush=True)
        try:
            slow.softmax(x)
        except KeyboardInterrupt:
            before = len(calls)
            while len(calls) < before + 10: pass
            over.set()
            thread.join()
            print("went on")
        """, server.address, interrupt_after="begun")
    assert (code, output.strip()) == (0, "went on")


def test_the_interpreter_may_end_with_calls_open(slow_server, slow_requests):
    code, output = in_a_process("""
        import asyncio, sys, threading, numpy as np, softmax_client
        x = np.zeros((500, 500), np.float32)
        client = softmax_client.Client(sys.argv[1], deadline=600)
        calls = [lambda: client.softmax(x), lambda: client.softmax_batch([x]), lambda: client.stream().send(x)]
        stream = client.stream()
        stream.send(x)
        calls.append(lambda: stream.receive())
        def quietly(call):
            try: call()
            except softmax_client.SoftmaxError: pass
        for call in calls * 4:
            threading.Thread(target=quietly, args=(call,), daemon=True).start()
        async def start():
            other = softmax_client.AsyncClient(sys.argv[1], deadline=600)
            asyncio.ensure_future(other.softmax(x))
            await asyncio.sleep(0.1)
            return other
        kept = asyncio.run(start())
        sys.stdin.read()
        print("over", flush=True)
        """, slow_server, ends_when=lambda: slow_requests() >= 9)  # 4 calls, 4 batches, 1 of the stream
    assert (code, output.strip()) == (0, "over")


def test_a_fork_after_use_is_named_and_one_before_is_fine(server):
    code, output = in_a_process("""
        import os, sys, warnings, numpy as np, softmax_client
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # Python 3.12 has it for whoever has threads
        x = np.zeros((2, 5), np.float32)
        def child(work):
            pid = os.fork()
            if pid == 0:
                work()
                sys.exit(0)
            return os.waitpid(pid, 0)[1]
        def works():
            with softmax_client.Client(sys.argv[1]) as fresh: fresh.softmax(x)
        assert child(works) == 0
        client = softmax_client.Client(sys.argv[1])
        client.softmax(x)
        stream = client.stream()
        stream.send(x)
        def refused():
            for use in (lambda: client.softmax(x), lambda: softmax_client.Client("localhost:1"), stream.receive):
                try: use()
                except RuntimeError as error: assert "fork" in str(error), error
                else: os._exit(3)
            client.close()
        assert child(refused) == 0
        assert child(lambda: None) == 0
        client.softmax(x)
        assert stream.receive()[0] == 0
        print("fine")
        """, server.address)
    assert (code, output.strip()) == (0, "fine")


def test_objects_may_go_in_any_order(server):
    for _ in range(20):
        client = softmax_client.Client(server.address)
        stream = client.stream()
        stream.send(X)
        answers = client.softmax_batch([X, X])
        del client
        assert stream.receive()[0] == 0
        del stream
        assert np.allclose(answers[1], 0.2)


def test_64_threads_share_a_client(client):
    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(20):
            x = random.standard_normal((3, 100)).astype(np.float32)
            want = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
            assert np.allclose(client.softmax(x), want, rtol=1e-5)
        done.append(seed)

    done = []
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 64

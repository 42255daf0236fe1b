#!/usr/bin/env python3
"""Calls/s through the Python package, the C++ client and grpcio with generated code, on one server, in turn.

    PYTHONPATH=build/dev/client/python python_client_bench.py SERVER CLIENT_RATE [ROUNDS] [SECONDS]

SERVER is softmax-server, started with its null backend (it copies, and computes nothing); CLIENT_RATE is client_rate.cc
built. Prints a line for each load and way, medians of the rounds: calls/s, GB/s
of tensors each way, the ratio to C++, and microseconds of processor time that the client takes for a call.
"""
import asyncio
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import softmax_client

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def array_of(size):
    return np.full((size // 1024, 256), 0.5, np.float32)


def threads_rate(calls, seconds):
    """Calls/s of these functions, each on a thread of its own (one: on this one)."""
    counts = [0] * len(calls)
    end = time.perf_counter() + seconds

    def work(i):
        call = calls[i]
        while time.perf_counter() < end:
            call()
            counts[i] += 1

    start = time.perf_counter()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, len(calls))]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


def package(address, size, threads, seconds):
    with softmax_client.Client(address, deadline=60) as client:
        arrays = [array_of(size) for _ in range(threads)]
        return threads_rate([lambda x=x: client.softmax(x) for x in arrays], seconds)


def with_asyncio(address, size, in_flight, seconds):
    async def run():
        async with softmax_client.AsyncClient(address, deadline=60) as client:
            end, count = time.perf_counter() + seconds, 0

            async def work():
                nonlocal count
                x = array_of(size)
                while time.perf_counter() < end:
                    await client.softmax(x)
                    count += 1

            start = time.perf_counter()
            await asyncio.gather(*(work() for _ in range(in_flight)))
            return count / (time.perf_counter() - start)

    return asyncio.run(run())


def grpcio(address, size, threads, seconds):
    import grpc
    from softmax.v1 import softmax_pb2 as pb, softmax_pb2_grpc

    options = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(address, options=options) as channel:
        stub = softmax_pb2_grpc.SoftmaxServiceStub(channel)

        def call(x):
            tensor = pb.Tensor(dtype=pb.DATA_TYPE_FLOAT32, shape=x.shape, data=x.tobytes())
            answer = stub.Softmax(pb.SoftmaxRequest(input=tensor), timeout=60)
            return np.frombuffer(answer.output.data, np.float32).reshape(x.shape)

        arrays = [array_of(size) for _ in range(threads)]
        return threads_rate([lambda x=x: call(x) for x in arrays], seconds)


def processor_seconds():
    """Of this process and of the C++ client's, but not the server's, which has not ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def main():
    server, rate_program = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 1.5

    def cpp(address, size, threads, _):
        return float(subprocess.run([rate_program, address, str(size), str(threads), str(seconds)], check=True,
                                    capture_output=True, text=True).stdout)

    loads = [("1 MiB, 4 threads", 1 << 20, 4, {"C++": cpp, "Python": package}),
             ("4 KiB, 1 thread", 4096, 1, {"C++": cpp, "Python": package, "grpcio": grpcio}),
             ("4 KiB, 64 at once", 4096, 64,
              {"C++": cpp, "Python": package, "asyncio": with_asyncio, "grpcio": grpcio})]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", "-I", f"{ROOT}/proto", f"--python_out={folder}", f"--grpc_python_out={folder}",
                        f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}",
                        f"{ROOT}/proto/softmax/v1/softmax.proto"], check=True)
        sys.path.insert(0, folder)
        with subprocess.Popen([server, "--address", "127.0.0.1:0", "--metrics-address", "none", "--backend", "null",
                               "--unsafe-testing"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as process:
            address = None
            for line in process.stdout:
                found = re.search(r"listening on (127\.0\.0\.1:\d+)", line)
                if found:
                    address = found.group(1)
                    break
            reader = threading.Thread(target=lambda: [None for _ in process.stdout], daemon=True)
            reader.start()
            try:
                for name, size, count, ways in loads:
                    results = {way: [] for way in ways}
                    for _ in range(rounds):
                        for way, measure in ways.items():
                            before = processor_seconds()
                            rate = measure(address, size, count, seconds)
                            cost = (processor_seconds() - before) / (rate * seconds)
                            results[way].append((rate, cost * 1e6))
                    for way, measured in results.items():
                        ratio = statistics.median(a[0] / b[0] for a, b in zip(measured, results["C++"]))
                        rates, costs = (statistics.median(each) for each in zip(*measured))
                        print(f"{name} | {way} | {rates:.0f} | {rates * size / 1e9:.3f} | {ratio:.2f} | {costs:.0f}",
                              flush=True)
            finally:
                process.terminate()
                reader.join()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The echo answers each message with itself, by either of gRPC's interfaces: echo_test.py ECHO_SERVER CLIENT."""
import random
import subprocess
import sys

# What it says of each.
WAYS = {(): "queues: 2",
        ("--c-interface",): "queues: 2, unary calls by the C interface",
        ("--copy",): "queues: 2, with a copy"}


def sent_back(client, address, numbers):
    text = " ".join(str(number) for number in numbers) + "\n"
    done = subprocess.run([client, "--address", address], input=text, capture_output=True, text=True, timeout=30,
                          check=False)
    assert done.returncode == 0, done
    return [float(number) for number in done.stdout.split()]


def check(server, client, flags, said):
    process = subprocess.Popen([server, "--address", "127.0.0.1:0", "--threads", "2", *flags],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == said, flags
        address = process.stdout.readline().strip().removeprefix("listening on ")
        source = random.Random(1)
        # Of one message, and of several frames.
        for count in (3, 40_000):
            numbers = [source.randrange(-1000, 1000) for _ in range(count)]
            assert sent_back(client, address, numbers) == numbers, (flags, count)
    finally:
        process.terminate()
    assert process.wait(timeout=30) == 0, flags


def main(server, client):
    for flags, said in WAYS.items():
        check(server, client, flags, said)
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""One Softmax request from Python: rows of numbers on standard input, their softmax on standard output.

Needs grpcio and protobuf (Debian: python3-grpcio, python3-protobuf) and the generated modules, made once by

    protoc -I proto --python_out=OUT --grpc_python_out=OUT \\
        --plugin=protoc-gen-grpc_python=$(command -v grpc_python_plugin) proto/softmax/v1/softmax.proto

    echo '1 2 3' | PYTHONPATH=OUT python3 tests/compatibility/grpcio_client.py localhost:50051
"""
import array
import math
import sys

import grpc
from softmax.v1 import softmax_pb2, softmax_pb2_grpc


LOCAL = ("localhost:", "127.", "[::1]:", "unix:")


def straight(address):
    """The options with which this machine is not sought by a proxy of the environment (http_proxy), which knows another
    localhost."""
    local = address.removeprefix("dns:///").removeprefix("ipv4:").removeprefix("ipv6:").startswith(LOCAL)
    return [("grpc.enable_http_proxy", 0)] if local else []


def connect(address):
    """A stub that takes answers as large as the server sends them; gRPC's own limit in Python is 4 MiB."""
    with grpc.insecure_channel(address, options=straight(address)) as first:
        info = softmax_pb2_grpc.SoftmaxServiceStub(first).GetServerInfo(
            softmax_pb2.GetServerInfoRequest(), timeout=10, wait_for_ready=True)
    # The limit counts the tensor; the answer's header comes on top.
    receive = info.limits.max_response_bytes + (1 << 16)
    channel = grpc.insecure_channel(address, options=straight(address) + [("grpc.max_receive_message_length", receive),
                                                                          ("grpc.max_send_message_length", -1)])
    return softmax_pb2_grpc.SoftmaxServiceStub(channel)


def softmax(stub, values, shape, timeout=10.0):
    """Softmax over the last axis of a dense float32 tensor: `values` row by row, as an array.array('f')."""
    if sys.byteorder != "little":
        raise NotImplementedError("tensors travel little-endian")
    request = softmax_pb2.SoftmaxRequest(
        input=softmax_pb2.Tensor(dtype=softmax_pb2.DATA_TYPE_FLOAT32, shape=shape, data=values.tobytes()))
    answer = stub.Softmax(request, timeout=timeout)
    result = array.array("f")
    result.frombytes(answer.output.data)
    return result


def top(stub, values, shape, k, timeout=10.0):
    """The k most probable elements of each row, as lists of (index, probability) pairs, and the rows' log(sum(exp)) in
    an array.array('f'). The answer is this small; no tensor comes back."""
    request = softmax_pb2.SoftmaxRequest(
        summary=softmax_pb2.SummaryRequest(top_k=k, log_sum_exp=True),
        input=softmax_pb2.Tensor(dtype=softmax_pb2.DATA_TYPE_FLOAT32, shape=shape, data=values.tobytes()))
    summary = stub.Softmax(request, timeout=timeout).summary
    probabilities, indices, log_sum_exp = array.array("f"), array.array("i"), array.array("f")
    probabilities.frombytes(summary.top_values)
    indices.frombytes(summary.top_indices)
    log_sum_exp.frombytes(summary.log_sum_exp)
    pairs = list(zip(indices, probabilities))
    return [pairs[start:start + k] for start in range(0, len(pairs), k)], log_sum_exp


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
    rows = [[float(word) for word in line.split()] for line in sys.stdin if line.strip()]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        sys.exit("expected rows of the same number of numbers on standard input")
    numbers = [value for row in rows for value in row]
    values = array.array("f", numbers)
    if any(math.isinf(value) and math.isfinite(number) for value, number in zip(values, numbers)):
        sys.exit("a number is too large for float32")
    try:
        result = softmax(connect(address), values, [len(rows), len(rows[0])])
    except grpc.RpcError as error:
        sys.exit(f"{address}: {error.code().name}: {error.details()}")
    width = len(rows[0])
    for start in range(0, len(result), width):
        print(" ".join(f"{value:.8g}" for value in result[start:start + width]))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a user would write in Python: grpcio's server, generated messages, torch, and a dynamic batcher of its own.

    torch_baseline.py --generated DIR [--address HOST:PORT ...] [--device cuda|cpu] [--numpy]

DIR holds softmax/v1/softmax_pb2.py (protoc --python_out). float32, unary, the last axis. --numpy computes with numpy in
torch's place, to try the rest of it where torch is not installed. For comparison only. Without grpcio, protobuf or
torch it says so in one line and ends with 77."""
import argparse
import concurrent.futures
import queue
import signal
import sys
import threading

SKIPPED = 77
MAX_BATCH_REQUESTS = 256
MAX_BATCH_BYTES = 64 << 20
HANDLERS = 64  # threads that wait for answers; they are what bounds a batch


def load(arguments):
    """(grpc, the generated messages, a function that makes softmax of a list of rows x columns byte strings)."""
    sys.path.insert(0, arguments.generated)
    try:
        import grpc
        import numpy
        from softmax.v1 import softmax_pb2
        compute = numpy_softmax(numpy) if arguments.numpy else torch_softmax(numpy, arguments.device)
    except ImportError as error:
        print(f"skipped: {error.name or error} is not installed for {sys.executable}")
        sys.exit(SKIPPED)
    return grpc, softmax_pb2, compute


def torch_softmax(numpy, device):
    import torch
    if device == "cuda" and not torch.cuda.is_available():
        print("skipped: torch sees no GPU")
        sys.exit(SKIPPED)

    def compute(batch, columns):
        joined = numpy.frombuffer(b"".join(batch), dtype=numpy.float32).reshape(-1, columns)
        rows = torch.from_numpy(joined.copy()).to(device)
        return torch.softmax(rows, dim=-1).cpu().numpy()

    return compute


def numpy_softmax(numpy):
    def compute(batch, columns):
        rows = numpy.frombuffer(b"".join(batch), dtype=numpy.float32).reshape(-1, columns)
        powers = numpy.exp(rows - rows.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    return compute


class Batcher:
    """Takes what waits and has one width, computes it at once, and hands each request its part. One thread."""

    def __init__(self, compute):
        self._compute = compute
        self._waiting = queue.SimpleQueue()
        self._kept = None  # taken from the queue, but of another width than the batch before it
        threading.Thread(target=self._run, daemon=True).start()

    def softmax(self, data, columns):
        """Blocks until the answer's bytes are there."""
        answer = concurrent.futures.Future()
        self._waiting.put((data, columns, answer))
        return answer.result()

    def _take(self):
        first = self._kept or self._waiting.get()
        self._kept = None
        batch, size = [first], len(first[0])
        while len(batch) < MAX_BATCH_REQUESTS and size < MAX_BATCH_BYTES:
            try:
                entry = self._waiting.get_nowait()
            except queue.Empty:
                break
            if entry[1] != first[1]:
                self._kept = entry
                break
            batch.append(entry)
            size += len(entry[0])
        return batch

    def _run(self):
        while True:
            batch = self._take()
            try:
                columns = batch[0][1]
                results = self._compute([data for data, _, _ in batch], columns)
                row = 0
                for data, _, answer in batch:
                    rows = len(data) // 4 // columns
                    answer.set_result(results[row:row + rows].tobytes())
                    row += rows
            except Exception as error:  # every caller hears of it
                for _, _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)


def make_handler(grpc, messages, batcher):
    def softmax(request, context):
        tensor = request.input
        if tensor.dtype != messages.DATA_TYPE_FLOAT32 or not tensor.shape or tensor.shape[-1] <= 0:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "input: this baseline takes float32 with columns")
        elements = 1
        for size in tensor.shape:
            elements *= size
        if elements * 4 != len(tensor.data):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "input: data does not have the shape's size")
        output = messages.Tensor(dtype=tensor.dtype, shape=tensor.shape,
                                 data=batcher.softmax(tensor.data, tensor.shape[-1]))
        return messages.SoftmaxResponse(id=request.id, output=output)

    method = grpc.unary_unary_rpc_method_handler(softmax, messages.SoftmaxRequest.FromString,
                                                 messages.SoftmaxResponse.SerializeToString)
    return grpc.method_handlers_generic_handler("softmax.v1.SoftmaxService", {"Softmax": method})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generated", required=True, help="where softmax/v1/softmax_pb2.py is")
    parser.add_argument("--address", action="append", help="host:port (port 0: any) or unix:/path; may be repeated")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--numpy", action="store_true")
    arguments = parser.parse_args()
    grpc, messages, compute = load(arguments)
    limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(HANDLERS), options=limits)
    server.add_generic_rpc_handlers((make_handler(grpc, messages, Batcher(compute)),))
    bound = []
    for address in arguments.address or ["127.0.0.1:50063"]:
        port = server.add_insecure_port(address)
        bound.append(address[:-1] + str(port) if address.endswith(":0") else address)
    server.start()
    for address in bound:
        print("listening on", address, flush=True)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    server.stop(1).wait()


if __name__ == "__main__":
    main()

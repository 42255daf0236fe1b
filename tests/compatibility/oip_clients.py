#!/usr/bin/env python3
"""The public clients of the Open Inference Protocol against a running server: oip_clients.py HOST:PORT

Runs tritonclient.grpc (pip install tritonclient[grpc] numpy) and perf_analyzer where they are installed, and says what
passed. Ends with 1 where something failed, and with 77 where neither client is there. A server with
--oip-shared-memory /dev/shm is asked for that, too.
"""
import pathlib
import queue
import re
import resource
import shutil
import subprocess
import sys

TARGET = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
OIP_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/oip.md"
RESULTS = []
HAS_FILES = False  # the server takes registered files of /dev/shm
MOST_MEMORY = 4 << 30  # bytes of addresses for perf_analyzer, unless less is allowed here


def check(name, run):
    try:
        run()
    except Exception as error:  # whatever a public client throws is a result
        RESULTS.append((name, f"FAILED: {type(error).__name__}: {error}"))
    else:
        RESULTS.append((name, "passed"))
    print(*RESULTS[-1], sep=": ", flush=True)


def reference(numpy, x, log=False):
    shifted = x.astype(numpy.float64) - x.max(axis=-1, keepdims=True)
    logs = shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))
    return logs if log else numpy.exp(logs)


def run_tritonclient():
    try:
        import numpy
        import tritonclient.grpc as triton
    except ImportError as error:
        print(f"tritonclient: skipped, {error}")
        return
    client = triton.InferenceServerClient(TARGET)
    global HAS_FILES
    HAS_FILES = "system_shared_memory" in client.get_server_metadata().extensions
    x = numpy.random.default_rng(1).standard_normal((4, 1000))

    def tensor(values, datatype):
        made = triton.InferInput("X", list(values.shape), datatype)
        made.set_data_from_numpy(values)
        return made

    def right(answer, values, log=False, tolerance=1e-5):
        numpy.testing.assert_allclose(answer.as_numpy("Y"), reference(numpy, values, log), atol=tolerance)

    def refused(call, code):
        try:
            call()
        except triton.InferenceServerException as error:
            assert code in error.status(), error
            assert error.message(), "an error without a message"
        else:
            raise AssertionError(f"was answered, not {code}")

    def control():
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("softmax")
        assert not client.is_model_ready("resnet")
        assert client.get_model_metadata("softmax").inputs[0].name == "X"
        assert client.get_model_config("softmax").config.max_batch_size > 0
        assert len(client.get_model_repository_index().models) == 8
        client.get_trace_settings()
        client.get_log_settings()
        client.unregister_system_shared_memory()
        client.unregister_cuda_shared_memory()
        for change in (lambda: client.unload_model("softmax"), lambda: client.load_model("softmax", config="{}"),
                       lambda: client.update_trace_settings(settings={"trace_level": "TIMESTAMPS"}),
                       lambda: client.update_log_settings({"log_verbose_level": 1})):
            refused(change, "UNAVAILABLE")
        refused(lambda: client.get_system_shared_memory_status("region"), "NOT_FOUND")
        assert client.is_model_ready("softmax")

    def each_type():
        for datatype, model, kind, tolerance in (("FP32", "softmax", numpy.float32, 1e-6),
                                                 ("FP16", "softmax_fp16", numpy.float16, 1e-3),
                                                 ("FP64", "log_softmax_fp64", numpy.float64, 1e-12)):
            values = x.astype(kind)
            right(client.infer(model, [tensor(values, datatype)]), values, model.startswith("log"), tolerance)
        values = (x.astype(numpy.float32).view(numpy.uint32) & 0xffff0000).view(numpy.float32)
        right(client.infer("softmax_bf16", [tensor(values, "BF16")]), values, tolerance=4e-3)

    def asynchronous():
        answers = queue.Queue()
        for i in range(100):
            client.async_infer("softmax", [tensor(x.astype(numpy.float32), "FP32")], request_id=str(i),
                               callback=lambda result, error: answers.put((result, error)))
        ids = set()
        for _ in range(100):
            result, error = answers.get(timeout=30)
            assert error is None, error
            right(result, x)
            ids.add(result.get_response().id)
        assert len(ids) == 100

    def streaming():
        answers = queue.Queue()
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for i in range(100):
            client.async_stream_infer("softmax", [tensor(x.astype(numpy.float32), "FP32")], request_id=str(i))
        for i in range(100):
            result, error = answers.get(timeout=30)
            assert error is None, error
            right(result, x)
            assert result.get_response().id == str(i), "out of turn"
            assert result.get_response().parameters["triton_final_response"].bool_param
        client.stop_stream()

    def stream_that_ends():
        answers = queue.Queue()
        client.start_stream(callback=lambda result, error: answers.put((result, error)),
                            headers={"triton_grpc_error": "true"})
        client.async_stream_infer("softmax", [tensor(x.astype(numpy.float32), "FP32")])
        client.async_stream_infer("resnet", [tensor(x.astype(numpy.float32), "FP32")])
        assert answers.get(timeout=30)[1] is None
        error = answers.get(timeout=30)[1]
        assert "NOT_FOUND" in error.status(), error
        client.stop_stream()

    def statistics():
        before = client.get_inference_statistics("softmax").model_stats[0].inference_stats.success.count
        client.infer("softmax", [tensor(x.astype(numpy.float32), "FP32")])
        after = client.get_inference_statistics("softmax").model_stats[0].inference_stats.success.count
        assert after > before

    def errors():
        for model, name in (("resnet", "X"), ("softmax", "A")):
            made = triton.InferInput(name, [4, 1000], "FP32")
            made.set_data_from_numpy(x.astype(numpy.float32))
            try:
                client.infer(model, [made])
            except triton.InferenceServerException as error:
                assert error.message(), "an error without a message"
            else:
                raise AssertionError(f"{model} with input {name} was answered")

    def shared_memory():
        import tritonclient.utils.shared_memory as regions
        values = x.astype(numpy.float32)
        handles = [regions.create_shared_memory_region(name, f"/softmax_oip_{name}", values.nbytes)
                   for name in ("input", "output")]
        regions.set_shared_memory_region(handles[0], [values])
        try:
            for name in ("input", "output"):
                client.register_system_shared_memory(name, f"/softmax_oip_{name}", values.nbytes)
            placed = triton.InferInput("X", list(values.shape), "FP32")
            placed.set_shared_memory("input", values.nbytes)
            wanted = triton.InferRequestedOutput("Y")
            wanted.set_shared_memory("output", values.nbytes)
            shape = list(client.infer("softmax", [placed], outputs=[wanted]).get_output("Y").shape)
            answer = regions.get_contents_as_numpy(handles[1], numpy.float32, shape)
            numpy.testing.assert_allclose(answer, reference(numpy, values), atol=1e-6)
        finally:
            client.unregister_system_shared_memory()
            for handle in handles:
                regions.destroy_shared_memory_region(handle)

    if HAS_FILES:
        check("tritonclient, shared memory", shared_memory)
    for name, run in (("control calls", control), ("each type", each_type), ("asynchronous", asynchronous),
                      ("stream", streaming), ("stream that ends with an error", stream_that_ends),
                      ("statistics", statistics), ("errors", errors)):
        check(f"tritonclient, {name}", run)


def run_perf_analyzer():
    program = shutil.which("perf_analyzer")
    if program is None:
        print("perf_analyzer: skipped, not installed")
        return
    # It keeps the bytes of all requests that it sends, and sends until the latency is stable: bounded by their number,
    # by time and by memory, beyond which it fails.
    common = [program, "-u", TARGET, "-i", "grpc", "--input-data", "zero", "-s", "50"]

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(MOST_MEMORY, hard)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    commands = []
    for name, count, arguments in (
            ("synchronous", 20000, ["-m", "softmax", "--shape", "X:1024", "--sync", "--concurrency-range", "4"]),
            ("asynchronous", 20000, ["-m", "softmax_fp16", "--shape", "X:1024", "-a", "--concurrency-range", "16"]),
            ("request rate", 600, ["-m", "softmax_fp64", "--shape", "X:1024", "--request-rate-range", "200"]),
            ("stream", 20000, ["-m", "log_softmax", "--shape", "X:1024", "--streaming", "-a", "--concurrency-range",
                               "8"]),
            ("batch", 2000, ["-m", "softmax", "--shape", "X:1024", "-b", "64", "--concurrency-range", "4"])):
        commands.append((name, [*common, "--request-count", str(count), *arguments]))
    if HAS_FILES:
        commands.append(("shared memory", [*common, "--request-count", "20000", "-m", "softmax", "--shape", "X:1024",
                                           "--shared-memory", "system", "--concurrency-range", "4"]))
    # And what the page tells its readers to run.
    page = OIP_PAGE.read_text(encoding="utf-8").replace("\\\n", " ").replace("localhost:50051", TARGET)
    for line in re.findall("^    perf_analyzer (.*)", page, re.MULTILINE):
        words = line.split()
        commands.append((f"as in {OIP_PAGE.name}: {' '.join(words)}", [program, *words]))
    for name, command in commands:
        check(f"perf_analyzer, {name}",
              lambda command=command: subprocess.run(command, check=True, timeout=120, preexec_fn=limit))


run_tritonclient()
run_perf_analyzer()
if not RESULTS:
    sys.exit(77)
failed = sum(result != "passed" for _, result in RESULTS)
print(f"{len(RESULTS) - failed} passed, {failed} failed")
sys.exit(failed > 0)

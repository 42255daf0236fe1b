"""A call's place in a trace, from the caller to a collector that is made of OpenTelemetry's published classes."""
import asyncio
import json
import pathlib
import re
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest

import softmax_client
from conftest import Server
from waiting import eventually

TESTS = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = TESTS.parent / "build/tools/grpc-js"
X = np.zeros((2, 3), np.float32)
CARRIER = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "congo=t61rcWkgMzE"}
STAGES = ("queue", "batch", "execution", "answer")


class Collector:
    def __init__(self):
        self._node = subprocess.Popen([shutil.which("node"), str(TESTS / "support/collector.js"), str(PACKAGES)],
                                      stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self._node.stdout.readline())}"
        self.requests = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._node.stdout:
            self.requests.append(json.loads(line))

    def spans(self):
        return [span for request in self.requests for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]]

    def named(self, name, count):
        eventually(lambda: sum(span["name"] == name for span in self.spans()) >= count, 30)
        return [span for span in self.spans() if span["name"] == name]

    def close(self):
        self._node.kill()
        self._node.wait()
        self._reader.join()


@pytest.fixture
def collector():
    if shutil.which("node") is None or not (PACKAGES / "node_modules/@opentelemetry/otlp-transformer").is_dir():
        pytest.skip("no node with @grpc/grpc-js and @opentelemetry/otlp-transformer: scripts/setup.sh all fetches them")
    collector = Collector()
    yield collector
    collector.close()


def attributes(span):
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def test_a_trace_arrives_as_it_was_sent(collector, tmp_path):
    server = Server(tmp_path, "--trace-endpoint", collector.url)
    with softmax_client.Client(server.address) as client:
        before = time.time_ns()
        client.softmax(X, trace=CARRIER)
        after = time.time_ns()
    span, = collector.named("softmax.v1.SoftmaxService/Softmax", 1)
    assert (span["traceId"], span["parentSpanId"]) == tuple(CARRIER["traceparent"].split("-")[1:3])
    assert span["traceState"] == CARRIER["tracestate"]
    assert span["kind"] == "SPAN_KIND_SERVER"
    assert span["flags"] == 0x301
    assert re.fullmatch("[0-9a-f]{16}", span["spanId"]) and span["spanId"] != span["parentSpanId"]
    sent = attributes(span)
    assert sent.pop("network.peer.port").isdigit()
    assert sent == {"rpc.system": "grpc", "rpc.service": "softmax.v1.SoftmaxService", "rpc.method": "Softmax",
                    "rpc.grpc.status_code": "0", "network.peer.address": "127.0.0.1"}
    at = int(span["startTimeUnixNano"])
    assert before <= at
    for name in STAGES:
        stage, = collector.named(name, 1)
        assert (stage["traceId"], stage["parentSpanId"]) == (span["traceId"], span["spanId"])
        assert int(stage["startTimeUnixNano"]) == at
        at = int(stage["endTimeUnixNano"])
    assert at == int(span["endTimeUnixNano"]) <= after
    batch, = collector.named("softmax batch", 1)
    assert attributes(batch) == {"softmax.batch.rows": "2"}
    link, = span["links"]
    assert (link["traceId"], link["spanId"]) == (batch["traceId"], batch["spanId"])
    resource = attributes(collector.requests[0]["resourceSpans"][0]["resource"])
    assert resource == {"service.name": "softmax-server"}
    assert server.stop() == 0


def test_every_way_to_call_passes_it_on(collector, tmp_path):
    server = Server(tmp_path, "--trace-endpoint", collector.url)
    with softmax_client.Client(server.address) as client:
        client.log_softmax(X, trace=CARRIER["traceparent"])
        client.summarize(X, top_k=1, trace=CARRIER)
        client.softmax_batch([X], trace=CARRIER)
        with client.stream(trace=CARRIER) as stream:
            stream.send(X)
            assert len(list(stream)) == 1

    async def calls():
        async with softmax_client.AsyncClient(server.address) as client:
            await client.softmax(X, trace=CARRIER)
            await client.summarize(X, top_k=1, trace=CARRIER)
            async with client.stream(trace=CARRIER) as stream:
                await stream.send(X)
                assert len([answer async for answer in stream]) == 1
    asyncio.run(calls())
    spans = collector.named("softmax.v1.SoftmaxService/Softmax", 4)
    spans += collector.named("softmax.v1.SoftmaxService/SoftmaxStream", 3)
    assert len(spans) == 7
    assert {span["traceId"] for span in spans} == {CARRIER["traceparent"].split("-")[1]}
    assert server.stop() == 0


@pytest.mark.parametrize("trace, error, says", [
    (5, TypeError, "trace: is a int"),
    ({"traceparent": 5}, TypeError, "trace: 5"),
    ("00-0-0-00", ValueError, "trace.traceparent"),
    ({**CARRIER, "tracestate": "a=\n"}, ValueError, "trace.tracestate")])
def test_what_is_no_trace(client, trace, error, says):
    for call in (lambda: client.softmax(X, trace=trace), lambda: client.softmax_batch([X], trace=trace),
                 lambda: client.stream(trace=trace)):
        with pytest.raises(error, match=re.escape(says)):
            call()


def test_a_carrier_without_a_trace_is_none(client):
    client.softmax(X, trace={})
    client.softmax(X, trace=None)

"""A server under load, a stand-in for one on GPUs, and a real Prometheus that scrapes both, on loopback."""
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from deploy_files import DEPLOY, read, tool
from waiting import eventually

SHAPES = ("1x16:60", "64x1024:20", "16x50257:2", "1x100000:2")


PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def end_with_parent():
    """In a child: killed when this test is, so that a time limit leaves nothing behind."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, condition, limit_s=60):
    """What `condition` returns once that is true."""
    found = eventually(condition, limit_s, 0.1)
    if not found:
        raise AssertionError(f"after {limit_s} s: {what}")
    return found


class LivePrometheus:
    """Use it in a `with`; ends everything that it started."""

    def __init__(self, server, loadgen, gpu_target, fake_nvml_folder, folder):
        self.programs = {"server": server, "loadgen": loadgen, "gpu_target": gpu_target}
        self.fake_nvml_folder = fake_nvml_folder
        self.folder = folder
        self.started = []
        self.server = None

    def __enter__(self):
        try:
            address, metrics = self._start_server()
            gpu_port = self._start_gpu_target()
            self._start_load(address)
            self._start_prometheus({metrics: "server-0", f"127.0.0.1:{gpu_port}": "gpu-0"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _start(self, command, log, **options):
        with open(os.path.join(self.folder, log), "w", encoding="utf-8") as output:
            options.setdefault("stdout", output)
            process = subprocess.Popen(command, stderr=output, preexec_fn=end_with_parent, **options)
        self.started.append(process)
        return process

    def _log(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as log:
            return log.read()

    def _find(self, log, pattern, process):
        def look():
            found = re.search(pattern, self._log(log))
            if found is None and process.poll() is not None:
                raise AssertionError(f"ended with {process.returncode}: {self._log(log)}")
            return found
        return wait_until(f"no {pattern!r} in {log}", look).group(1)

    def _start_server(self):
        # A small arena and queue, so that some requests wait and some are refused: those series are looked at, too.
        command = [self.programs["server"], "--backend=cpu", "--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
                   "--arena-bytes=64MiB", "--max-request-bytes=8MiB", "--max-response-bytes=8MiB",
                   "--max-unread-bytes-per-connection=8MiB", "--drain-delay=20s",
                   "--regions-socket=" + os.path.join(self.folder, "regions.sock"), "--regions-bytes=16MiB",
                   # Nobody listens there: requests that are traced count as failed, and lose nothing else.
                   "--trace-endpoint=http://127.0.0.1:9", "--trace-ratio=0.01"]
        self.server = self._start(command, "server.log")
        address = self._find("server.log", r"listening on (\S+)", self.server)
        return address, self._find("server.log", r"metrics on (\S+)", self.server)

    def _start_gpu_target(self):
        path = self.fake_nvml_folder + os.pathsep + os.environ.get("LD_LIBRARY_PATH", "")
        target = self._start([self.programs["gpu_target"]], "gpu_target.log", stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "LD_LIBRARY_PATH": path})
        return int(target.stdout.readline())

    def _start_load(self, address):
        common = [self.programs["loadgen"], "--address", address, "--duration", "600", "--warmup", "0"]
        shapes = [part for shape in SHAPES for part in ("--shape", shape)]
        self._start(common + shapes + ["--connections", "2", "--in-flight", "8", "--threads", "1"], "load_unary.log")
        stream = ["--stream", "--shape", "4x1024", "--connections", "1", "--in-flight", "4", "--threads", "1"]
        self._start(common + stream, "load_stream.log")

    def _start_prometheus(self, targets):
        rules = os.path.join(self.folder, "rules.yaml")
        with open(rules, "w", encoding="utf-8") as output:
            output.write(re.sub(r"interval: \d+s", "interval: 1s", read("prometheus/softmax.rules.yaml")))
        static = [{"targets": [target], "labels": {"namespace": "test", "pod": pod}} for target, pod in targets.items()]
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{"job_name": "softmax-server", "static_configs": static}]}
        path = os.path.join(self.folder, "prometheus.yaml")
        with open(path, "w", encoding="utf-8") as output:
            json.dump(configuration, output)  # JSON is YAML
        self.url = f"http://127.0.0.1:{free_port()}"
        prometheus = self._start([tool("prometheus"), "--config.file", path, "--storage.tsdb.path",
                                  os.path.join(self.folder, "tsdb"), "--web.listen-address", self.url[7:]],
                                 "prometheus.log", cwd=DEPLOY)

        def ready():
            if prometheus.poll() is not None:
                raise AssertionError(self._log("prometheus.log"))
            return self._get("/-/ready") is not None
        wait_until("Prometheus is not ready", ready)

    def _get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            return error.read() if error.code in (400, 422) else None
        except OSError:
            return None

    def query(self, expression):
        """The values of an instant query; raises ValueError for one that Prometheus refuses."""
        answer = json.loads(self._get("/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
        if answer["status"] != "success":
            raise ValueError(answer["error"])
        return [sample["value"][1] for sample in answer["data"]["result"]]

    def has_data(self, expression):
        return any(value != "NaN" for value in self.query(expression))

    def rules(self):
        groups = json.loads(self._get("/api/v1/rules"))["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def terminate_server(self):
        self.server.send_signal(signal.SIGTERM)

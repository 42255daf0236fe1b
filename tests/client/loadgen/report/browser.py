"""A headless Chromium driven over the WebDriver protocol, with nothing but Python's own library."""
import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
         "--hide-scrollbars", "--lang=en-US")
TIMEOUT_S = 60
# Of chromedriver: the free port that it takes is one of IPv6, and it ends where another program has that port of IPv4.
STARTS = 5


def missing():
    """The programs that are not installed."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


def arguments(doc, *options):
    """Of a program of tests with these options and --out, whose folder it makes; what unittest.main takes is in
    `rest`. Ends the program as a skipped one where there is no browser."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--out", *options):
        parser.add_argument(option, required=True)
    parsed, rest = parser.parse_known_args()
    if missing():
        print(f"SKIPPED: {' and '.join(missing())} not installed; the report was not looked at in a browser")
        sys.exit(77)
    parsed.out = os.path.abspath(parsed.out)
    os.makedirs(parsed.out, exist_ok=True)
    parsed.rest = [sys.argv[0], *rest]
    return parsed


class Browser:
    """One window. Ends its processes when left; used as a context manager."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(prefix="softmax_browser_", ignore_cleanup_errors=True)
        self._driver = None
        self._session = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        self._root = f"http://127.0.0.1:{self._start_driver()}/session"
        options = {"args": [*FLAGS, f"--user-data-dir={self._profile.name}"], "binary": shutil.which("chromium")}
        started = self._call("POST", "", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self._session = started["sessionId"]

    def _start_driver(self):
        """The port it listens on."""
        said = []
        for _ in range(STARTS):
            self._driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
            for line in self._driver.stdout:
                port = re.search(r"started successfully on port (\d+)", line)
                if port:
                    return port.group(1)
                said.append(line)
            self._end_driver()
        raise RuntimeError(f"chromedriver did not start, {STARTS} times: {''.join(said)[-1000:]}")

    def _end_driver(self):
        if self._driver:
            self._driver.terminate()
            self._driver.wait(timeout=TIMEOUT_S)
            self._driver.stdout.close()
            self._driver = None

    def __exit__(self, *_):
        try:
            if self._session:
                self._call("DELETE", f"/{self._session}")
        finally:
            self._end_driver()
            self._profile.cleanup()

    def _call(self, method, path, body=None):
        # Straight to the loopback: a proxy of the environment has no part in this.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(self._root + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()[:500]}") from error

    def _post(self, path, body):
        return self._call("POST", f"/{self._session}{path}", body)

    def open(self, path):
        self._post("/url", {"url": f"file://{path}"})

    def run(self, script, *arguments):
        """The value that the script returns."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def frames(self):
        """Waits until what was put off to the next frames has been drawn."""
        self._post("/execute/async", {"script": "const done = arguments[0];"
                                      "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));",
                                      "args": []})

    def devtools(self, command, **parameters):
        return self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height, phone=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=phone)
        self.frames()

    def prefer(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def point_at(self, x, y):
        """Moves the pointer there, in CSS pixels of the window."""
        self._post("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [
            {"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y)}]}]})

    def press(self, key):
        self._post("/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def screenshot(self, path, clip=None):
        """The whole page, or {x, y, width, height} of it, as a PNG."""
        box = clip or self.run("const d = document.documentElement;"
                               "return {x: 0, y: 0, width: d.clientWidth, height: d.scrollHeight};")
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip={**box, "scale": 1})
        with open(path, "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def pdf(self):
        return base64.b64decode(self.devtools("Page.printToPDF", printBackground=False)["data"])

    def log(self):
        """What the console was told since the last call."""
        return [entry["message"] for entry in self._post("/se/log", {"type": "browser"})]

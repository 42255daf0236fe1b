#!/usr/bin/env python3
"""The unit for systemd: what it may use, when it is started again, how it is reloaded and stopped.

    unit_test.py SOFTMAX_SERVER [unittest arguments]
"""
import os
import re
import sys
import tempfile
import unittest

from deploy_files import DEPLOY, need, read, run, seconds
import memory
import parts

SERVER = sys.argv.pop(1) if len(sys.argv) > 1 else None
UNIT = "debian/softmax-server.service"
# Between the end of a drain and SIGKILL.
STOP_MARGIN_S = 10


def settings():
    """{section: {key: [values]}}"""
    found, section = {}, None
    for line in read(UNIT).splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, value = line.split("=", 1)
            section.setdefault(key, []).append(value)
    return found


class UnitTest(unittest.TestCase):
    def setUp(self):
        self.unit = settings()
        self.service = self.unit["Service"]

    def test_systemd_understands_every_line(self):
        systemd_analyze = need("systemd-analyze")
        # The program that was built, in the place of the installed one; the manual is not installed here, either.
        text = read(UNIT).replace("/usr/bin/softmax-server", os.path.abspath(SERVER))
        text = re.sub("(?m)^Documentation=.*\n", "", text)
        with tempfile.TemporaryDirectory() as folder:
            for wrong in ("", "ExecReload=/no/such/program\nRestratSec=1s\n"):
                path = os.path.join(folder, "softmax-server.service")
                with open(path, "w", encoding="utf-8") as unit:
                    unit.write(text.replace("[Service]\n", "[Service]\n" + wrong))
                told = run(systemd_analyze, "verify", path)
                found = [line for line in (told.stdout + told.stderr).splitlines() if "softmax-server.service" in line]
                self.assertEqual(bool(found), bool(wrong), found)

    def test_it_is_started_again_for_as_long_as_it_takes(self):
        self.assertEqual(self.service["Restart"], ["on-failure"])
        self.assertEqual(self.unit["Unit"]["StartLimitIntervalSec"], ["0"], "or systemd gives up after 5 starts")
        self.assertGreaterEqual(seconds(self.service["RestartSec"][0]), 1)
        self.assertEqual(self.service["RestartPreventExitStatus"], ["2"])

    def test_reload_is_the_signal_that_the_server_takes(self):
        self.assertEqual(self.service["ExecReload"], ["/bin/kill -HUP $MAINPID"])

    def test_it_may_use_every_device_of_a_gpu_and_of_its_slices(self):
        self.assertEqual(self.service["DevicePolicy"], ["closed"])
        self.assertEqual(set(self.service["DeviceAllow"]),
                         {f"char-{name} rw" for name in ("nvidia", "nvidia-frontend", "nvidia-uvm", "nvidia-caps")})

    def test_a_drain_has_its_time(self):
        server = memory.settings_of({"SOFTMAX_CONFIG": os.path.join(DEPLOY, "debian/softmax-server.toml")}, SERVER)
        drain = seconds(server["drain-delay"]) + seconds(server["drain-timeout"])
        self.assertGreaterEqual(seconds(self.service["TimeoutStopSec"][0]), drain + STOP_MARGIN_S)


if __name__ == "__main__":
    if SERVER is None:
        sys.exit(__doc__)
    parts.main()

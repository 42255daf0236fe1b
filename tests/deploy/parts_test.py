#!/usr/bin/env python3
"""What parts.py says of tests that ran and of those that could not."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = f"""
import sys
sys.path.insert(0, {HERE!r})
import unittest
import parts
"""


def said(body):
    """Exit code and last line of a program of such tests."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
        program.write(HEAD + textwrap.dedent(body) + "\nparts.main()\n")
        program.flush()
        ran = subprocess.run([sys.executable, "-B", program.name], capture_output=True, text=True, timeout=60,
                             check=False)
    return ran.returncode, ran.stderr.splitlines()[-1]


class PartsTest(unittest.TestCase):
    def test_what_could_not_run_is_named_and_the_rest_counted(self):
        self.assertEqual(said("""
            class A(unittest.TestCase):
                def test_here(self): pass
                def test_there(self): parts.need("no-such-tool")
                def test_nowhere(self): parts.need("no-such-tool")
            """), (0, "1 parts ran; not run: no-such-tool (not installed): test_nowhere, test_there"))

    def test_a_part_whose_subtests_could_not_run_is_one(self):
        self.assertEqual(said("""
            class A(unittest.TestCase):
                def test_here(self): pass
                def test_there(self):
                    for i in range(3):
                        with self.subTest(i): parts.need("no-such-tool")
            """), (0, "1 parts ran; not run: no-such-tool (not installed): test_there"))

    def test_all_ran(self):
        self.assertEqual(said("class A(unittest.TestCase):\n    def test_here(self): pass"), (0, "1 parts ran"))

    def test_nothing_ran(self):
        self.assertEqual(said("""
            class A(unittest.TestCase):
                @classmethod
                def setUpClass(cls): parts.need("no-such-tool")
                def test_here(self): pass
            """), (0, "0 parts ran; not run: no-such-tool (not installed): A"))

    def test_a_failure_is_one(self):
        self.assertEqual(said("""
            class A(unittest.TestCase):
                def test_here(self): self.fail()
                def test_there(self): parts.need("no-such-tool")
            """), (1, "1 parts ran; not run: no-such-tool (not installed): test_there"))


if __name__ == "__main__":
    unittest.main()

"""Runs a program's tests one by one and says what did not run. A part that needs a tool which is missing here does not
make the rest look as if it had not run either: the last line is

    17 parts ran; not run: kubectl 1.21 or newer (not installed): test_a, test_b

and ctest takes a program for skipped only when it begins with "0 parts ran" (CMakeLists.txt).
"""
import os
import shutil
import sys
import unittest

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/tools")


def tool(name):
    """The path of a program that scripts/setup.sh fetched or that is installed, or None."""
    return shutil.which(name, path=os.path.join(TOOLS, "bin") + os.pathsep + os.environ["PATH"])


def need(name):
    """The path of a program; without it the part that asks does not run."""
    found = tool(name)
    if found is None:
        raise unittest.SkipTest(f"{name} (not installed)")
    return found


class PartsResult(unittest.TextTestResult):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.left_out = {}  # by what is missing: the names of the parts, or of a whole class
        self.began = set()  # parts that were left out after unittest had counted them as run

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        test = getattr(test, "test_case", test)  # of a subtest: the part that it belongs to
        self.left_out.setdefault(reason, set()).add(test.id().rstrip(")").split(".")[-1])
        if isinstance(test, unittest.TestCase):
            self.began.add(test.id())

    def summary(self):
        ran = f"{self.testsRun - len(self.began)} parts ran"
        missing = "; ".join(f"{reason}: {', '.join(sorted(names))}" for reason, names in self.left_out.items())
        return f"{ran}; not run: {missing}" if missing else ran


def main():
    """As unittest.main(), with the line above as the last one."""
    program = unittest.main(module="__main__", exit=False, verbosity=2,
                            testRunner=unittest.TextTestRunner(resultclass=PartsResult, verbosity=2))
    print(program.result.summary(), file=sys.stderr)
    sys.exit(0 if program.result.wasSuccessful() else 1)

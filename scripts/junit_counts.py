#!/usr/bin/env python3
"""Prints `passed failed skipped` of a JUnit file that ctest wrote."""
import sys
import xml.etree.ElementTree as ElementTree


def counts(path):
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        if status == "run":
            passed += 1
        elif status in ("notrun", "disabled"):
            # ctest says `notrun` both for a test that skipped itself and for one whose program is missing.
            told = case.find("skipped")
            message = told.get("message", "") if told is not None else ""
            if message.startswith("SKIP_") or status == "disabled":
                skipped += 1
            else:
                failed += 1
        else:
            failed += 1
    return passed, failed, skipped


if __name__ == "__main__":
    print(*counts(sys.argv[1]))

#!/usr/bin/env python3
"""Checks of the source tree that no compiler makes.

Includes run one way only:

    client -> proto <- server/rpc -> server/batching <- server/execution -> kernels      (metrics, base: leaves)

and a library may be named only where its layer allows it: batching without gRPC, locks of abseil, prometheus or CUDA
is what makes ThreadSanitizer's word on it worth something. Besides: sizes of files and lines, words that may not stand
in the tree, two types of one name, names that the documentation mentions, whether the tables of docs/reference.md are
whole, and links, widths and lengths of pages.

    layers_test.py --root DIR                          the tree in DIR
    layers_test.py --self-test                         each rule is shown a tree that breaks it
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import doc_rules  # noqa: E402
import floor_rules  # noqa: E402
import layer_rules  # noqa: E402
import page_rules  # noqa: E402
import self_test  # noqa: E402
import text_rules  # noqa: E402
import type_rules  # noqa: E402
from tree import read_tree  # noqa: E402


def check(root):
    files = read_tree(root)
    rules = (layer_rules, floor_rules, text_rules, type_rules, doc_rules, page_rules)
    return [problem for rule in rules for problem in rule.check(files)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if not arguments.root and not arguments.self_test:
        parser.error("nothing to check: give --root DIR or --self-test")
    problems = []
    if arguments.self_test:
        problems += self_test.run(check)
    if arguments.root:
        problems += check(arguments.root)
    for problem in problems:
        print(problem)
    if not problems:
        print("style: nothing found")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

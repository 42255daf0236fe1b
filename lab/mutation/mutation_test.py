#!/usr/bin/env python3
"""The operators find what they are for, leave alone what is no code, and make choices that compile and choose."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import mutate
import operators

SOURCE = """#include <array>
#include <cstdio>
constexpr int kLimit = 3;
int Sum(int a, int b) {
  return a - b; /* a < b */
}
int main() {
  int sum = 0;
  if (sum > kLimit ||
      Sum(sum, sum + 4) < 0) {
    sum = Sum(7, sum);
  }
  std::printf("%d", sum);
  const std::array<int, 8> text = {};
  return (sum & 1) + static_cast<int>(text.size());
}
"""


def changes(line):
    return {after for _, _, _, after, _ in operators.of_text(line)}


class Operators(unittest.TestCase):
    def test_comparisons_are_turned_and_shifted(self):
        self.assertEqual(changes("  const bool full = used >= limit;"),
                         {"const bool full = used < limit;", "const bool full = used > limit;"})
        self.assertEqual(changes("  return a == b;"), {"return a != b;"})

    def test_conditions_are_negated(self):
        self.assertIn("if (!(queue.empty())) return false;", changes("  if (queue.empty()) return false;"))
        self.assertIn("return a || b;", changes("  return a && b;"))

    def test_statements_are_removed(self):
        for line in ("  counter_.Add(bytes);", "  used_ -= bytes;", "  ++count_;"):
            self.assertEqual(changes(line), {";"})

    def test_declarations_stay(self):
        for line in ("  const auto found = map.find(key);", "  Share* share;", "  std::string text(bytes);",
                     "  return Find(key);", "#include <vector>", "// a comparison: a == b",
                     "  void Add(Request* request);"):
            self.assertNotIn(";", changes(line), line)

    def test_arguments_are_swapped_and_constants_moved(self):
        self.assertIn("Copy(to, from);", changes("  Copy(from, to);"))
        self.assertEqual(changes("  return 4 * rows;"), {"return 5 * rows;", "return 3 * rows;"})

    def test_text_is_no_code(self):
        self.assertEqual(changes('  return "a == b, 3";'), set())
        self.assertEqual(changes("  return 'x';  // 5 < 6"), set())
        self.assertEqual(changes("  return Bits() * 0x1p-53;"), set())
        self.assertEqual(changes("  if constexpr (kWide) Add(a, b);"), set())
        self.assertEqual(changes("  /* 5 < 6\n 7 < 8 */"), set())


class Choices(unittest.TestCase):
    def test_each_is_what_the_changed_line_says(self):
        """Every change as a choice of one program prints what the program with that line changed prints."""
        found = list(operators.of_text(SOURCE))
        mutants = [dict(file="a.cc", compiles=True, pieces=pieces, first=line, lines=0)
                   for line, _, _, _, pieces in found]
        with tempfile.TemporaryDirectory() as folder:
            while True:
                text, crossing = operators.apply(SOURCE, [(number, mutant["pieces"]) for number, mutant in
                                                          enumerate(mutants) if mutant["compiles"]])
                self.assertEqual(crossing, set())
                status, output = self.compiled(folder, mutate.INCLUDE + text)
                if status == 0:
                    break
                self.assertTrue(mutate.drop_broken(mutants, output, pathlib.Path(folder), pathlib.Path(folder)), output)
            chosen = {number: self.said(folder, MUTANT=str(number)) for number in range(len(found))}
            self.assertEqual(self.said(folder), "7 9")
            for number, (line, _, _, after, _) in enumerate(found):
                if mutants[number]["compiles"] and not after.startswith("if (!sum > "):  # which names two lines of it
                    lines = SOURCE.splitlines()
                    lines[line - 1] = after
                    self.assertEqual(self.compiled(folder, "\n".join(lines) + "\n")[0], 0)
                    self.assertEqual(chosen[number], self.said(folder), f"{line}: {after}")
            dropped = {found[number][0] for number, mutant in enumerate(mutants) if not mutant["compiles"]}
            self.assertEqual(dropped, {14, 15}, "the length of an array, and what hangs on it")

    def compiled(self, folder, text):
        pathlib.Path(folder, "a.cc").write_text(text)
        command = ["g++", "-std=c++20", "-w", "a.cc", "-o", "a"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        return done.returncode, done.stderr

    def said(self, folder, **variables):
        done = subprocess.run(["./a"], env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True)
        return f"{done.stdout} {done.returncode}"


class Copy(unittest.TestCase):
    def test_what_the_checkout_no_longer_has_goes(self):
        with tempfile.TemporaryDirectory() as folder:
            tree, before = pathlib.Path(folder), mutate.TREE
            for file in ("server/gone.cc", "build/dev/kept.o"):
                (tree / file).parent.mkdir(parents=True)
                (tree / file).touch()
            mutate.TREE = tree
            self.addCleanup(setattr, mutate, "TREE", before)
            mutate.copy_tree([])
            self.assertFalse((tree / "server/gone.cc").exists())
            self.assertTrue((tree / "build/dev/kept.o").exists())
            self.assertTrue((tree / "lab/mutation/mutate.py").exists())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The operators find what they are for, and leave alone what is no code."""
import unittest

import operators


def changes(line):
    return {changed.strip() for _, changed in operators.of_line(line)}


class Operators(unittest.TestCase):
    def test_comparisons_are_turned_and_shifted(self):
        self.assertEqual(changes("  const bool full = used >= limit;"),
                         {"const bool full = used < limit;", "const bool full = used > limit;"})
        self.assertEqual(changes("  return a == b;"), {"return a != b;"})

    def test_conditions_are_negated(self):
        self.assertIn("if (!(queue.empty())) return false;", changes("  if (queue.empty()) return false;"))
        self.assertIn("return a || b;", changes("  return a && b;"))

    def test_statements_are_removed(self):
        self.assertEqual(changes("  counter_.Add(bytes);"), {";"})
        self.assertEqual(changes("  used_ -= bytes;"), {";"})
        self.assertEqual(changes("  ++count_;"), {";"})

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


if __name__ == "__main__":
    unittest.main()

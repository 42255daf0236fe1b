#!/usr/bin/env python3
"""Writes components/monitoring/prometheus_rule.yaml from deploy/prometheus/softmax.rules.yaml; `--check` compares."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "../prometheus/softmax.rules.yaml")
OUTPUT = os.path.join(HERE, "components/monitoring/prometheus_rule.yaml")
HEAD = """# Made by prometheus_rule.py from deploy/prometheus/softmax.rules.yaml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: softmax-server
spec:
"""


def made():
    with open(SOURCE, encoding="utf-8") as source:
        lines = source.read().split("\n")
    rules = lines[lines.index("groups:"):]
    return HEAD + "\n".join("  " + line if line else line for line in rules)


def main():
    if sys.argv[1:] == ["--check"]:
        with open(OUTPUT, encoding="utf-8") as current:
            if current.read() == made():
                return 0
        print(f"{OUTPUT} is not what the rules make: run prometheus_rule.py")
        return 1
    with open(OUTPUT, "w", encoding="utf-8") as output:
        output.write(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())

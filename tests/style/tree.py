"""Reads a source tree into {relative path: text}."""
import os

SKIPPED_FOLDERS = {".git", "build", "out", "node_modules", "__pycache__", ".cache", ".library"}
TEXT_ENDINGS = (".c", ".h", ".cc", ".cu", ".cuh", ".go", ".proto", ".py", ".sh", ".cmake", ".txt", ".md", ".json",
                ".yaml", ".yml", ".html", ".css", ".js", ".pyi", ".service", ".toml")
TEXT_NAMES = {"Dockerfile", ".dockerignore", ".gitignore", ".clang-format", ".clang-tidy", "run"}


def read_tree(root):
    files = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
        for name in sorted(names):
            if name.endswith(TEXT_ENDINGS) or name in TEXT_NAMES:
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as opened:
                    files[os.path.relpath(path, root)] = opened.read()
    return files


def is_code(path):
    return path.endswith((".h", ".cc", ".cu", ".cuh"))

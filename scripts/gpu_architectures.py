#!/usr/bin/env python3
"""Which GPU architectures a program has machine code for, read from its fat binaries.

    gpu_architectures.py PROGRAM                   prints them, such as "75 80 90", and PTX as "ptx90"
    gpu_architectures.py PROGRAM --require 75-real 90   exit code 1 when code for one of these is missing

What has no machine code is compiled from PTX when the server starts on that GPU, which takes minutes instead of
seconds. cuobjdump --list-elf says the same but is not everywhere. Every kernel file makes one fat binary, and each must
have them.
"""
import argparse
import struct
import sys

MAGIC = 0xBA55ED50
FAT_HEADER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of what follows
ENTRY = struct.Struct("<HHIQIIHHI")  # kind, -, size of this header, size of the code, -, -, minor, major, architecture
KIND_PTX, KIND_ELF = 1, 2


def fat_binaries(data):
    """For each fat binary in `data`, the architectures in it: integers for machine code, "ptxN" for PTX."""
    found, at = [], data.find(struct.pack("<I", MAGIC))
    while at >= 0:
        _, version, header_size, size = FAT_HEADER.unpack_from(data, at)
        end = at + header_size + size
        # The magic number may also stand in code; a header has one known version and fits into the file.
        if version == 1 and header_size == FAT_HEADER.size and size > 0 and end <= len(data):
            found.append(entries(data, at + header_size, end))
            at = data.find(struct.pack("<I", MAGIC), end)
        else:
            at = data.find(struct.pack("<I", MAGIC), at + 1)
    return found


def entries(data, at, end):
    architectures = set()
    while at + ENTRY.size <= end:
        kind, _, header_size, size, _, _, _, _, architecture = ENTRY.unpack_from(data, at)
        if kind not in (KIND_PTX, KIND_ELF) or header_size < ENTRY.size:
            break
        architectures.add(architecture if kind == KIND_ELF else f"ptx{architecture}")
        at += header_size + size
    return architectures


def number(text):
    """Of an architecture as CMake writes it: 90, or 90-real where there is to be no PTX."""
    return int(text.removesuffix("-real"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--require", nargs="+", type=number, default=[])
    arguments = parser.parse_args()
    with open(arguments.program, "rb") as program:
        # Empty ones come from CUDA's own device library.
        binaries = [found for found in fat_binaries(program.read()) if found]
    if not binaries:
        print(f"{arguments.program}: has no GPU code", file=sys.stderr)
        return 1
    everywhere = set.intersection(*binaries)
    print(" ".join(str(name) for name in sorted(everywhere, key=str)))
    missing = [wanted for wanted in arguments.require if wanted not in everywhere]
    for wanted in missing:
        print(f"{arguments.program}: lacks machine code for sm_{wanted} in {sum(wanted not in b for b in binaries)} of "
              f"{len(binaries)} fat binaries", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

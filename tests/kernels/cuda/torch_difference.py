#!/usr/bin/env python3
"""torch_difference.py PROGRAM: the largest difference of softmax_of_file from torch.softmax over 1823 x 781 normal fp32
values, seed 0. Exit codes: 0 within 6e-8 and torch's own tolerance; 1 not; 77 no torch with a GPU here."""
import os
import subprocess
import sys
import tempfile

ROWS, COLS, LIMIT = 1823, 781, 6e-8


def main():
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("torch_difference.py: skipped, no torch with a GPU")
        return 77
    torch.manual_seed(0)
    x = torch.randn(ROWS, COLS, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "x"), os.path.join(folder, "y")
        with open(source, "wb") as file:
            file.write(bytes(x.cpu().contiguous().untyped_storage()))
        subprocess.run([sys.argv[1], str(ROWS), str(COLS), source, target], check=True, timeout=60)
        with open(target, "rb") as file:
            data = bytearray(file.read())
    y = torch.frombuffer(data, dtype=torch.float32).reshape(ROWS, COLS).cuda()
    expected = torch.softmax(x, 1)
    difference = (y - expected).abs().max().item()
    print(f"{ROWS} x {COLS}: largest difference from torch.softmax {difference:.3g}, limit {LIMIT:.0e}")
    return 0 if difference <= LIMIT and torch.allclose(y, expected) else 1


if __name__ == "__main__":
    sys.exit(main())

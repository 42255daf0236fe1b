#!/usr/bin/env python3
"""Logits and probabilities on the GPU, shared with a server that runs on it: no tensor is copied.

torch writes the logits where the server reads them, and reads the probabilities where it wrote them. The server needs
--regions-socket and --regions-device-bytes.
"""
import sys

import softmax_client
import torch


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
    with softmax_client.Client(target) as client:
        shape = (64, 128256)
        logits = torch.from_dlpack(client.allocate(shape, "bfloat16", memory="device"))
        probabilities = torch.from_dlpack(client.allocate(shape, "bfloat16", memory="device"))
        hidden = torch.randn(64, 4096, dtype=torch.bfloat16, device=logits.device)
        head = torch.randn(4096, shape[1], dtype=torch.bfloat16, device=logits.device) / 64
        for _ in range(10):
            torch.matmul(hidden, head, out=logits)
            client.softmax(logits, out=probabilities)  # waits for torch's stream, then for the server
            print(probabilities.float().sum(-1).mean().item())


if __name__ == "__main__":
    main()

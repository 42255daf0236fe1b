"""A classifier's logits become probabilities: the five best labels of each image, and how long calls take, as a plot.

    python3 client/examples/python/classify.py [host:port] [plot.png]

Needs softmax_client, numpy and matplotlib. Cells are marked as notebooks read them (# %%).
"""
# %% Images of shapes, with noise, and a classifier: how well each shape's template fits, in standard deviations.
import sys
import time

import matplotlib
import numpy as np

import softmax_client

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

SIZE = 32
y, x = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j]
radius = np.hypot(x, y)
TEMPLATES = {
    "disc": radius < 0.6, "ring": abs(radius - 0.6) < 0.15, "square": np.maximum(abs(x), abs(y)) < 0.55,
    "diamond": abs(x) + abs(y) < 0.7, "cross": np.minimum(abs(x), abs(y)) < 0.15, "saltire": abs(abs(x) - abs(y)) < 0.2,
    "bar": abs(y) < 0.25, "pole": abs(x) < 0.25, "wedge": (y > -0.6) & (abs(x) < (0.6 - y) / 2),
    "stripes": (np.floor(x * 4) % 2) == 0}
LABELS = list(TEMPLATES)
WEIGHTS = np.array([(t - t.mean()) / t.std() for t in TEMPLATES.values()], np.float32).reshape(len(LABELS), -1)


def draw(label, random, noise=2.5):
    """A picture of that shape."""
    return (TEMPLATES[label] + noise * random.standard_normal((SIZE, SIZE))).astype(np.float32)


def logits_of(images):
    """Shape [images, labels]."""
    pixels = images.reshape(len(images), -1)
    return pixels @ WEIGHTS.T / (SIZE * pixels.std(axis=1, keepdims=True))


# %% Probabilities from the server; a scale below 1 makes the classifier less sure of itself.
def main(address="localhost:50051", file="classify.png"):
    random = np.random.default_rng(5)
    truth = [LABELS[i] for i in random.permutation(len(LABELS))[:4]]
    images = np.stack([draw(label, random) for label in truth])
    logits = logits_of(images)
    with softmax_client.Client(address) as client:
        probabilities = client.softmax(logits, scale=0.5)
        seconds = []
        for _ in range(2000):
            start = time.perf_counter()
            client.softmax(logits)
            seconds.append(time.perf_counter() - start)
    best = np.argsort(-probabilities, axis=1)[:, :5]
    for label, row, order in zip(truth, probabilities, best):
        print(f"{label}:", ", ".join(f"{LABELS[i]} {row[i]:.1%}" for i in order))

    # %% Each image beside its five best labels, and the latencies below.
    figure, axes = plt.subplots(3, 4, figsize=(11, 8), gridspec_kw={"height_ratios": [2, 2, 2.5]})
    for column, (image, row, order) in enumerate(zip(images, probabilities, best)):
        axes[0, column].imshow(image, cmap="gray")
        axes[0, column].set_title(truth[column])
        axes[0, column].axis("off")
        axes[1, column].barh([LABELS[i] for i in order[::-1]], row[order[::-1]])
        axes[1, column].set_xlim(0, 1)
    for axis in axes[2]:
        axis.remove()
    below = figure.add_subplot(3, 1, 3)
    microseconds = np.array(seconds) * 1e6
    below.hist(microseconds, bins=np.geomspace(microseconds.min(), microseconds.max(), 60))
    below.set_xscale("log")
    middle, late = np.percentile(microseconds, [50, 99])
    below.set_xlabel(f"microseconds a call, of {len(seconds)}; p50 {middle:.0f}, p99 {late:.0f}")
    figure.tight_layout()
    figure.savefig(file)


if __name__ == "__main__":
    main(*sys.argv[1:])

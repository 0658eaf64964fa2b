"""How often fresh in-domain images are flagged, beside the share that was asked for.

    alarms.py ATTACH DATA MODELS [SEEDS]

ATTACH is the command. For every network a detector is fitted on at most 4 000 images
that the network was trained on. Without --cal, a fifth of them is split off to calibrate
on, and all test images are fresh. With --cal, half of the test images calibrate and the
others are fresh: `attach predict` says which of the first half drawn are flagged, and
the other SEEDS - 1 halves are counted from the scores of the same fit. Prints a Markdown
table, and what `attach fit` said on stderr.

Run with Python 3.11 and NumPy 2.4.6.
"""
import subprocess
import sys
import tempfile

import numpy as np

ALPHAS = (.01, .05, .1)
FIVE = (4, 1, 7, 5, 3)
NETWORKS = {
    "cifar10_resnet56": ("cifar10", "cifar10_resnet", None),
    "cifar10_preact18": ("cifar10", "five_class_rgb", FIVE),
    "cifar10_vgg11w32": ("cifar10", "five_class_rgb", FIVE),
    "fashion_preact18w32": ("fashion", "five_class_gray", FIVE),
    "fashion_vgg11w32": ("fashion", "five_class_gray", FIVE),
    "mnist_preact18": ("mnist", "five_class_gray", FIVE),
    "mnist_vgg11w32": ("mnist", "five_class_gray", FIVE),
}


def read(path, classes, most=None):
    z = np.load(path)
    images, labels = z["images"], z["labels"].astype(np.int64)
    if classes is not None:
        number = np.full(10, -1)
        number[list(classes)] = range(len(classes))
        labels = number[labels]
    keep = np.flatnonzero(labels >= 0)[:most]
    return images[keep], labels[keep]


def call(*args):
    done = subprocess.run([command, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    print("  " + done.stderr.strip().replace("\n", "\n  "), file=sys.stderr, flush=True)


def said(bundle, rows, folder):
    call("predict", bundle, "--x", rows, "-o", f"{folder}/p.npz")
    p = np.load(f"{folder}/p.npz")
    return p["class"], p["ood_score"], p["p_value"]


def rates(p):
    return [(p <= a + 1e-9).mean() for a in ALPHAS]


def shown(values):
    return " | ".join(f"{v:.3f}" for v in values)


command, data, models = sys.argv[1:4]
seeds = int(sys.argv[4]) if len(sys.argv) > 4 else 20
print("| | right on rows fitted on, fresh | without `--cal`: " + " | ".join(f"{a:g}" for a in ALPHAS)
      + " | with `--cal`: " + " | ".join(f"{a:g}" for a in ALPHAS) + f" | least and most of {seeds} halves at .05 |")
print("|" + "---|" * (3 + 2 * len(ALPHAS)))
for name, (which, preprocess, classes) in NETWORKS.items():
    with tempfile.TemporaryDirectory() as folder:
        parts = {"fit": read(f"{data}/{which}_train.npz", classes, 4000), "test": read(f"{data}/{which}_test.npz", classes)}
        images, labels = parts["test"]
        halves = []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(labels))
            halves.append((order[:len(order) // 2], order[len(order) // 2:]))
        parts["cal"] = images[halves[0][0]], labels[halves[0][0]]
        for part, (i, l) in parts.items():
            np.savez(f"{folder}/{part}.npz", images=i, labels=l)
        how = ["--preprocess", f"{models}/{preprocess}.preprocess.json"]
        print(name, file=sys.stderr)
        call("fit", f"{models}/{name}.onnx", "--x", f"{folder}/fit.npz", *how, "-o", f"{folder}/split.attach")
        call("fit", f"{models}/{name}.onnx", "--x", f"{folder}/fit.npz", "--cal", f"{folder}/cal.npz", *how, "-o", f"{folder}/cal.attach")
        known = (said(f"{folder}/split.attach", f"{folder}/fit.npz", folder)[0] == parts["fit"][1]).mean()
        answer, _, p = said(f"{folder}/split.attach", f"{folder}/test.npz", folder)
        without = rates(p)
        _, scores, p = said(f"{folder}/cal.attach", f"{folder}/test.npz", folder)
        each = []
        for cal, fresh in halves:
            ranks = len(cal) - np.searchsorted(np.sort(scores[cal]), scores[fresh])
            each.append(rates((ranks + 1) / (len(cal) + 1)))
        assert each[0] == rates(p[halves[0][1]]), (each[0], rates(p[halves[0][1]]))
        middle = np.array(each)[:, ALPHAS.index(.05)]
        print(f"| {name} | {known:.3f}, {(answer == labels).mean():.3f} | {shown(without)} | {shown(np.mean(each, 0))} | {middle.min():.3f}–{middle.max():.3f} |", flush=True)

"""Outliers that attach, PyOD and nonconform find with the same rows of the same models.

    pip install nonconform==2.0.0 pyod==3.6.7
    python3.12 peers.py ATTACH DATA MODELS [DRAWS]

ATTACH is the command. Detectors are fitted on the first 4,000 training images: attach's
default, and two of PyOD on the features that enter the last layer. In each of 50 draws,
5,000 calibration images and 2,000 audited images are drawn from the test images. A part of the
audited ones are outliers: Fashion-MNIST among MNIST, and CIFAR-100, MNIST and Fashion-MNIST in
equal parts among CIFAR-10.

For each detector, the table shows the fraction of false discoveries and the fraction of
outliers found:

    attach       attach's scores, its conformal p-values, and the method of Benjamini and
                 Hochberg at 0.1
    nonconform   PyOD's or attach's scores, nonconform's p-values and its selection at 0.1
    threshold    PyOD's own threshold, with its parameter contamination at its default of 0.1,
                 and at the true fraction of outliers, which is not known in practice
"""
import csv
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from nonconform import ConformalDetector, Split
from pyod.models.ecod import ECOD
from pyod.models.knn import KNN

logging.getLogger("nonconform").setLevel(logging.ERROR)  # it warns of selections without discoveries
FDR, CALIBRATION, AUDITED, FRACTIONS = 0.1, 5000, 2000, (0.01, 0.05, 0.1)
SETS = {"MNIST": ("mnist_cnn", "mnist_cnn", "mnist", "fashion"), "CIFAR-10": ("cifar10_resnet20", "cifar10_resnet", "cifar10", "cifar100", "mnist", "fashion")}
DETECTORS = {"KNN": KNN, "ECOD": ECOD}


class Known:
    """A detector whose rows are the numbers of rows with known scores."""

    def __init__(self, scores):
        self.scores = scores

    def fit(self, x, y=None):
        return self

    def decision_function(self, x):
        return self.scores[np.asarray(x)[:, 0].astype(int)]

    def get_params(self, deep=True):
        return {"scores": self.scores}

    def set_params(self, **parameters):
        return self


def discoveries(p):
    """Returns the rows that Benjamini and Hochberg's method finds."""
    sorted_p = np.sort(p)
    passed = np.flatnonzero(sorted_p * len(p) <= FDR * np.arange(1, len(p) + 1) * (1 + 1e-12))
    return p <= sorted_p[passed[-1]] if len(passed) else np.zeros(len(p), bool)


def own(scores, calibration, audited):
    ordered = np.sort(scores[calibration])
    above = len(ordered) - np.searchsorted(ordered, scores[audited], side="left")
    return discoveries((1 + above) / (1 + len(ordered)))


def nonconform(scores, calibration, audited):
    detector = ConformalDetector(Known(scores), Split(n_calib=CALIBRATION), score_polarity="higher_is_anomalous", seed=0)
    detector.calibrate(calibration[:, None].astype(float))
    return np.asarray(detector.select(audited[:, None].astype(float), alpha=FDR))


def command(*arguments):
    subprocess.run([sys.argv[1], *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def like(first, images):
    """Returns grey images of 28×28 in the middle of black ones, with three colours, if the first ones have these."""
    if images.shape[1:] == first.shape[1:]:
        return images
    return np.repeat(np.pad(images, ((0, 0), (2, 2), (2, 2)))[..., None], 3, axis=3)


def read(data, models, name):
    """Returns attach's scores, features of the fit rows, and features of the test rows and outliers."""
    model, preprocess, inside, *outside = SETS[name]
    preprocess, model = models / f"{preprocess}.preprocess.json", models / f"{model}.onnx"
    features, scores = [], []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        images = [np.load(data / f"{file}_test.npz")["images"][: 2000 // len(outside)] for file in outside]
        np.savez(folder / "out.npz", images=np.concatenate([like(images[0], i) for i in images]))
        command("fit", model, "--x", data / f"{inside}_train.npz", "--rows", ":4000", "--cal", data / f"{inside}_test.npz", "--preprocess", preprocess, "-o", folder / "m.attach")
        for rows, file in ((":4000", data / f"{inside}_train.npz"), (":", data / f"{inside}_test.npz"), (":", folder / "out.npz")):
            command("features", model, "--x", file, "--rows", rows, "--preprocess", preprocess, "-o", folder / "f.npz")
            features.append(np.load(folder / "f.npz")["features"])
            if rows != ":4000":
                command("predict", folder / "m.attach", "--x", file, "--rows", rows, "-o", folder / "s.csv")
                with open(folder / "s.csv") as f:
                    scores += [float(line["ood_score"]) for line in csv.DictReader(f)]
    return np.array(scores), features


def main():
    data, models = Path(sys.argv[2]), Path(sys.argv[3])
    draws = int(sys.argv[4]) if len(sys.argv) > 4 else 50
    print("| | detector | how | " + " | ".join(f"{f:.0%} outliers" for f in FRACTIONS) + " |")
    for name in SETS:
        attach, (fit, test, out) = read(data, models, name)
        rows, n = np.concatenate([test, out]), len(test)
        ways = {("attach", "attach"): [lambda c, a: own(attach, c, a)] * len(FRACTIONS), ("attach", "nonconform"): [lambda c, a: nonconform(attach, c, a)] * len(FRACTIONS)}
        for detector, make in DETECTORS.items():
            fitted = make(contamination=0.1).fit(fit)
            scores = fitted.decision_function(rows)
            ways[detector, "nonconform"] = [lambda c, a, s=scores: nonconform(s, c, a)] * len(FRACTIONS)
            ways[detector, "threshold, 0.1"] = [lambda c, a, s=scores, t=fitted.threshold_: s[a] > t] * len(FRACTIONS)
            ways[detector, "threshold, true fraction"] = [lambda c, a, s=scores, t=np.quantile(fitted.decision_scores_, 1 - f): s[a] > t for f in FRACTIONS]
        results = {way: [[] for _ in FRACTIONS] for way in ways}
        for k, fraction in enumerate(FRACTIONS):
            random = np.random.default_rng(k)
            outliers = round(fraction * AUDITED)
            for _ in range(draws):
                inside = random.permutation(n)[: CALIBRATION + AUDITED - outliers]
                audited = np.concatenate([inside[CALIBRATION:], n + random.permutation(len(out))[:outliers]])
                for way, functions in ways.items():
                    found = functions[k](inside[:CALIBRATION], audited)
                    false = (found & (audited < n)).sum()
                    results[way][k].append((false / max(1, found.sum()), (found.sum() - false) / outliers))
        for (detector, how), cells in results.items():
            means = [np.mean(cell, axis=0) for cell in cells]
            print(f"| {name} | {detector} | {how} | " + " | ".join(f"{false:.3f} / {power:.2f}" for false, power in means) + " |", flush=True)


main()

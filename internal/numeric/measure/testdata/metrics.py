"""Writes metrics.json: metrics of in-distribution and OOD scores, by scikit-learn.

Made with Python 3.11.2, NumPy 1.24.2, scikit-learn 1.2.1.
"""
import json

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

rng = np.random.default_rng(20240607)


def normal(n, mean):
    return np.round(rng.normal(mean, 1, n), 6)


def coarse(n, mean):
    return np.round(rng.normal(mean, 1, n), 0) + 0.0


cases = {
    "random": (normal(150, 0), normal(120, 1)),
    "no shift": (normal(90, 0), normal(110, 0)),
    "tied": (coarse(150, 0), coarse(140, 0.7)),
    "tied, binary": (rng.integers(0, 2, 60) * 1.0, rng.integers(0, 2, 45) * 1.0),
    "constant": (np.full(30, 0.25), np.full(20, 0.25)),
    "separated": (normal(25, -20), normal(35, 20)),
    "reversed": (normal(25, 20), normal(35, -20)),
    "few out-of-domain": (normal(600, 0), normal(3, 1)),
    "few in-domain": (normal(3, 0), normal(600, 1)),
    "few in-domain, tied": (coarse(2, 0), coarse(500, 0)),
    "one each": (np.array([0.5]), np.array([0.75])),
    "one each, tied": (np.array([0.5]), np.array([0.5])),
    "twenty, so that .95 is met exactly": (normal(20, 0), normal(20, 0.5)),
    "tiny differences": (1 + np.arange(12) * 2.0**-50, 1 + np.arange(9) * 2.0**-51),
    "large": (np.exp(normal(40, 300)), np.exp(normal(40, 301))),
}

out = []
for name, (a, b) in cases.items():
    y = np.r_[np.zeros(len(a)), np.ones(len(b))]
    s = np.r_[a, b]
    fpr, tpr, _ = roc_curve(y, s, drop_intermediate=False)
    fpr_in, tpr_in, _ = roc_curve(1 - y, -s, drop_intermediate=False)
    out.append({
        "name": name, "in": a.tolist(), "out": b.tolist(),
        "auroc": roc_auc_score(y, s),
        "fpr95": fpr[tpr >= 0.95].min(),
        "aupr_in": average_precision_score(1 - y, -s),
        "aupr_out": average_precision_score(y, s),
        "fpr95_in": fpr_in[tpr_in >= 0.95].min(),
        "detection_error": (0.5 * fpr + 0.5 * (1 - tpr)).min(),
        "fpr": fpr.tolist(), "tpr": tpr.tolist(),
    })
with open("metrics.json", "w") as f:
    json.dump(out, f)

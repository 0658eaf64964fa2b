"""Writes bootstrap.json: areas under risk-coverage curves and percentile intervals.

For the intervals, the rows are resampled and scikit-learn computes all metrics.

Made with Python 3.11.2, NumPy 1.24.2, scikit-learn 1.2.1.
"""
import itertools
import json

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

rng = np.random.default_rng(7)


def ordered_area(wrong):
    return float(np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1)))


def area(scores, wrong):
    """Returns the mean area over all orders of tied rows, by enumeration."""
    groups = [list(wrong[scores == s]) for s in np.unique(scores)]
    orders = [sorted(set(itertools.permutations(g))) for g in groups]
    return float(np.mean([ordered_area(np.concatenate(o)) for o in itertools.product(*orders)]))


def case(name, scores, wrong):
    return {"name": name, "scores": scores.tolist(), "wrong": [bool(w) for w in wrong], "aurc": area(scores, wrong)}


s = rng.normal(0, 1, 200)
areas = [
    case("distinct", s, rng.uniform(size=200) < 1 / (1 + np.exp(-s))),
    case("tied", np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3.0]), np.array([0, 1, 0, 0, 1, 0, 1, 1, 0, 0])),
    case("constant", np.zeros(7), np.array([0, 1, 0, 0, 0, 1, 0])),
    case("all right", rng.normal(0, 1, 20), np.zeros(20)),
    case("all wrong", rng.normal(0, 1, 20), np.ones(20)),
    case("one", np.zeros(1), np.ones(1)),
]


def metrics(a, b):
    y, v = np.r_[np.zeros(len(a)), np.ones(len(b))], np.r_[a, b]
    fpr, tpr, _ = roc_curve(y, v, drop_intermediate=False)
    fpr_in, tpr_in, _ = roc_curve(1 - y, -v, drop_intermediate=False)
    return [
        roc_auc_score(y, v), fpr[tpr >= 0.95].min(),
        average_precision_score(1 - y, -v), average_precision_score(y, v),
        fpr_in[tpr_in >= 0.95].min(), (0.5 * fpr + 0.5 * (1 - tpr)).min(),
    ]


names = ["auroc", "fpr95", "aupr_in", "aupr_out", "fpr95_in", "detection_error"]
a, b = np.round(rng.normal(0, 1, 240), 2), np.round(rng.normal(1.2, 1, 160), 2)
draws = np.array([metrics(rng.choice(a, len(a)), rng.choice(b, len(b))) for _ in range(6000)])
low, high = np.percentile(draws, [2.5, 97.5], axis=0)
wrong = rng.uniform(size=len(a)) < 0.15 + 0.2 * (a > 0.5)
# Ties are broken at random. With many resamples, this gives nearly the same percentiles as
# the mean over all orders.
risk = []
for _ in range(6000):
    i = rng.integers(0, len(a), len(a))
    risk.append(ordered_area(wrong[i][np.lexsort((rng.uniform(size=len(i)), a[i]))]))
with open("bootstrap.json", "w") as f:
    json.dump({
        "areas": areas, "in": a.tolist(), "out": b.tolist(), "wrong": [bool(w) for w in wrong],
        "intervals": {n: [l, h] for n, l, h in zip(names, low, high)} | {"aurc": np.percentile(risk, [2.5, 97.5]).tolist()},
    }, f)

"""Writes fused.json: features and logits of five folds of rows to fit and
calibrate with and of rows to test with, and scores of fused p-values of certificates, energy and k-nearest
neighbours, written out in double precision.

    python fused.py

Made with Python 3.11.2, NumPy 1.24.2, SciPy 1.10.1.
"""
import json

import numpy as np
from scipy.special import logsumexp
from scipy.stats import combine_pvalues, genpareto

rng = np.random.default_rng(42)
H, C, FOLDS, FOLD = 10, 4, 5, 40


def f32(x):
    return np.asarray(x, np.float32).astype(np.float64)


weight = rng.normal(size=(C, H))
mix = rng.normal(size=(5, H))


def rows(n, noise):
    x = f32(rng.normal(size=(n, 5)) @ mix + noise * rng.standard_t(4, size=(n, H)))
    return x, f32(x @ weight.T)


folds = [rows(FOLD, 0.3) for _ in range(FOLDS)]
near, far = rows(12, 0.3), rows(8, 3)
test, test_logits = np.r_[near[0], far[0], folds[0][0][:2], 40 * far[0][:2]], np.r_[near[1], far[1], folds[0][1][:2], 40 * far[1][:2]]
test_logits[[0, 13]] -= [[20], [90]]  # an energy beyond all others
test_logits = f32(test_logits)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def certificates(fit):
    vectors = np.linalg.eigh(unit(fit).T @ unit(fit))[1][:, : 3 * H // 4]
    return lambda x, z: ((unit(x) @ vectors) ** 2).mean(1)


components = {
    "certificates": certificates,
    "energy": lambda fit: lambda x, z: -logsumexp(z, axis=1),
    # .001 of the rows is less than one: the nearest.
    "knn": lambda fit: lambda x, z: np.linalg.norm(unit(x)[:, None] - unit(fit), axis=2).min(1),
}


def pvalues(c, s):
    c = np.sort(c)
    n = len(c)
    p = np.array([(1 + (c >= v).sum()) / (n + 1) for v in c])
    inside = np.exp(np.interp(s, c, np.log(p)))
    m = n // 10
    x = c[-m:] - c[-m - 1]
    # Probability-weighted moments a_s = E x (1-F)^s.
    a0, a1 = x.mean(), (x * (m - 1 - np.arange(m)) / (m - 1)).mean()
    shape, scale = 2 - a0 / (a0 - 2 * a1), 2 * a0 * a1 / (a0 - 2 * a1)
    if shape <= 0:
        shape, scale = 0, a0
    elif shape > 0.5:
        shape, scale = 0.5, a0 / 2
    tail = genpareto(shape, scale=scale)
    # P(score > s | score > largest), after the threshold c[-m-1].
    beyond = tail.logsf(np.maximum(s - c[-m - 1], x[-1])) - tail.logsf(x[-1])
    return inside * np.exp(beyond), shape


ps = []
for name, fitted in components.items():
    held = []
    for k, (x, z) in enumerate(folds):
        held.append(fitted(np.concatenate([folds[j][0] for j in range(FOLDS) if j != k]))(x, z))
    score = fitted(np.concatenate([x for x, _ in folds]))
    p, shape = pvalues(np.concatenate(held), score(test, test_logits))
    print(f"{name}: shape {shape:.3f}, least p {p.min():.3g}")
    ps.append(p)
ps = np.stack(ps, 1)
fisher = np.array([combine_pvalues(p, "fisher")[0] for p in ps])
harmonic = -np.log(ps.shape[1] / (1 / ps).sum(1))
weights = np.array([0.5, 0.125, 0.375])
weighted_fisher = -2 * len(weights) * np.log(ps) @ weights
weighted_harmonic = -np.log(1 / np.average(1 / ps, axis=1, weights=weights))

with open("fused.json", "w") as out:
    json.dump({
        "folds": [x.tolist() for x, _ in folds], "fold_logits": [z.tolist() for _, z in folds],
        "test": test.tolist(), "test_logits": test_logits.tolist(),
        "fisher": fisher.tolist(), "harmonic": harmonic.tolist(),
        "weighted_fisher": weighted_fisher.tolist(), "weighted_harmonic": weighted_harmonic.tolist(),
    }, out)

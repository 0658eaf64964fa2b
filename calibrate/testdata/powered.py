"""Reference values for means from predictions by ppi_py, and for error rates by SciPy.

Run with Python 3, NumPy, SciPy and ppi-python:
    python3 powered.py > powered.json
Made with Python 3.11.7, NumPy 2.4.6, SciPy 1.17.1, ppi-python 0.2.3.
"""
import json

import numpy as np
import ppi_py
from scipy.optimize import isotonic_regression
from scipy.stats import beta

rng = np.random.default_rng(23)


def mean(n, m, noise, sign):
    value = rng.normal(2, 1, n + m).round(6)
    predicted = (sign * value + rng.normal(0, noise, n + m)).round(6)
    y, f, u = value[:n], predicted[:n], predicted[n:]
    low, high = ppi_py.ppi_mean_ci(y, f, u, alpha=0.05)
    return {"values": y.tolist(), "predicted": f.tolist(), "others": u.tolist(),
            "mean": float(ppi_py.ppi_mean_pointestimate(y, f, u).item()), "low": float(low.item()), "high": float(high.item())}


def error(n, m, shift):
    """The interval by another route: SciPy's isotonic regression of rows one by one."""
    top = np.sort(1 - rng.beta(.6, 3, n))
    wrong = rng.random(n) < (1 - top) ** .8
    new = 1 - rng.beta(.6 * (1 + shift), 3, m)
    p = isotonic_regression(wrong.astype(float), increasing=False).x
    value, block = np.unique(-p, return_inverse=True)
    nearest = np.abs(new[:, None] - top[None, :]).argmin(1)
    fraction = np.bincount(block[nearest], minlength=len(value)) / m
    size = np.bincount(block)
    weight = fraction[block] / size[block]
    smooth = (size * -value + .5) / (size + 1)
    spread = (weight ** 2 * (smooth * (1 - smooth))[block]).sum()
    luck = (fraction * smooth * (1 - smooth)).sum() / m
    upper, largest = (weight * wrong).sum(), weight.max()
    lower = 0
    for t in new:  # Venn-Abers: add the row as a right one
        at = np.searchsorted(top, t)
        lower += isotonic_regression(np.insert(wrong.astype(float), at, 0), increasing=False).x[at] / m

    def quantile(mean, variance, q):
        k = mean * (1 - mean) / variance - 1
        return beta.ppf(q, mean * k, (1 - mean) * k)

    low = np.floor(m * quantile(lower, spread + luck, .025)) / m
    high = np.ceil(m * quantile(upper + largest, spread + largest ** 2 + luck, .975)) / m
    return {"top": top.tolist(), "wrong": wrong.astype(int).tolist(), "new": new.tolist(), "error": float(upper), "low": float(low), "high": float(high)}


print(json.dumps({"means": [mean(30, 200, .5, 1), mean(60, 500, 5, 1), mean(20, 100, .5, -1), mean(25, 50, .1, 3)],
                  "errors": [error(60, 50, 0), error(200, 150, 2), error(300, 100, -.5)]}))

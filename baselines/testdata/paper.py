#!/usr/bin/env python3
"""Write paper.json beside this script: the oracle's log-odds by scikit-learn,
and the scores of distillation and SVDD with given weights by PyTorch.

Made with Python 3.11, PyTorch 1.13, scikit-learn 1.2 and NumPy 1.24.
"""
import json
import os

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

WIDTH, HIDDEN, K = 6, 5, 4


def rows(m):
    return [[float(v) for v in r] for r in np.asarray(m, dtype=np.float32)]


def main():
    rng = np.random.default_rng(3)
    scale = np.array([1, 2, 0.5, 1, 10, 1])
    train = np.float32(rng.normal(size=(40, WIDTH)) * scale + 3)
    outliers = np.float32(rng.normal(size=(25, WIDTH)) * scale * 1.5 + 3 + 0.7 * scale)
    test = np.float32(rng.normal(size=(15, WIDTH)) * scale * 1.2 + 3)
    out = dict(train=rows(train), outliers=rows(outliers), test=rows(test), oracle=[])

    both = np.concatenate((train, outliers)).astype(np.float64)
    s = StandardScaler().fit(both)
    y = np.r_[np.zeros(len(train)), np.ones(len(outliers))]
    for lam in (0.1, 1.0, 10.0):
        model = LogisticRegression(C=1 / lam, solver="newton-cg", tol=1e-9, max_iter=10000)
        model.fit(s.transform(both), y)
        odds = model.decision_function(s.transform(test.astype(np.float64)))
        out["oracle"].append({"lambda": lam, "scores": odds.tolist()})

    def layer(i, o):
        return torch.tensor(np.float32(rng.normal(size=(i, o)) / i ** 0.5)).double()

    x = torch.tensor(test).double()
    w0, w1, ws = layer(WIDTH, HIDDEN), layer(HIDDEN, K), layer(WIDTH, K)
    b0, b1, bs, centre = (torch.tensor(np.float32(rng.normal(size=(1, n)))).double() for n in (HIDDEN, K, K, K))
    teacher = torch.relu(x @ w0 + b0) @ w1 + b1
    student = x @ ws + bs
    svdd = torch.relu(x @ w0) @ w1
    mse = torch.nn.MSELoss(reduction="none")
    out["weights"] = dict(w0=rows(w0), w1=rows(w1), ws=rows(ws), b0=rows(b0), b1=rows(b1), bs=rows(bs), centre=rows(centre))
    out["distillation"] = mse(student, teacher).mean(1).tolist()
    out["svdd"] = mse(svdd, centre.expand_as(svdd)).mean(1).tolist()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "paper.json"), "w") as f:
        json.dump(out, f)
        f.write("\n")


if __name__ == "__main__":
    main()

"""Reference values for temperature scaling and prediction sets.

Run with Python 3, NumPy and SciPy:
    python3 reference.py > reference.json
Made with Python 3.11.2, NumPy 1.24.2, SciPy 1.10.1.
"""
import json

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

rng = np.random.default_rng(7)


def problem(n, c, spread, offset):
    z = rng.normal(0, spread, (n, c))
    y = np.array([rng.choice(c, p=p) for p in softmax(z / 1.7, axis=1)])
    z = (z + offset).astype(np.float32)
    nll = lambda t: -log_softmax(z.astype(float) / t, axis=1)[np.arange(n), y].mean()
    t = minimize_scalar(nll, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-10}).x
    return {"logits": z.ravel().tolist(), "labels": y.tolist(), "classes": c, "temperature": t}


def sets(n, c, alpha):
    p = softmax(rng.normal(0, 2, (n + 8, c)), axis=1).astype(np.float32).astype(float)
    y = np.array([rng.choice(c, p=q / q.sum()) for q in p[:n]])
    k = int(np.ceil((1 - alpha) * (n + 1) - 1e-9))
    lac = 1 - p
    order = np.argsort(-p, axis=1, kind="stable")
    aps = np.empty_like(p)
    np.put_along_axis(aps, order, np.cumsum(np.take_along_axis(p, order, 1), 1), 1)
    out = {"cal": p[:n].ravel().tolist(), "labels": y.tolist(), "new": p[n:].ravel().tolist(), "classes": c, "alpha": alpha}
    for name, s in ("lac", lac), ("aps", aps):
        q = np.sort(s[:n][np.arange(n), y])[k - 1]
        out[name] = [np.flatnonzero(r <= q).tolist() for r in s[n:]]
    return out


print(json.dumps({
    "temperature": [problem(60, 4, 3, 0), problem(40, 3, 1, 1000), problem(80, 2, 6, -5)],
    "sets": [sets(19, 4, 0.1), sets(30, 3, 0.2)],
}))

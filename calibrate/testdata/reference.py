"""Reference values for temperature scaling.

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


print(json.dumps({
    "temperature": [problem(60, 4, 3, 0), problem(40, 3, 1, 1000), problem(80, 2, 6, -5)],
}))

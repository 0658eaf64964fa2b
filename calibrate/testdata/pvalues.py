"""Reference values for p-values of classes, by crepes.

Run with Python 3, NumPy and crepes:
    python3 pvalues.py > pvalues.json
Made with Python 3.11.7, NumPy 2.4.6, crepes 0.9.1. The p-values are not smoothed. For
p-values by class, the crepes category of a row is its class.
"""
import json

import numpy as np
from crepes import ConformalClassifier

rng = np.random.default_rng(14)
n, m, c = 70, 15, 4
z = rng.normal(0, 2, (n + m, c)).astype(np.float32)
p = np.exp(z.astype(float))
p /= p.sum(1, keepdims=True)
y = np.array([rng.choice(c, p=row) for row in p])
scores = 1 - p
true = scores[np.arange(n), y[:n]]
alone = ConformalClassifier().fit(true).predict_p(scores[n:], smoothing=False)
fitted = ConformalClassifier().fit(true, bins=y[:n])
each = np.column_stack([fitted.predict_p(scores[n:, [k]], bins=np.full(m, k), smoothing=False)[:, 0] for k in range(c)])
print(json.dumps({"logits": z.ravel().tolist(), "labels": y.tolist(), "n": n, "classes": c, "all": alone.ravel().tolist(), "by_class": each.ravel().tolist()}))

"""Reference values for p-values among calibration rows of the same predicted class.

Run with Python 3, NumPy and crepes:
    python3 pvalues.py > pvalues.json
Made with Python 3.11.7, NumPy 2.4.6, crepes 0.9.1: p-values of a Mondrian conformal
classifier whose categories are predicted classes, without smoothing.
"""
import json

import numpy as np
from crepes import ConformalClassifier

rng = np.random.default_rng(12)
n, m = 80, 40
predicted, fresh = np.append(rng.choice(4, n - 1, p=[0.5, 0.3, 0.2, 0]), 3), rng.integers(0, 4, m)
scores, others = (rng.normal(size=k).round(1) for k in (n, m))  # some are equal
p = ConformalClassifier().fit(scores, bins=predicted).predict_p(others[:, None], bins=fresh, smoothing=False)[:, 0]
print(json.dumps({
    "scores": scores.tolist(), "predicted": predicted.tolist(), "fresh_scores": others.tolist(), "fresh_predicted": fresh.tolist(), "p_values": p.tolist(),
}))

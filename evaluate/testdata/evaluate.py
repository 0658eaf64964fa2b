"""Reference values for what evaluation says of confidence.

Run with Python 3, NumPy and scikit-learn:
    python3 evaluate.py > evaluate.json
Made with Python 3.11.7, NumPy 2.4.6, scikit-learn 1.9.1.
"""
import json

import numpy as np
from sklearn.metrics import accuracy_score, log_loss

rng = np.random.default_rng(11)
n, c, temperature = 300, 3, 1.7
logits = (3 * rng.normal(size=(n, c))).astype(np.float32)
labels = np.where(rng.random(n) < .7, logits.argmax(1), rng.integers(0, c, n))


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def ece(p, bins=15):
    """As Guo et al.: bins (k/15, (k+1)/15] of the largest probability."""
    top, right = p.max(1), p.argmax(1) == labels
    edges = np.linspace(0, 1, bins + 1)
    return sum(abs(right[m].mean() - top[m].mean()) * m.mean()
               for m in ((top > lo) & (top <= hi) for lo, hi in zip(edges, edges[1:])) if m.any())


before, after = (softmax(logits.astype(float) / t) for t in (1, temperature))
wrong = (after.argmax(1) != labels)[np.argsort(-after.max(1), kind="stable")]
print(json.dumps({
    "logits": logits.ravel().tolist(), "labels": labels.tolist(), "temperature": temperature,
    "accuracy": accuracy_score(labels, before.argmax(1)),
    "nll": [log_loss(labels, before), log_loss(labels, after)], "ece": [ece(before), ece(after)],
    "aurc": float(np.mean(np.cumsum(wrong) / np.arange(1, n + 1))),
}))

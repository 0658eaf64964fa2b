"""Writes classifier.json: features, logits and labels of a small classifier, and
scores of the methods that read logits or recompute them from changed features.

    python classifier.py [--peers]

Every score is written out from its paper in double precision. With --peers the
scores are compared with those of pytorch-ood where it defines a method alike.

Made with Python 3.11.2, NumPy 1.24.2, SciPy 1.10.1; compared with pytorch-ood
0.4.0 on PyTorch 1.13.0.
"""
import json
import sys

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

rng = np.random.default_rng(11)


def f32(x):
    return np.asarray(x, np.float32).astype(np.float64)


H, C, SEEN = 24, 6, 5  # class 5 is never predicted in training
weight = f32(rng.normal(size=(C, H)) / 2)
bias = f32(rng.normal(size=C) / 4)
bias[5] = -12


def rows(labels, noise):
    """Features after a ReLU: those of a class lie along its weights."""
    centres = 1.5 * weight + 0.3
    x = np.stack([centres[y] if y >= 0 else 0.4 + 0 * weight[0] for y in labels])
    return f32(np.maximum(x + noise * rng.normal(size=x.shape), 0))


labels = np.arange(90) % SEEN
train = rows(labels, 0.5)
test = np.r_[
    train[:2],
    rows(np.arange(10) % SEEN, 0.5),
    rows(-np.ones(6, int), 0.6),
    f32(20 * np.maximum(weight[5:], 0)),  # predicted as the class not seen
    f32(rng.normal(size=(3, H))),  # of both signs
]
train_logits, test_logits = f32(train @ weight.T + bias), f32(test @ weight.T + bias)
predicted = train_logits.argmax(1)
labels[[7, 20, 21]] = (predicted[[7, 20, 21]] + 1) % SEEN  # mislabelled
assert set(predicted) == set(range(SEEN)) and 5 in test_logits.argmax(1)

scores = []


def put(method, params, s, labelled=False):
    s = np.asarray(s)
    assert s.shape == (len(test),) and np.isfinite(s).all(), method
    scores.append({"method": method, "params": params, "labelled": labelled, "scores": s.tolist()})
    return s


def energy(z, t=1):
    return -t * logsumexp(z / t, axis=1)


put("max-logit", {}, -test_logits.max(1))
for t in (1, 10, 100, 1000):
    put("energy", {"temperature": t}, energy(test_logits, t))

p = softmax(test_logits, axis=1)
for gamma in (0.01, 0.1, 0.5, 1, 2, 5, 10):
    for top in (3, 10, 100):
        order = np.argsort(-test_logits, axis=1)[:, :top]
        q = np.take_along_axis(p, order, 1)
        others = np.stack([[np.delete(r, k).sum() for k in o] for r, o in zip(p, order)])
        put("gen", {"gamma": gamma, "top": top}, (q**gamma * others**gamma).sum(1))

# The typical distributions of predicted classes.
logp = log_softmax(test_logits, axis=1)
typical = np.stack([softmax(train_logits[predicted == k], axis=1).mean(0) for k in range(SEEN)])
kl = np.stack([(p * (logp - np.log(d))).sum(1) for d in typical], 1)
put("kl-matching", {}, kl.min(1))

out = {
    "train": train.tolist(), "test": test.tolist(),
    "train_logits": train_logits.tolist(), "test_logits": test_logits.tolist(),
    "labels": labels.tolist(), "weight": weight.tolist(), "bias": bias.tolist(), "scores": scores,
}
with open("classifier.json", "w") as f:
    json.dump(out, f)

if "--peers" in sys.argv:
    import torch
    from pytorch_ood import detector

    def compare(name, want, got):
        want, got = np.asarray(want), got.detach().numpy().astype(float)
        off = np.max(np.abs(want - got) / np.maximum(np.abs(want), 1e-3))
        print(f"{name}: off by {off:.1g}")
        assert off < 1e-4, name

    def of(method, params, labelled=False):
        return next(s["scores"] for s in scores if (s["method"], s["params"], s["labelled"]) == (method, params, labelled))

    z = torch.tensor(test_logits)
    compare("max-logit", of("max-logit", {}), detector.MaxLogit.score(z))
    compare("energy", of("energy", {"temperature": 10}), detector.EnergyBased.score(z, t=10))
    for top in (3, 10):
        # A mean over classes there, of probabilities of at least 1e-7.
        s = detector.GEN.score(z, gamma=1, M=top) * min(top, C)
        compare("gen", of("gen", {"gamma": 1, "top": top}), s)

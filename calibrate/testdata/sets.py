"""Reference values for prediction sets, by TorchCP and MAPIE.

Run with Python 3, PyTorch, TorchCP and MAPIE:
    python3 sets.py > sets.json
Made with Python 3.11.2, PyTorch 1.13.0, TorchCP 1.2.1, MAPIE 1.6.0.

TorchCP subtracts a random fraction of a class's own probability from its APS and RAPS
scores, and a random fraction of a penalty from its SAPS scores. Here the fraction is
always 1. TorchCP has no ordinal sets, so this script grows them step by step as Lu,
Angelopoulos & Pomerantz (2022) describe. APS and RAPS of MAPIE always draw random
numbers at calibration, so only LAC is compared with MAPIE.
"""
import json

import numpy as np
import torch
from mapie.classification import SplitConformalClassifier
from scipy.special import softmax
from torchcp.classification.predictor import ClassConditionalPredictor, SplitPredictor
from torchcp.classification.score import APS, LAC, RAPS, SAPS

torch.set_default_dtype(torch.float64)
rng = np.random.default_rng(11)
torch.rand = lambda *shape, device=None: torch.ones(*shape)


class ConsistentSAPS(SAPS):
    """SAPS with the same fraction u of the largest probability in calibration and prediction.

    TorchCP uses 1 − u in calibration, which is equivalent only if u is random."""

    _calculate_single_label = lambda self, probs, label: self._calculate_all_label(probs).gather(1, label.view(-1, 1))[:, 0]


SCORES = {"lac": LAC(), "aps": APS(randomized=True), "raps": RAPS(penalty=0.01, kreg=5, randomized=True), "saps": ConsistentSAPS(randomized=True)}


class LogitClassifier:
    """A fitted classifier that takes logits as inputs."""

    def __init__(self, classes):
        self.classes_ = np.arange(classes)
        self.n_features_in_ = classes

    __sklearn_is_fitted__ = lambda self: True
    fit = lambda self, x, y: self
    predict_proba = lambda self, z: softmax(z, axis=1)
    predict = lambda self, z: z.argmax(1)


def grown(p):
    """Yields growing ordinal sets of classes, starting with the most probable class, and their probabilities."""
    members = {int(p.argmax())}
    while True:
        yield sorted(members), sum(p[c] for c in members)
        neighbours = [c for c in (min(members) - 1, max(members) + 1) if 0 <= c < len(p)]
        if not neighbours:
            return
        members.add(max(neighbours, key=lambda c: p[c]))


def ordinal(p, number):
    """Returns the smallest ordinal set with a probability above a number, or all classes."""
    return next((s for s, mass in grown(p) if mass > number), list(range(len(p))))


def ordinals(p, y, n, alpha):
    """Returns ordinal sets of the rows after n, with the smallest number for which enough of the first n sets contain the true class."""
    numbers = sorted({0.0} | {mass for row in p[:n] for _, mass in grown(row)})
    enough = np.ceil((n + 1) * (1 - alpha))
    smallest = next(number for number in numbers if sum(y[i] in ordinal(p[i], number) for i in range(n)) >= enough)
    return [ordinal(row, smallest) for row in p[n:]]


def problem(n, m, c, spread, alpha):
    z = rng.normal(0, spread, (n + m, c)).astype(np.float32)
    y = np.array([rng.choice(c, p=p) for p in softmax(z.astype(float) * 0.8, axis=1)])
    out = {"logits": z.ravel().tolist(), "labels": y.tolist(), "n": n, "classes": c, "alpha": alpha, "sets": {}}
    logits, labels = torch.tensor(z.tolist()), torch.tensor(y.tolist())
    for name, score in SCORES.items():
        for suffix, predictor in ("", SplitPredictor), (" by class", ClassConditionalPredictor):
            p = predictor(score)
            p.calculate_threshold(logits[:n], labels[:n], alpha)
            sets = p.predict_with_logits(logits[n:]).tolist()
            out["sets"][name + suffix] = [np.flatnonzero(s).tolist() for s in sets]
    out["sets"]["ordinal"] = ordinals(softmax(z.astype(float), axis=1), y, n, alpha)
    mapie = SplitConformalClassifier(LogitClassifier(c), confidence_level=1 - alpha, conformity_score="lac", prefit=True)
    mapie.conformalize(z[:n].astype(float), y[:n])
    _, sets = mapie.predict_set(z[n:].astype(float))
    assert [np.flatnonzero(s).tolist() for s in sets[:, :, 0]] == out["sets"]["lac"]
    return out


print(json.dumps([problem(60, 12, 4, 2, 0.15), problem(95, 12, 12, 1.5, 0.25), problem(20, 8, 3, 5, 0.1)]))

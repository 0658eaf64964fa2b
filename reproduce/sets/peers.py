"""Sets of attach, TorchCP and MAPIE at 90 % on the same logits and splits.

    python3 peers.py ATTACH SPLITS a.npz b.npz …

ATTACH is the command, and each file holds logits and labels that no network was
trained on, as `attach features` writes them; 2 000 rows of a split calibrate.
Needs PyTorch, TorchCP and MAPIE: made with 1.13.0, 1.2.1 and 1.6.0.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from mapie._venn_abers import VennAbers
from mapie.classification import SplitConformalClassifier
from scipy.special import softmax
from torchcp.classification.predictor import ClassConditionalPredictor, SplitPredictor
from torchcp.classification.score import APS, LAC, RAPS, SAPS

torch.set_default_dtype(torch.float64)
ALPHA, CAL = 0.1, 2000
draw = torch.rand


class Given:
    """A classifier whose inputs are logits."""

    def __init__(self, classes):
        self.classes_ = np.arange(classes)

    __sklearn_is_fitted__ = lambda self: True
    fit = lambda self, x, y: self
    predict_proba = lambda self, z: softmax(z, axis=1)
    predict = lambda self, z: z.argmax(1)


class Alike(SAPS):
    """SAPS that counts u of the largest probability when it calibrates, too: TorchCP's
    counts 1 − u there, which is the same only where u is drawn."""

    _calculate_single_label = lambda self, probs, label: self._calculate_all_label(probs).gather(1, label.view(-1, 1))[:, 0]


def attach(command, z, y, cal, test, *flags):
    with tempfile.TemporaryDirectory() as folder:
        f = pathlib.Path(folder)
        for name, rows in ("cal", cal), ("test", test):
            np.savez(f / f"{name}.npz", features=z[rows], logits=z[rows], labels=y[rows])
        run = lambda *args: subprocess.run([command, *args], check=True, capture_output=True, cwd=folder)
        run("fit", "--x", "test.npz", "--cal", "cal.npz", "--task", "classification", "--method", "entropy", "-o", "m.attach")
        run("predict", "m.attach", "--x", "test.npz", "-o", "out.npz", *flags)
        out = dict(np.load(f / "out.npz"))
        if "set" not in out:
            return out
        sets = np.zeros((len(test), z.shape[1]), bool)
        sets[np.repeat(np.arange(len(test)), out["set_size"]), out["set"]] = True
        return sets


def bounds(command, z, y, cal, test):
    """Width, share of right rows below, within and above on average, Brier scores of
    confidence and of the bounds' one probability, and how far MAPIE's bounds are off."""
    out = attach(command, z, y, cal, test, "--venn-abers", "--sets", "none")
    low, high = out["confidence_low"], out["confidence_high"]
    right = z.argmax(1) == y
    top = softmax(z.astype(float), axis=1).max(1)
    model = VennAbers()
    model.fit(np.column_stack([1 - top[cal], top[cal]]), right[cal].astype(int))
    theirs = model.predict_proba(np.column_stack([1 - top[test], top[test]]))[1]
    one, right = high / (1 - low + high), right[test]
    return low.mean(), right.mean(), high.mean(), (high - low).mean(), np.mean((out["confidence"] - right) ** 2), np.mean((one - right) ** 2), np.abs(theirs - np.column_stack([low, high])).max()


def torchcp(predictor, score, z, y, cal, test, share=None):
    torch.rand = draw if share is None else lambda *shape, device=None: torch.full(shape[0] if isinstance(shape[0], torch.Size) else shape, share)
    p = predictor(score)
    logits = torch.tensor(z.astype(float).tolist())
    p.calculate_threshold(logits[cal.tolist()], torch.tensor(y[cal].tolist()), ALPHA)
    return np.array(p.predict_with_logits(logits[test.tolist()]).tolist(), bool)


def mapie(score, last, z, y, cal, test):
    m = SplitConformalClassifier(Given(z.shape[1]), confidence_level=1 - ALPHA, conformity_score=score, prefit=True)
    m.conformalize(z[cal].astype(float), y[cal])
    options = {} if last is None else {"conformity_score_params": {"include_last_label": last}}
    return m.predict_set(z[test].astype(float), **options)[1][:, :, 0]


command, splits = sys.argv[1], int(sys.argv[2])
for path in sys.argv[3:]:
    data = np.load(path)
    z, y = data["logits"].astype(np.float32), data["labels"].astype(np.int64)
    found, same, likely = {}, {}, []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        at = z, y, order[:CAL], order[CAL:]
        likely.append(bounds(command, *at))
        raps = RAPS(penalty=0.01, kreg=5, randomized=True)
        ours = {s + more: attach(command, *at, "--sets", s, *flags) for s in ("lac", "aps", "raps", "saps")
                for more, flags in (("", ()), (" by class", ("--sets-by-class",)), (" smoothed", ("--smoothed", "--seed", str(seed))))}
        theirs = {
            "TorchCP lac": torchcp(SplitPredictor, LAC(), *at), "TorchCP lac by class": torchcp(ClassConditionalPredictor, LAC(), *at),
            "TorchCP aps, u=1": torchcp(SplitPredictor, APS(randomized=True), *at, share=1.0),
            "TorchCP aps by class, u=1": torchcp(ClassConditionalPredictor, APS(randomized=True), *at, share=1.0),
            "TorchCP raps, u=1": torchcp(SplitPredictor, raps, *at, share=1.0),
            "TorchCP raps by class, u=1": torchcp(ClassConditionalPredictor, raps, *at, share=1.0),
            "TorchCP saps, u=1": torchcp(SplitPredictor, Alike(), *at, share=1.0),
            "TorchCP saps by class, u=1": torchcp(ClassConditionalPredictor, Alike(), *at, share=1.0),
            "TorchCP saps, randomised": torchcp(SplitPredictor, SAPS(), *at),
            "TorchCP aps, not randomised": torchcp(SplitPredictor, APS(randomized=False), *at),
            "TorchCP aps, randomised": torchcp(SplitPredictor, APS(randomized=True), *at),
            "TorchCP raps, randomised": torchcp(SplitPredictor, raps, *at),
            "MAPIE lac": mapie("lac", None, *at), "MAPIE aps, last label": mapie("aps", True, *at),
            "MAPIE aps, randomised": mapie("aps", "randomized", *at),
        }
        for name, sets in ({"attach " + k: v for k, v in ours.items()} | theirs).items():
            found.setdefault(name, []).append((sets[np.arange(len(order) - CAL), y[order[CAL:]]].mean(), sets.sum(1).mean(), (sets.sum(1) == 0).mean()))
        for name in theirs:
            which = name.split(" ", 1)[1].removesuffix(", u=1")
            if which in ours:
                empty = ~theirs[name].any(1)  # ours hold the most probable class
                theirs[name][empty, z[order[CAL:]][empty].argmax(1)] = True
                same[name] = same.get(name, 0) + int((ours[which] != theirs[name]).any(1).sum())
    print(f"{pathlib.Path(path).stem}: {splits} splits, {CAL} rows to calibrate on, {len(y) - CAL} to test")
    low, right, high, width, before, after, _ = np.mean(likely, axis=0)
    print(f"  Venn-Abers: a share {right:.3f} is right, between {low:.3f} and {high:.3f}, width {width:.4f}; Brier score of the confidence {before:.4f}, "
          f"of the bounds {after:.4f}; MAPIE's differ by at most {np.max(likely, axis=0)[-1]:.1e}")
    for name in sorted(found):
        covered, size, empty = np.mean(found[name], axis=0)
        differ = f"  {same[name]} sets differ" if name in same else ""
        print(f"  {name:30} covers {covered:.3f} with {size:.2f} classes, {empty:.3f} of sets empty{differ}")

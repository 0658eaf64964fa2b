"""Compares the scores of detectors with pytorch-ood's on the features of a real
network.

    python peers_scores.py ATTACH FIT.npz IN.npz OUT.npz

The files are those of `attach features`, FIT.npz with labels. The last layer is
solved for from features and logits, and the logits are then computed from it, so
that both sides read the same features, logits and weights. `ATTACH compare`
scores them. pytorch-ood runs in float64; its conversions to float32 are
prevented. The script prints the largest difference between a method's scores,
relative to the score or, if that is larger, to the standard deviation of all.

Where the definitions differ:
- mahalanobis, relative-mahalanobis: pytorch-ood inverts the scatter about the class
  means, plus 1e-6 on its diagonal, without dividing it by the number of rows, and
  mahalanobis is half of the distance. This script corrects the factors, so that
  only eigenvalues near 1e-6 make a difference.
- gen: pytorch-ood takes the mean over classes, of probabilities of at least 1e-7.
  Compared with gamma=1, because 1e-7 to the power of 0.1 is 0.2.
- entropy: probabilities are at least 1e-7 too; compared with temperature=10.
- ash-b, ash-s, scale: ratios that are 0/0 or negative if no feature is positive.
- react: pytorch-ood takes the threshold, and not its percentile.
- openmax: pytorch-ood returns a probability, and attach its log-odds; pytorch-ood's
  search finds the Weibull distributions to about 1e-4.

Made with Python 3.11.2, PyTorch 1.13.0, NumPy 1.24.2, pytorch-ood 0.4.0.
"""
import subprocess
import sys
import tempfile

import numpy as np
import torch
from pytorch_ood import detector

torch.set_default_dtype(torch.float64)
torch.Tensor.float = torch.Tensor.double
attach, *paths = sys.argv[1:]
sets = {}
for name, path in zip(("fit", "in", "out"), paths):
    with np.load(path) as z:
        sets[name] = {key: z[key] for key in ("features", "logits", "labels") if key in z}
fit = sets["fit"]
c, h = fit["logits"].shape[1], fit["features"].shape[1]
ones = np.c_[fit["features"].astype(float), np.ones(len(fit["features"]))]
solved, *_ = np.linalg.lstsq(ones, fit["logits"].astype(float), rcond=None)
weight, bias = solved[:-1].T.astype(np.float32), solved[-1].astype(np.float32)
for s in sets.values():
    s["logits"] = (s["features"].astype(float) @ weight.T.astype(float) + bias).astype(np.float32)
# Rows of a class are selected by label. she and openmax use only correctly predicted rows.
right = fit["logits"].argmax(1) == fit["labels"]


def tensors(s):
    return torch.tensor(s["features"].astype(float)), torch.tensor(s["logits"].astype(float))


x, z = tensors(fit)
y = torch.tensor(fit["labels"].astype(int))
both = {key: np.concatenate([sets["in"][key], sets["out"][key]]) for key in ("features", "logits")}
xt, zt = tensors(both)
w, b = torch.tensor(weight.astype(float)), torch.tensor(bias.astype(float))
last = torch.nn.Linear(h, c)
last.weight.data, last.bias.data = w, b


def same(v):
    return v.clone()


def head(v):
    return v.flatten(1) @ w.T + b


k = max(1, int(0.001 * len(x)))
maps = xt[:, :, None, None]
clip = float(np.percentile(fit["features"].astype(float), 90))


def dice():
    d = detector.DICE(same, w, b, 0.7)
    d.fit_features(x, y)
    return d.predict_features(xt)


def openmax():
    d = detector.OpenMax(same, tailsize=20, alpha=min(3, c))
    d.fit_logits(z[right], y[right])
    return d.predict_logits(zt)


peers = {
    "max-logit": ({}, lambda: detector.MaxLogit.score(zt)),
    "largest": ({}, lambda: detector.MaxSoftmax.score(zt)),
    "energy": ({"temperature": 1}, lambda: detector.EnergyBased.score(zt, t=1)),
    "entropy": ({"temperature": 10}, lambda: detector.Entropy.score(zt / 10)),
    "gen": ({"gamma": 1, "top": 10}, lambda: detector.GEN.score(zt, gamma=1, M=10) * min(10, c)),
    "kl-matching": ({}, lambda: detector.KLMatching(same).fit_logits(z).predict_logits(zt)),
    "mahalanobis": ({}, lambda: 2 * len(x) * detector.Mahalanobis(same).fit_features(x, y).predict_features(xt)),
    "relative-mahalanobis": ({}, lambda: len(x) * detector.RMD(same).fit_features(x, y).predict_features(xt)),
    "knn": ({"k": k}, lambda: detector.KNN(same, k=k).fit_features(x, y).predict_features(xt)),
    "vim": ({"k": h // 2}, lambda: detector.ViM(same, h // 2, w, b).fit_features(x, y).predict_features(xt)),
    "react": ({"percentile": 90}, lambda: detector.ReAct(same, head, clip).predict(xt)),
    "ash-b": ({"percentile": 90}, lambda: detector.ASH(same, head, "ash-b", 0.9).predict(maps)),
    "ash-s": ({"percentile": 90}, lambda: detector.ASH(same, head, "ash-s", 0.9).predict(maps)),
    "scale": ({"percentile": 85}, lambda: detector.SCALE(same, head, 0.85).predict(maps)),
    "dice": ({"percentile": 70}, dice),
    "she": ({}, lambda: detector.SHE(same, last).fit_features(x, y).predict_features(xt)),
    "nnguide": ({"k": 10}, lambda: detector.NNGuide(same, last, k=10).fit_features(x, y).predict_features(xt)),
    "nci": ({"alpha": 0.01}, lambda: detector.NCI(same, last, alpha=0.01).fit_features(x).predict_features(xt)),
    "fdbd": ({"centred": True}, lambda: detector.fDBD(same, last).fit_features(x).predict_features(xt)),
    "openmax": ({"tail": 20, "alpha": min(3, c)}, openmax),
}


def ours(folder, name, params):
    """Fit with `attach fit`, with separate calibration rows, and score with `attach predict`."""
    args = [f"--param={key}={str(v).lower()}" for key, v in params.items()]
    files = [f"--x={folder}/fit.npz", f"--cal={folder}/in.npz", f"--weights={folder}/weights.npz"]
    run = dict(check=True, stderr=subprocess.DEVNULL)
    subprocess.run([attach, "fit", *files, "--task=classification", f"--method={name}", *args, "-o", f"{folder}/m.attach"], **run)
    out = f"{folder}/scores.npz"
    subprocess.run([attach, "predict", f"{folder}/m.attach", "--features", f"--x={folder}/both.npz", "-o", out], **run)
    with np.load(out) as scored:
        return scored["ood_score"].astype(float)


worst = 0
with tempfile.TemporaryDirectory() as folder:
    for name, s in {**sets, "both": both, "weights": dict(weight=weight, bias=bias)}.items():
        if name in ("in", "out"):
            s = {key: s[key] for key in ("features", "logits")}
        np.savez(f"{folder}/{name}.npz", **s)
    for name, (params, compute) in peers.items():
        got, want = ours(folder, name, params), np.asarray(compute().detach()).ravel()
        if name == "openmax":
            got = 1 / (1 + np.exp(-got))
        off = np.max(np.abs(got - want) / np.maximum(np.abs(want), want.std()))
        worst = max(worst, off)
        print(f"{name:22s} {off:.1e}")
print(f"largest: {worst:.1e}")

"""Writes newest.json: scores of newer methods on features after a ReLU, by
pytorch-ood 0.4.0 if it has the method, otherwise by PyTorch and scikit-learn."""

import numpy as np
import torch
from pytorch_ood.detector import LTS, PNML, VRA, GradUncertainty
from sklearn.covariance import EmpiricalCovariance
from sklearn.metrics import roc_auc_score
from torch.nn import functional as F

from fixture import Problem, f32, permutation, take, uniforms

rng = np.random.default_rng(29)
torch.set_default_dtype(torch.float64)
N, H, C = 90, 24, 4

centres = rng.normal(size=(C, H)) * 1.5
mix = rng.normal(size=(H, H)) * np.geomspace(0.5, 0.1, H)[:, None]
labels = rng.permutation(np.arange(N) % C)
train = f32(np.maximum(0, 1 + centres[labels] + rng.normal(size=(N, H)) @ mix))
test = f32(np.maximum(0, np.r_[train[:2], 1 + centres[[0, 1, 2, 3, 0]] + rng.normal(size=(5, H)) @ mix, 3 * rng.normal(size=(8, H))]))
test[-1] = f32(rng.normal(size=H))  # of both signs
weight, bias = f32(centres / 4 + 0.1 * rng.normal(size=(C, H))), f32(rng.normal(size=C))
train_logits, test_logits = f32(train @ weight.T + bias), f32(test @ weight.T + bias)
layers = [(f32(np.tanh(x)) + 0.1, f32(x[:, :9] - x[:, 9:18])) for x in (train, test)]

problem = Problem(
    "numpy", "sklearn", "torch", "pytorch_ood", tolerance=1e-5, absolute=1e-6, last={"weight": weight, "bias": bias},
    train={"features": train, "logits": train_logits, "labels": labels, "layers": [f32(x) for x in layers[0]]},
    test={"features": test, "logits": test_logits, "layers": [f32(x) for x in layers[1]]})
put = problem.put

phi, new, z, new_z = (torch.tensor(x) for x in (train, test, train_logits, test_logits))
fc = torch.nn.Linear(H, C)
fc.weight.data, fc.bias.data = torch.tensor(weight), torch.tensor(bias)

for low, high in [(60, 90), (60, 95), (50, 85)]:  # the paper's: 0 below
    lows, highs = torch.quantile(phi, low / 100, dim=0), torch.quantile(phi, high / 100, dim=0)
    x = torch.where(new < lows, 0, new)
    put("vra", {"low": low, "high": high}, -fc(torch.where(x > highs, highs, x)).logsumexp(1).detach())
single = torch.nn.Linear(H, C)  # pytorch-ood's thresholds are float32
single.weight.data, single.bias.data = fc.weight.data.float(), fc.bias.data.float()
for low, high in [(1, 99), (10, 90)]:
    vra = VRA(None, single, low / 100, high / 100).fit_feature_maps(phi.float(), torch.tensor(labels))
    put("vra", {"low": low, "high": high, "below": "clip"}, vra.predict_feature_maps(new.float()))
for percentile in (65, 80, 95):
    put("lts", {"percentile": percentile}, LTS(None, fc, p=1 - percentile / 100).predict_features(new))
pnml = PNML(None, fc.float())
pnml.fit_features(phi.float(), torch.tensor(labels))
put("pnml", {}, pnml.predict_features(new.float()))
fc.double()
put("gradient-uncertainty", {}, GradUncertainty(fc).predict(new))

predicted, new_predicted = train_logits.argmax(1), test_logits.argmax(1)


def one(x):
    return np.abs(x).sum(1)


means = np.stack([train[predicted == y].mean(0) for y in range(C)])[new_predicted]
off, signs = test - means, np.sign(weight)[new_predicted]
put("cadref", {"decoupled": False}, one(off) / one(test))
energy, new_energy = z.logsumexp(1).numpy(), new_z.logsumexp(1).numpy()
assert new_energy.min() > energy.mean() / 1000
along, against = one(np.maximum(0, off * signs)) / one(test), one(np.maximum(0, -off * signs)) / one(test)
put("cadref", {}, along / new_energy + against / energy.mean())


def core(classes, **more):
    direction = F.normalize(fc.weight.detach())
    mean = torch.stack([phi[classes == y].mean(0) for y in range(C)])

    def cosine(x, y):
        d = direction[y]
        without = lambda v: v - (v * d).sum(1, keepdim=True) * d
        return F.cosine_similarity(without(x), without(mean[y]))

    fit, out = cosine(phi, predicted).numpy(), cosine(new, new_predicted).numpy()
    put("core", {}, -(new_energy - energy.mean()) / energy.std() - (out - fit.mean()) / fit.std(), **more)


core(predicted, without=["labels"])
core(labels)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def shrunk(centred, share):
    g = EmpiricalCovariance(assume_centered=True).fit(centred)
    s = g.covariance_
    g.location_ = np.zeros(len(s))
    g._set_covariance((1 - share) * s + share * np.trace(s) / len(s) * np.eye(len(s)))
    return g


def nearest(fit, rows, share):
    """Squared distances to the nearest class, and to all rows' mean."""
    centre = np.stack([fit[labels == y].mean(0) for y in range(C)])
    within, whole = shrunk(fit - centre[labels], share), shrunk(fit - fit.mean(0), share)
    return np.min([within.mahalanobis(rows - m) for m in centre], axis=0), whole.mahalanobis(rows - fit.mean(0))


def radial(x, exponent):
    return f32(x / np.linalg.norm(x, axis=1, keepdims=True) ** exponent)


def chosen(fit, share):
    """The exponent that best separates held-out rows from means of two rows of different classes."""
    held = np.sort(permutation(N, 0, 0x73706C6974)[:N // 5])
    part = np.setdiff1d(np.arange(N), held)
    mixed = []
    for i, r in enumerate(held):
        order = [held[(i + len(held) // 2 + k) % len(held)] for k in range(len(held))]
        mixed.append((fit[r] + fit[next(j for j in order if labels[j] != labels[r])]) / 2)

    def auroc(exponent):
        rows, whole = radial(fit[part], exponent), labels[part]
        centre = np.stack([rows[whole == y].mean(0) for y in range(C)])
        within = shrunk(rows - centre[whole], share)
        near = lambda x: np.min([within.mahalanobis(radial(x, exponent) - m) for m in centre], axis=0)
        return roc_auc_score(np.repeat([0, 1], len(held)), np.r_[near(fit[held]), near(np.array(mixed))])
    return max((1, 0.75, 1.25, 0.5, 1.5, 0.25, 0), key=auroc)


for share in (0, 0.01, 0.1):
    for exponent in (1, 0.5, 0):
        params = {"unit_norm": True, "shrinkage": share}
        if exponent != 1:
            params["exponent"] = exponent
        power = exponent or chosen(train, share)
        near, whole = nearest(radial(train, power), radial(test, power), share)
        put("mahalanobis", params, near, without=["logits"])
        put("relative-mahalanobis", params, near - whole, without=["logits"])
for exponent in (1, 0.5, 0):
    each = []
    for fit, rows in zip(*([f32(x) for x in pair] for pair in layers)):
        power = exponent or chosen(fit, 0.01)
        fit, rows = radial(fit, power), radial(rows, power)
        each.append(np.sqrt(nearest(fit, rows, 0.01)[0]) / np.sqrt(nearest(fit, fit, 0.01)[0]).mean())
    put("mahalanobis-layers", {"unit_norm": True, "exponent": exponent, "shrinkage": 0.01}, np.mean(each, axis=0), without=["logits"])


def normals(numbers, *shape):
    pairs = take(numbers, *shape, 2)
    return torch.tensor(np.sqrt(-2 * np.log(1 - pairs[..., 0])) * np.cos(2 * np.pi * pairs[..., 1]))


def weiper(repeats=100, distance=1.8, bins=100, smoothing=4, smoothing_logits=15, weight=2.5, confidence=0.1):
    noise = F.normalize(normals(uniforms(0), repeats, C, H), dim=2) * distance * fc.weight.detach().norm(dim=1)[:, None]
    perturbed = (fc.weight.detach() + noise).reshape(-1, H)
    logits = lambda x: (x @ perturbed.T + fc.bias.detach().repeat(repeats))

    def divergence(fit, rows, width, floor):
        edges = torch.linspace(fit.min(), (fit.max().float() + 1e-8).double(), bins + 1)
        share = lambda x: torch.stack([torch.stack([((r >= a) & (r < b)).double().mean() for a, b in zip(edges, edges[1:])]) for r in x])
        mean = share(fit).mean(0) + floor
        kernel = torch.nn.Conv1d(1, 1, width, padding="same", padding_mode="replicate", bias=False)
        kernel.weight.data[:] = 1 / width
        smooth = kernel(share(rows)[:, None])[:, 0].detach() + floor
        p, q = mean / mean.sum(), smooth / smooth.sum(1, keepdim=True)
        return (p * (p / q).log()).sum(1) + (q * (q / p).log()).sum(1)

    sure = logits(new).reshape(len(new), repeats, C).softmax(2).max(2)[0].mean(1)
    return (divergence(phi, new, smoothing, 0.01) + weight * divergence(logits(phi), logits(new), smoothing_logits, 0.025) - confidence * sure)


# In float32 a number can fall into a neighbouring bin.
for params in ({}, {"repeats": 10, "distance": 2.4}, {"repeats": 10, "smoothing": 20, "smoothing_logits": 40, "weight": 1}, {"repeats": 10, "bins": 60, "confidence": 5}):
    put("weiper", params, weiper(**params), tolerance=2e-3)
problem.write("newest.json")

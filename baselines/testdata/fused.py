"""Writes fused.json: scores of the fused methods, computed in double precision
from their components: coupled certificates, ViM and Mahalanobis distances in
earlier layers.
"""
import numpy as np
from scipy.special import logsumexp, softmax
from scipy.stats import combine_pvalues, genpareto

from fixture import Problem, f32, permutation

rng = np.random.default_rng(43)
H, C, N, FOLDS, WIDTHS = 8, 3, 120, 5, (4, 6)
weight, bias = f32(rng.normal(size=(C, H))), f32(rng.normal(size=C))
mix = rng.normal(size=(4, H))
shapes = [rng.normal(size=(H, w)) for w in WIDTHS]


def rows(n, noise):
    x = f32(rng.normal(size=(n, 4)) @ mix + noise * rng.standard_t(3, size=(n, H)))
    return [x, f32(x @ weight.T + bias), *(f32(np.tanh(x @ s) + noise * rng.normal(size=(n, s.shape[1]))) for s in shapes)]


def named(parts):
    return {"features": parts[0], "logits": parts[1], "layers": parts[2:]}


train = rows(N, 0.3)
near, far = rows(12, 0.3), rows(8, 3)
test = [np.r_[a, b, t[:2], f32(5 * b[:2])] for a, b, t in zip(near, far, train)]
test[1][[0, 13]] -= f32([[20], [90]])  # larger energies than in all other rows


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def shrunk(s, share=0.001):
    return (1 - share) * s + share * np.trace(s) / len(s) * np.eye(len(s))


def nearest(fit, classes):
    """The Mahalanobis distance to the nearest class mean, with one covariance for all classes."""
    means = np.stack([fit[classes == c].mean(0) for c in np.unique(classes)])
    about = fit - means[np.unique(classes, return_inverse=True)[1]]
    inverse = np.linalg.inv(shrunk(about.T @ about / len(fit)))
    return lambda x: np.sqrt(np.einsum("nci,ij,ncj->nc", x[:, None] - means, inverse, x[:, None] - means).min(1))


def coupled(scaled, factor):
    def fitted(fit):
        of = unit if scaled else lambda x: x
        distance = nearest(f32(of(fit[0])), fit[1].argmax(1))
        alpha = factor * fit[1].max(1).mean() / distance(of(fit[0])).mean()
        return lambda b: alpha * distance(f32(of(b[0]))) - logsumexp(b[1], axis=1)
    return fitted


def vim(fit):
    u = -np.linalg.pinv(weight) @ bias
    left = np.linalg.eigh((fit[0] - u).T @ (fit[0] - u))[1][:, ::-1][:, H // 2:]
    residual = lambda x: np.linalg.norm((x - u) @ left, axis=1)
    alpha = fit[1].max(1).mean() / residual(fit[0]).mean()
    return lambda b: alpha * residual(b[0]) - logsumexp(b[1], axis=1)


def layers(scaled):
    of = unit if scaled else lambda x: x

    def fitted(fit):
        distances = [nearest(f32(of(l)), fit[1].argmax(1)) for l in fit[2:]]
        scales = [d(f32(of(l))).mean() for d, l in zip(distances, fit[2:])]
        return lambda b: np.mean([d(f32(of(l))) / s for d, l, s in zip(distances, b[2:], scales)], axis=0)
    return fitted


def pvalues(c, s):
    c = np.sort(c)
    n = len(c)
    p = np.array([(1 + (c >= v).sum()) / (n + 1) for v in c])
    inside = np.interp(s, c, np.log(p))
    m = n // 10
    x = c[-m:] - c[-m - 1]
    # Probability-weighted moments a_s = E x (1-F)^s.
    a0, a1 = x.mean(), (x * (m - 1 - np.arange(m)) / (m - 1)).mean()
    shape, scale = 2 - a0 / (a0 - 2 * a1), 2 * a0 * a1 / (a0 - 2 * a1)
    if shape <= 0:
        shape, scale = 0, a0
    elif shape > 0.5:
        shape, scale = 0.5, a0 / 2
    tail = genpareto(shape, scale=scale)
    # P(score > s | score > largest), after the threshold c[-m-1].
    beyond = tail.logsf(np.maximum(s - c[-m - 1], x[-1])) - tail.logsf(x[-1])
    return inside + beyond, shape


drawn = permutation(N, 0, 0x73706C6974)
folds = [drawn[i * N // FOLDS:(i + 1) * N // FOLDS] for i in range(FOLDS)]


def surprise(fitted):
    held = np.concatenate([fitted([np.delete(p, fold, 0) for p in train])([p[fold] for p in train]) for fold in folds])
    log_p, shape = pvalues(held, fitted(train)(test))
    print(f"shape {shape:.3f}, least log p {log_p.min():.3g}")
    return log_p


problem = Problem("numpy", "scipy", tolerance=1e-4, absolute=1e-5, train=named(train), test=named(test), last={"weight": weight, "bias": bias})
unsure = 1 - softmax(train[1], axis=1).max(1).mean()
earlier = 0.075 + 0.4 * unsure
for method, components, weights, powers in [
    ("fused", [coupled(True, 1), vim], [1, 1], [1, 1]),
    ("fused-layers", [coupled(True, 1), layers(False), layers(True)], [1, earlier, earlier], [1, 2, 2]),
]:
    weights = np.array(weights) / sum(weights)
    surprises = np.stack([(-surprise(c)) ** q for c, q in zip(components, powers)], 1)
    fisher = 2 * len(weights) * surprises @ weights
    if method == "fused":
        assert np.allclose(fisher, [combine_pvalues(np.exp(-p), "fisher")[0] for p in surprises])
    problem.put(method, {"combine": "fisher"}, fisher)
    problem.put(method, {"combine": "harmonic"}, logsumexp(surprises, axis=1, b=weights))
problem.write("fused.json")

"""Writes features.json: scores of the methods that work on features, on a small
problem of three classes in clusters, from NumPy, SciPy and scikit-learn."""

import numpy as np
from scipy.linalg import pinvh
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from fixture import Problem, f32, take, uniforms

rng = np.random.default_rng(19)
n, h, c = 60, 6, 3

mix = rng.normal(size=(h, h)) * np.array([1, 0.7, 0.5, 0.3, 0.2, 0.05])[:, None]
centres = rng.normal(size=(c, h)) * 4 + 2
truth = rng.permutation(np.arange(n) % c)
train = f32(centres[truth] + rng.normal(size=(n, h)) @ mix)
test = f32(np.r_[
    train[:3],
    centres[rng.integers(c, size=7)] + rng.normal(size=(7, h)) @ mix,
    2 + rng.normal(size=(10, h)) * 4,
])
weight, bias = f32((centres - centres.mean(0)) / 4 + 0.2 * rng.normal(size=(c, h))), f32(rng.normal(size=c))
train_logits, test_logits = f32(train @ weight.T + bias), f32(test @ weight.T + bias)
# One row has a class of its own, and no row has class 2.
labels = np.where(truth == 2, 4, truth)
labels[7] = 3

problem = Problem("numpy", "scipy", "sklearn", train={"features": train, "logits": train_logits, "labels": labels},
                  test={"features": test, "logits": test_logits}, last={"weight": weight, "bias": bias})


def put(method, params, scores, labelled=False, **more):
    # The labels define other classes than the logits.
    problem.put(method, params, scores, without=["logits" if labelled else "labels"], **more)


def shrunk(s, share):
    return (1 - share) * s + share * np.trace(s) / h * np.eye(h)


def mahalanobis(classes, share):
    means = np.stack([train[classes == y].mean(0) for y in np.unique(classes)])
    about = train - means[np.unique(classes, return_inverse=True)[1]]
    inverse = pinvh(shrunk(about.T @ about / n, share))
    d = test[:, None] - means
    nearest = np.einsum("nci,ij,ncj->nc", d, inverse, d).min(1)
    inverse = pinvh(shrunk(np.cov(train.T, bias=True), share))
    d = test - train.mean(0)
    return nearest, nearest - np.einsum("ni,ij,nj->n", d, inverse, d)


for labelled, classes in [(False, train_logits.argmax(1)), (True, labels)]:
    for share in (0, 0.01, 0.1):
        plain, relative = mahalanobis(classes, share)
        put("mahalanobis", {"shrinkage": share}, plain, labelled=labelled)
        put("relative-mahalanobis", {"shrinkage": share}, relative, labelled=labelled)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# The method keeps the scaled rows in float32.
near = np.sort(cdist(f32(unit(test)), f32(unit(train))), axis=1)
for k in (0.001, 1, 10, 50, 100, 200, 500, 1000, 0.1):
    put("knn", {"k": k}, near[:, (min(k, n) if k >= 1 else max(1, int(k * n))) - 1])


def residual(k):
    u = -np.linalg.pinv(weight) @ bias
    _, vectors = np.linalg.eigh((train - u).T @ (train - u))
    left = vectors[:, ::-1][:, k:]
    return np.linalg.norm((train - u) @ left, axis=1), np.linalg.norm((test - u) @ left, axis=1)


for k in (0.25, 0.5, 0.75, 256, 512, 1000, 2):
    norms, scores = residual(min(k, h - 1) if k >= 1 else max(1, int(k * h)))
    put("residual", {"k": k}, scores)
    alpha = train_logits.max(1).mean() / norms.mean()
    put("vim", {"k": k}, alpha * scores - logsumexp(test_logits, axis=1))


z_train, z_test = (train - train.mean(0)) / train.std(0), (test - train.mean(0)) / train.std(0)
_, vectors = np.linalg.eigh(np.cov(z_train.T))
for max_logit in (False, True):
    for k in (0, 0.25, 0.5, 100, 3):
        dim = min(h - 1, k) if k >= 1 else int(k * h) or c - 1
        share = np.linalg.norm(z_test @ vectors[:, ::-1][:, :dim], axis=1) / np.linalg.norm(z_test, axis=1)
        put("neco", {"k": k, "max_logit": max_logit}, -share * (test_logits.max(1) if max_logit else 1))


def reconstruction_error(a, b, variance):
    a, b = a - a.mean(0), b - a.mean(0)
    u, s, _ = np.linalg.svd(a.T @ a)
    q = np.searchsorted(np.cumsum(s) / s.sum(), variance) + 1
    return np.linalg.norm(b - b @ u[:, :q] @ u[:, :q].T, axis=1)


for variance in (0.7, 0.85, 0.9, 0.95, 0.99):
    put("cop", {"variance": variance}, reconstruction_error(unit(train), unit(test), variance))


def fourier(x, m, gamma):
    uniform = uniforms(0)
    pairs = take(uniform, h * m, 2)
    normal = np.sqrt(-2 * np.log(1 - pairs[:, 0])) * np.cos(2 * np.pi * pairs[:, 1])
    phase = 2 * np.pi * take(uniform, m)
    return np.sqrt(2 / m) * np.cos(unit(x) @ (np.sqrt(2 * gamma) * normal.reshape(h, m)) + phase)


for gamma, variance, m in [(2, 0.8, 4 * h), (1, 0.7, 4 * h), (1, 0.5, 4 * h), (3, 0.5, 4 * h), (2, 0.9, 40)]:
    params = {"gamma": gamma, "variance": variance}
    if m != 4 * h:
        params["frequencies"] = m
    put("corp", params, reconstruction_error(fourier(train, m, gamma), fourier(test, m, gamma), variance))


# The clusters are well separated, so three clusters equal the classes from any start. Ten
# clusters depend on the draw, and are not compared.
for covariance in ("full", "diag"):
    for k in (1, 3):
        model = GaussianMixture(k, covariance_type=covariance, random_state=0).fit(train)
        put("gaussian-mixture", {"k": k, "covariance": covariance}, -model.score_samples(test))


for k in (10, 20, 50, 100, 3):
    model = LocalOutlierFactor(min(k, n - 1), novelty=True).fit(train)
    put("lof", {"k": k}, -model.score_samples(test))

for nu in (0.01, 0.05, 0.1, 0.5):
    for gamma, tol in [("scale", 1e-3), ("scale", 1e-8), (0.02, 1e-8)]:
        params = {"nu": nu} if gamma == "scale" else {"nu": nu, "gamma": gamma}
        # The solver's tolerance limits the precision, and attach keeps the kernel in float32.
        off = tol if tol == 1e-3 else 1e-6
        if tol != 1e-3:
            params["tolerance"] = tol
        model = OneClassSVM(nu=nu, gamma=gamma, tol=1e-10).fit(train)
        put("one-class-svm", params, -model.decision_function(test), absolute=off)

# Mean scores of many trees. The scores of a forest of few trees deviate from them.
many = {samples: -IsolationForest(n_estimators=4000, max_samples=samples, random_state=0).fit(train).score_samples(test)
        for samples in (n, 16)}
for trees, samples, tolerance in [(100, 256, 0.1), (100, 64, 0.1), (100, 1024, 0.1), (500, 256, 0.05), (5000, 256, 0.015), (5000, 16, 0.015)]:
    put("isolation-forest", {"trees": trees, "samples": samples}, many[min(samples, n)], tolerance=tolerance)

predicted, predicted_test = train_logits.argmax(1), test_logits.argmax(1)
for grid in [{"unit_norm": True, "weight": w} for w in (1, 2, 0)] + [{"unit_norm": False, "weight": w} for w in (1, 2, 0)]:
    rows, new = (f32(unit(train)), f32(unit(test))) if grid["unit_norm"] else (train, test)
    means = np.stack([rows[predicted == y].mean(0) for y in np.unique(predicted)])
    about = rows - means[np.unique(predicted, return_inverse=True)[1]]
    inverse = np.linalg.inv(shrunk(about.T @ about / n, 0.001))
    rms = lambda x: np.sqrt(np.einsum("nci,ij,ncj->nc", x[:, None] - means, inverse, x[:, None] - means).min(1) / h)
    if grid["weight"] == 0:
        put("certificates-coupled", grid, rms(new))
    else:
        alpha = grid["weight"] * train_logits.max(1).mean() / rms(rows).mean()
        put("certificates-coupled", grid, alpha * rms(new) - logsumexp(test_logits, axis=1))

for k, norm in ((0, True), (0.25, True), (0.5, True), (0.75, True), (0.9, True), (0.5, False)):
    rows, new = (unit(train), unit(test)) if norm else (train, test)
    scores = np.empty(len(test))
    for y in range(c):
        of = rows[predicted == y]
        bottom = np.linalg.eigh(of.T @ of)[1][:, :int((k or 0.5) * h)]
        scores[predicted_test == y] = ((new[predicted_test == y] @ bottom) ** 2).mean(1)
    put("certificates-class", {"k": k, "unit_norm": norm}, scores, tolerance=1e-5)  # certificates are float32

problem.write("features.json")

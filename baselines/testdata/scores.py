"""Writes scores.json: scores of methods that read only features or only logits."""
import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.decomposition import PCA

from fixture import Problem, f32

rng = np.random.default_rng(7)
mix = rng.normal(size=(6, 6)) * np.array([3, 2, 1, 0.5, 0.3, 0.1])[:, None]
train = f32(rng.normal(size=(40, 6)) @ mix + np.array([2, -1, 0.5, 0, 1, 3]))
test = f32(np.r_[
    train[:3],  # distance 0
    rng.normal(size=(5, 6)) @ mix + np.array([2, -1, 0.5, 0, 1, 3]),
    rng.normal(size=(7, 6)) * 4,
])
weight = rng.normal(size=(3, 6))
train_logits, test_logits = f32(train @ weight.T), f32(test @ weight.T)
test_logits[3] = [30, 0, -30]  # confident
test_logits[4] = [1.5, 1.5, 1.5]  # tied

problem = Problem("numpy", "scipy", "sklearn", absolute=1e-12, train={"features": train, "logits": train_logits},
                  test={"features": test, "logits": test_logits})
put = problem.put

for t in (1, 2, 10):
    p = softmax(test_logits / t, axis=1)
    s = np.sort(p, axis=1)
    put("entropy", {"temperature": t}, entropy(p, axis=1))
    put("largest", {"temperature": t}, -s[:, -1])
    put("functional", {"temperature": t}, s[:, -2] - s[:, -1])
s = np.sort(test_logits, axis=1)
put("largest", {"logits": True}, -s[:, -1])
put("functional", {"logits": True}, s[:, -2] - s[:, -1])

for lam in (1e-5, 1e-3, 1e-1, 1):
    inverse = np.linalg.inv(train.T @ train + lam * np.eye(6))
    put("covariance", {"lambda": lam}, np.einsum("ni,ij,nj->n", test, inverse, test))

distances = cdist(test, train)
for p in (0, 1, 10, 50, 100):
    put("distance", {"percentile": p}, np.percentile(distances, p, axis=1))

pca = PCA(svd_solver="full").fit(train)
vectors = pca.components_.T
vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), np.arange(6)])
for square in (False, True):
    for where in ("top", "bottom"):
        for k in (1, 10, 100, 3):
            c = vectors[:, :k] if where == "top" else vectors[:, ::-1][:, :k]
            y = (test - train.mean(0)) @ c
            put("pca", {"k": k, "where": where, "square": square}, (y**2).sum(1) if square else y.mean(1))
put("pca", {}, (((test - train.mean(0)) @ vectors[:, 3:]) ** 2).sum(1))  # the last half of the components


def certificates(lam, unit, centred, k):
    norm = (lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)) if unit else (lambda x: x)
    x, z = norm(train), norm(test)
    mean = x.mean(0) if centred else 0
    x, z = x - mean, z - mean
    gamma, v = eigh(x.T @ x / len(x))
    c = v[:, :k]
    if lam:
        c = c * np.sqrt(np.maximum(0, 1 - k * gamma[:k] / (2 * lam)))
    return ((z @ c) ** 2).mean(1)


for lam, unit, centred in [(0, True, False), (1, True, False), (10, True, False), (0, False, False), (0, True, True)]:
    params = {"lambda": lam, "unit_norm": unit}
    if centred:
        params["centred"] = True
    put("certificates", params, certificates(lam, unit, centred, 4), tolerance=1e-5)  # certificates are float32
put("certificates", {"k": 2, "lambda": 1, "unit_norm": True}, certificates(1, True, False, 2), tolerance=1e-5)
put("certificates", {"k": 0.5, "lambda": 0, "unit_norm": False, "centred": True}, certificates(0, False, True, 3), tolerance=1e-5)

problem.write("scores.json")

"""Times every method at the sizes of a network for ImageNet, and other programs at the same computations.

    python peers_time.py ATTACH [REPEATS [METHOD,METHOD…]]

Random rows like those of a network: 4 800 to fit with and 4 000 to score, 2 048
features, layers of 256, 512 and 1 024, 1 000 classes. The command ATTACH runs `attach
compare` on them, one method per process. Alternating with it, NumPy, scikit-learn or
faiss computes the same, REPEATS times (3). The smallest time of each counts, without
reading files and starting programs. The scores of both are compared if they are
defined in the same way. Prints a Markdown table.

Made with Python 3.11, NumPy 2.4.6 on OpenBLAS, scikit-learn 1.9.1, faiss-cpu 1.15.1.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import faiss
import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

N, H, C, LAYERS = 4800, 2048, 1000, (256, 512, 1024)
rng = np.random.default_rng(0)
means = rng.normal(size=(C, H)) * 0.6
mixing = rng.normal(size=(H // 4, H)) / 20
layer_mixing = [rng.normal(size=(H // 8, h)) / 16 for h in LAYERS]
layer_means = [rng.normal(size=(C, h)) * 0.3 for h in LAYERS]
weight = ((means - means.mean(0)) / 30).astype("f4")
bias = np.zeros(C, "f4")


def rows(n, shift=0.0):
    y = rng.integers(C, size=n)
    x = means[y] + rng.normal(size=(n, H // 4)) @ mixing + 0.3 * rng.normal(size=(n, H)) + shift * rng.normal(size=H)
    x = np.maximum(x, 0).astype("f4")
    layers = {
        f"layer_{i}": np.abs(m[y] + rng.normal(size=(n, H // 8)) @ b + 0.1 * rng.normal(size=(n, b.shape[1])) + shift).astype("f4")
        for i, (m, b) in enumerate(zip(layer_means, layer_mixing))
    }
    return dict(features=x, logits=x @ weight.T, labels=y, **layers)


def energy(z):
    return -logsumexp(z.astype("f8"), axis=1)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# Each function takes the fit rows and returns a function that scores other rows.


def class_means(x, y):
    present, y = np.unique(y, return_inverse=True)
    sums = np.zeros((len(present), x.shape[1]))
    np.add.at(sums, y, x.astype("f8"))
    return sums / np.bincount(y)[:, None], y


def whitened(centred, shrinkage):
    cov = centred.T @ centred / len(centred)
    h = len(cov)
    if shrinkage:
        cov = (1 - shrinkage) * cov + shrinkage * np.trace(cov) / h * np.eye(h)
        return solve_triangular(np.linalg.cholesky(cov), np.eye(h), lower=True).T
    values, vectors = np.linalg.eigh(cov)
    keep = values > h * 2**-48 * values[-1]
    return vectors[:, keep] / np.sqrt(values[keep])


def to_classes(x, y, shrinkage):
    centres, y = class_means(x, y)
    p = whitened(x - centres[y], shrinkage)
    white = centres @ p
    norms = (white**2).sum(1)

    def score(x):
        w = x @ p
        return np.maximum((w**2).sum(1) + (norms - 2 * w @ white.T).min(1), 0)

    return score


def mahalanobis(t):
    score = to_classes(t["features"], t["labels"], 0)
    return lambda b: score(b["features"])


def relative_mahalanobis(t):
    score = to_classes(t["features"], t["labels"], 0)
    mean = t["features"].mean(0, dtype="f8")
    p = whitened(t["features"] - mean, 0)
    return lambda b: score(b["features"]) - (((b["features"] - mean) @ p) ** 2).sum(1)


def mahalanobis_layers(t):
    names = [f"layer_{i}" for i in range(len(LAYERS))]
    scores = [to_classes(t[n], t["labels"], 1e-3) for n in names]
    scales = [np.sqrt(s(t[n])).mean() for s, n in zip(scores, names)]
    return lambda b: np.mean([np.sqrt(s(b[n])) / scale for s, n, scale in zip(scores, names, scales)], axis=0)


def nearest(x, k):
    index = faiss.IndexFlatL2(H)
    index.add(x)
    return lambda q: np.sqrt(np.maximum(index.search(q, k)[0][:, -1], 0))


def knn(t):
    search = nearest(unit(t["features"]), 4)
    return lambda b: search(unit(b["features"]))


def distance(t):
    search = nearest(t["features"], 1)
    return lambda b: search(b["features"])


def residual_space(t):
    origin = -np.linalg.pinv(weight.astype("f8")) @ bias
    x = t["features"] - origin
    basis = np.ascontiguousarray(np.linalg.eigh(x.T @ x / len(x))[1][:, : H - H // 2])
    return lambda x: np.linalg.norm((x - origin) @ basis, axis=1)


def residual(t):
    norms = residual_space(t)
    return lambda b: norms(b["features"])


def vim(t):
    norms = residual_space(t)
    alpha = t["logits"].max(1).mean() / norms(t["features"]).mean()
    return lambda b: alpha * norms(b["features"]) + energy(b["logits"])


def pca(t):
    mean = t["features"].mean(0, dtype="f8")
    x = t["features"] - mean
    basis = np.ascontiguousarray(np.linalg.eigh(x.T @ x / len(x))[1][:, : H // 2])
    return lambda b: (((b["features"] - mean) @ basis) ** 2).sum(1)


def reconstruction(t, share, of):
    y = of(t["features"])
    mean = y.mean(0)
    y -= mean
    values, vectors = np.linalg.eigh(y.T @ y / len(y))
    q = np.searchsorted(np.cumsum(values[::-1]), share * values.sum()) + 1
    basis = np.ascontiguousarray(vectors[:, -q:])

    def score(b):
        y = of(b["features"]) - mean
        return np.linalg.norm(y - y @ basis @ basis.T, axis=1)

    return score


def cop(t):
    return reconstruction(t, 0.85, lambda x: unit(x.astype("f8")))


def corp(t):
    frequencies = np.sqrt(4) * np.random.default_rng(1).normal(size=(H, 2048))
    phases = np.random.default_rng(2).uniform(0, 2 * np.pi, 2048)
    return reconstruction(t, 0.8, lambda x: np.sqrt(2 / 2048) * np.cos(unit(x.astype("f8")) @ frequencies + phases))


def covariance(t):
    x = t["features"].astype("f8")
    values, vectors = np.linalg.eigh(x.T @ x)
    p = vectors / np.sqrt(np.maximum(values, 0) + 1e-3)
    return lambda b: ((b["features"] @ p) ** 2).sum(1)


def neco(t):
    mean, scale = t["features"].mean(0, dtype="f8"), t["features"].std(0, dtype="f8")
    x = (t["features"] - mean) / scale
    basis = np.ascontiguousarray(np.linalg.eigh(x.T @ x / len(x))[1][:, -(C - 1) :])

    def score(b):
        x = (b["features"] - mean) / scale
        return -np.linalg.norm(x @ basis, axis=1) / np.linalg.norm(x, axis=1)

    return score


def gaussian_mixture(t):
    m = GaussianMixture(10, reg_covar=1e-6, random_state=0).fit(t["features"].astype("f8"))
    return lambda b: -m.score_samples(b["features"].astype("f8"))


def nnguide(t):
    bank = unit(t["features"]) * -energy(t["logits"]).astype("f4")[:, None]
    return lambda b: energy(b["logits"]) * np.partition(unit(b["features"]) @ bank.T, -10, axis=1)[:, -10:].mean(1)


def she(t):
    top = t["logits"].argmax(1)
    right = top == t["labels"]
    patterns = np.zeros((C, H))
    np.add.at(patterns, top[right], t["features"][right].astype("f8"))
    patterns /= np.maximum(np.bincount(top[right], minlength=C), 1)[:, None]
    return lambda b: -(b["features"] * patterns[b["logits"].argmax(1)]).sum(1)


def react(t):
    clip = np.percentile(t["features"], 90)
    return lambda b: energy(np.minimum(b["features"], clip).astype("f4") @ weight.T + bias)


def reshaping(change):
    def score(b):
        x = b["features"]
        return energy(change(x, np.partition(x, H - PRUNED, axis=1)[:, H - PRUNED]) @ weight.T + bias)

    return lambda t: score


PRUNED = 205  # number of features that percentile 90 keeps


def prune(x, least):
    kept = np.where(x >= least[:, None], x, 0)
    return kept * np.exp(x.sum(1) / kept.sum(1))[:, None]


def sharpen(x, _):
    kept = np.partition(x, H - 307, axis=1)[:, H - 307 :]
    return x * np.exp(x.sum(1) / kept.sum(1))[:, None]


def energies(t):
    return lambda b: energy(b["logits"])


def kl_matching(t):
    p = np.exp(t["logits"].astype("f8") - logsumexp(t["logits"].astype("f8"), axis=1, keepdims=True))
    top, typical = t["logits"].argmax(1), np.zeros((C, C))
    np.add.at(typical, top, p)
    seen = np.bincount(top, minlength=C)
    logs = np.log(typical[seen > 0] / seen[seen > 0][:, None])

    def score(b):
        z = b["logits"].astype("f8")
        log = z - logsumexp(z, axis=1, keepdims=True)
        p = np.exp(log)
        return (p * log).sum(1) - (p @ logs.T).max(1)

    return score


def fdbd(t):
    mean = t["features"].mean(0)
    w = weight.astype("f8")
    squares = (w**2).sum(1)
    between = np.sqrt(np.maximum(squares[:, None] + squares - 2 * w @ w.T, 0))
    np.fill_diagonal(between, 1)

    def score(b):
        z = b["features"] @ weight.T + bias
        top = z.argmax(1)
        d = ((z.max(1, keepdims=True) - z) / between[top]).sum(1) / (C - 1)
        return -d / np.linalg.norm(b["features"] - mean, axis=1)

    return score


def geometrical_features(t):
    w = weight.astype("f8")
    squares = (w**2).sum(1)
    between = np.sqrt(np.maximum(squares[:, None] + squares - 2 * w @ w.T, 0))
    np.fill_diagonal(between, 1e-30)

    def score(b):
        z = b["features"] @ weight.T + bias
        top = z.argmax(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            d = (z.max(1, keepdims=True) - z) / between[top]
        d[np.arange(len(z)), top] = np.inf
        return -d.min(1)

    return score


def gen(t):
    def score(b):
        z = b["logits"].astype("f8")
        p = np.sort(np.exp(z - logsumexp(z, axis=1, keepdims=True)), axis=1)[:, -100:]
        return (p**0.1 * (1 - p) ** 0.1).sum(1)

    return score


def isolation_forest(t):
    m = IsolationForest(random_state=0).fit(t["features"])
    return lambda b: -m.score_samples(b["features"])


def lof(t):
    m = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(t["features"])
    return lambda b: -m.score_samples(b["features"])


def one_class_svm(t):
    m = OneClassSVM(nu=0.5).fit(t["features"])
    return lambda b: -m.decision_function(b["features"])


# A method, its peer, and whether both give the same scores.
PEERS = {
    "mahalanobis": ("NumPy", mahalanobis, True),
    "relative-mahalanobis": ("NumPy", relative_mahalanobis, True),
    "mahalanobis-layers": ("NumPy, SciPy", mahalanobis_layers, True),
    "knn": ("faiss", knn, True),
    "distance": ("faiss", distance, True),
    "vim": ("NumPy", vim, True),
    "residual": ("NumPy", residual, True),
    "pca": ("NumPy", pca, True),
    "cop": ("NumPy", cop, True),
    "corp": ("NumPy", corp, False),
    "covariance": ("NumPy", covariance, True),
    "neco": ("NumPy", neco, True),
    "gaussian-mixture": ("scikit-learn", gaussian_mixture, False),
    "nnguide": ("NumPy", nnguide, True),
    "she": ("NumPy", she, True),
    "react": ("NumPy", react, True),
    "ash-s": ("NumPy", reshaping(prune), True),
    "scale": ("NumPy", reshaping(sharpen), True),
    "energy": ("NumPy, SciPy", energies, True),
    "kl-matching": ("NumPy", kl_matching, True),
    "fdbd": ("NumPy", fdbd, True),
    "geometrical-features": ("NumPy", geometrical_features, True),
    "gen": ("NumPy", gen, True),
    "isolation-forest": ("scikit-learn", isolation_forest, False),
    "lof": ("scikit-learn", lof, True),
    "one-class-svm": ("scikit-learn", one_class_svm, False),
}


def peer(fit, train, test):
    start = time.perf_counter()
    score = fit(train)
    middle = time.perf_counter()
    scores = score(test)
    return middle - start, time.perf_counter() - middle, scores


def main(attach, repeats="3", only=""):
    train, inside, outside = rows(N), rows(2000), rows(2000, 0.3)
    test = {name: np.concatenate([inside[name], outside[name]]) for name in inside}
    with tempfile.TemporaryDirectory() as folder:
        for name, arrays in ("fit", train), ("in", inside), ("out", outside), ("weights", dict(weight=weight, bias=bias)):
            np.savez(f"{folder}/{name}.npz", **arrays)
        args = [f"--{name}={folder}/{name}.npz" for name in ("fit", "in", "out", "weights")]
        listed = json.loads(subprocess.run([attach, "methods", "--json"], check=True, stdout=subprocess.PIPE).stdout)
        names = only.split(",") if only else [m["name"] for m in (listed["detectors"] if isinstance(listed, dict) else listed)]
        print("| method | fit, s | score, µs a row | peer | its fit, s | its score, µs a row | ratio of all |\n|---|---|---|---|---|---|---|")
        for name in names:
            ours, theirs = [], []
            for _ in range(int(repeats)):
                scores = f"{folder}/scores.npz"
                run = [attach, "compare", *args, "--methods", name, "--json", "--bootstrap", "0", "--scores", scores]
                done = subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                if done.returncode:  # the method needs the network
                    break
                (m,) = json.loads(done.stdout)["methods"]
                ours.append((m["fit_seconds"], m["score_us_per_input"] * 4000 / 1e6))
                with np.load(scores) as z:
                    mine = np.concatenate([z[f"{name}/in"], z[f"{name}/out"]])
                os.remove(scores)
                if name in PEERS:
                    *times, other = peer(PEERS[name][1], train, test)
                    theirs.append(times)
            if not ours:
                continue
            fit, score = min(ours, key=sum)
            line = f"| {name} | {fit:.3g} | {score / 4000 * 1e6:.3g} |"
            if theirs:
                its_fit, its_score = min(theirs, key=sum)
                line += f" {PEERS[name][0]} | {its_fit:.3g} | {its_score / 4000 * 1e6:.3g} | {(fit + score) / (its_fit + its_score):.2f} |"
                # The other program may sum in float32.
                if PEERS[name][2] and not np.allclose(mine, other, rtol=2e-3, atol=2e-3 * np.abs(other).mean()):
                    line += f" scores differ by up to {np.abs(mine - other).max():.3g}"
            else:
                line += " – | | | |"
            print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

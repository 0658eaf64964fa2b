"""Times the knn and vim detectors against faiss and NumPy.

    python peers_time.py ATTACH [REPEATS]

Random features like those of a network trained on CIFAR-10: 8 000 rows to fit
with and 10 000 to score, 512 columns, 10 classes. The command ATTACH runs
`attach compare` on them; in the same run, after each other and REPEATS times
(5), faiss's exact index finds the nearest neighbours and NumPy computes ViM: with
numpy.linalg.eig in the features' float32 as its authors do, and with
numpy.linalg.eigh in float64, the precision that attach works in. The least time
of each counts, reading files and starting programs not included. Both sides use
all processors.

Made with Python 3.11.2, NumPy 2.4.6 on OpenBLAS, faiss-cpu 1.15.1.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

import faiss
import numpy as np

FIT, SCORE, H, C, K = 8000, 10000, 512, 10, 8
rng = np.random.default_rng(0)
weight = rng.standard_normal((C, H)).astype(np.float32) / 8
bias = rng.standard_normal(C).astype(np.float32) / 8


def rows(n, noise):
    x = 4 * weight[rng.integers(C, size=n)] + noise * rng.standard_normal((n, H)) * np.linspace(0.1, 1, H)
    return np.maximum(x, 0).astype(np.float32)


def with_logits(x):
    return dict(features=x, logits=x @ weight.T + bias)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def knn(train, test):
    start = time.perf_counter()
    index = faiss.IndexFlatL2(H)
    index.add(unit(train["features"]))
    middle = time.perf_counter()
    squared, _ = index.search(unit(test["features"]), K)
    scores = np.sqrt(squared[:, -1])
    return middle - start, time.perf_counter() - middle, scores


def energy(z):
    top = z.max(1)
    return top + np.log(np.exp(z - top[:, None]).sum(1))


def vim(train, test, eigen, dtype):
    start = time.perf_counter()
    origin = -np.linalg.pinv(weight.astype(dtype)) @ bias
    x = train["features"] - origin
    values, vectors = eigen(x.T @ x / len(x))
    basis = np.ascontiguousarray(vectors[:, np.argsort(values)[: H - H // 2]])
    alpha = train["logits"].max(1).mean() / np.linalg.norm(x @ basis, axis=1).mean()
    middle = time.perf_counter()
    scores = alpha * np.linalg.norm((test["features"] - origin) @ basis, axis=1) - energy(test["logits"])
    return middle - start, time.perf_counter() - middle, scores


def main(attach, repeats=5):
    train, inside, outside = (with_logits(rows(n, noise)) for n, noise in ((FIT, 1), (SCORE // 2, 1), (SCORE // 2, 1.3)))
    test = {name: np.concatenate([inside[name], outside[name]]) for name in inside}
    peers = {
        "knn": {"faiss": knn},
        "vim": {
            "NumPy's eig, float32": lambda *rows: vim(*rows, np.linalg.eig, np.float32),
            "NumPy's eigh, float64": lambda *rows: vim(*rows, np.linalg.eigh, np.float64),
        },
    }
    times = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for name, arrays in ("fit", train), ("in", inside), ("out", outside), ("weights", dict(weight=weight, bias=bias)):
            np.savez(f"{folder}/{name}.npz", **arrays)
        args = [f"--{name}={folder}/{name}.npz" for name in ("fit", "in", "out", "weights")]
        for _ in range(int(repeats)):
            for name, others in peers.items():
                out = subprocess.run(
                    [attach, "compare", *args, "--methods", name, "--json", "--bootstrap", "0", "--scores", f"{folder}/scores.npz"],
                    check=True, stdout=subprocess.PIPE,
                )
                (m,) = json.loads(out.stdout)["methods"]
                times[name, "attach"].append((m["fit_seconds"], m["score_us_per_input"] * SCORE / 1e6))
                with np.load(f"{folder}/scores.npz") as z:
                    ours = np.concatenate([z[f"{name}/in"], z[f"{name}/out"]])
                os.remove(f"{folder}/scores.npz")
                for other, compute in others.items():
                    fit, score, theirs = compute(train, test)
                    times[name, other].append((fit, score))
                    # Theirs may be sums in float32.
                    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3)
    for name, others in peers.items():
        ours = min(times[name, "attach"], key=sum)
        print(f"{name}: attach {sum(ours):.2f} s (fit {ours[0]:.2f}, score {ours[1]:.2f})")
        for other in others:
            theirs = min(times[name, other], key=sum)
            print(f"  {other} {sum(theirs):.2f} s (fit {theirs[0]:.2f}, score {theirs[1]:.2f}): attach takes {sum(ours) / sum(theirs):.2f} times that")


if __name__ == "__main__":
    main(*sys.argv[1:])

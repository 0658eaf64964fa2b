#!/usr/bin/env python3
"""Compute out-of-distribution scores in NumPy and scikit-learn, to check
`attach compare --json`.

    python3 reference_auroc.py digits_resnet.onnx --preprocess digits.preprocess.json \\
        --fit digits_fit.npz --in digits_test.npz --out letters.npz --json > ours.json
    python3 reference_auroc.py ... --check theirs.json

With --check, the script computes every configuration in theirs.json that it
knows, and prints the largest differences. The exit status is 1 if an AUROC
differs by more than --tolerance. Configurations are skipped if the rows of --fit
do not determine them: if features are 0 on all rows, several eigenvectors have
the same eigenvalue, and it is arbitrary which of them a method keeps.
Without a model, --fit, --in and --out contain `features` and `logits`.

Files are npz with `images` (uint8 n×H×W or n×H×W×3) and `labels`; --in-classes and
--out-classes keep rows by label (--in-classes in --fit, too). φ is the input of the
last Gemm, MatMul or Conv of the graph, else --feature. Scores grow with
uncertainty and out-of-distribution is the positive class.

Written with numpy 2.4.6, onnx 1.23.2, onnxruntime 1.31.1, scikit-learn 1.9.1.
"""

import argparse
import json
import sys

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve


def preprocess(images, p):
    """Preprocess images to float32 n×C×H×W, with the Hugging Face keys that the data sets here use."""
    x = images if images.ndim == 4 else images[..., None]
    if p.get("do_resize") or p.get("do_center_crop"):
        sys.exit("resizing and cropping are not part of this reference")
    if p.get("do_pad"):
        size = p["pad_size"]
        gaps = [size["height"] - x.shape[1], size["width"] - x.shape[2]]
        x = np.pad(x, ((0, 0), *((g // 2, g - g // 2) for g in gaps), (0, 0)))
    x = x.astype(np.float32)
    if p.get("do_rescale", True):
        x *= np.float32(p.get("rescale_factor", 1 / 255))
    if p.get("do_normalize", True):
        x = (x - np.float32(p["image_mean"])) / np.float32(p["image_std"])
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2), np.float32)


class Network:
    """Run a model with the input of its last linear layer as an additional output."""

    def __init__(self, path, feature, threads):
        import onnx
        import onnxruntime

        model = onnx.load(path)
        if not feature:
            linear = [n for n in model.graph.node if n.op_type in ("Gemm", "MatMul", "Conv")]
            feature = linear[-1].input[0]
        self.output = model.graph.output[0].name
        self.feature = feature
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(feature))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.input = self.session.get_inputs()[0].name

    def __call__(self, images, p, batch=100):
        parts = [
            self.session.run([self.feature, self.output], {self.input: preprocess(images[i : i + batch], p)})
            for i in range(0, len(images), batch)
        ]
        phi, logits = (np.concatenate(c).astype(np.float64) for c in zip(*parts))
        return phi.mean((2, 3)) if phi.ndim == 4 else phi, logits


def load(path, classes, limit):
    """Return the rows of an npz whose label is in classes, as a dict of arrays."""
    z = dict(np.load(path))
    n = len(z["images"] if "images" in z else z["features"])
    keep = np.isin(z["labels"], classes) if classes else np.ones(n, bool)
    rows = np.flatnonzero(keep)[: limit or None]
    return {k: v[rows] for k, v in z.items() if len(v) == n}


def softmax(z, temperature):
    z = z / temperature
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def entropy(fit, p):
    q = lambda z: softmax(z, p.get("temperature", 1))
    return lambda phi, z: -np.sum(q(z) * np.log(np.maximum(q(z), 1e-300)), 1)


def top_two(z, p):
    s = np.sort(z if p.get("logits") else softmax(z, p.get("temperature", 1)), 1)
    return s[:, -1], s[:, -2]


def largest(fit, p):
    return lambda phi, z: -top_two(z, p)[0]


def functional(fit, p):
    return lambda phi, z: np.subtract(*reversed(top_two(z, p)))


def covariance(fit, p):
    inverse = np.linalg.inv(fit.T @ fit + p.get("lambda", 1e-3) * np.eye(fit.shape[1]))
    return lambda phi, z: np.einsum("ni,ij,nj->n", phi, inverse, phi, optimize=True)


def distance(fit, p):
    square = (fit**2).sum(1)

    def score(phi, z):
        out = []
        for rows in np.array_split(phi, -(-len(phi) // 256)):
            d = (rows**2).sum(1)[:, None] + square - 2 * rows @ fit.T
            out.append(np.percentile(np.sqrt(np.maximum(d, 0)), p.get("percentile", 0), axis=1))
        return np.concatenate(out)

    return score


def pca_components(fit, p):
    mean = fit.mean(0)
    values, vectors = np.linalg.eigh((fit - mean).T @ (fit - mean))
    if p.get("where", "bottom") == "top":
        values, vectors = values[::-1], vectors[:, ::-1]
    return mean, values, vectors, int(min(p.get("k", 10), fit.shape[1]))


def pca(fit, p):
    mean, _, vectors, k = pca_components(fit, p)
    c = vectors[:, :k]
    if p.get("square", True):
        return lambda phi, z: (((phi - mean) @ c) ** 2).sum(1)
    c = c * np.sign(c[np.abs(c).argmax(0), np.arange(k)])
    return lambda phi, z: ((phi - mean) @ c).mean(1)


def certificates_k(h, p):
    k = p.get("k", 0) or 3 * h // 4
    return max(1, int(k * h if k < 1 else k))


def determined(name, fit, p):
    """Return whether the rows determine the first k eigenvectors. They do not if the
    k-th and the next eigenvalue are equal up to rounding. For a sum of signed
    projections, all of the first k+1 eigenvalues must differ."""
    if name == "pca":
        _, values, _, k = pca_components(fit, p)
        first = k - 1 if p.get("square", True) else 0
    elif name == "certificates":
        rows = fit / np.linalg.norm(fit, axis=1, keepdims=True) if p.get("unit_norm", True) else fit
        rows = rows - rows.mean(0) if p.get("centred") else rows
        values, k = np.linalg.eigvalsh(rows.T @ rows), certificates_k(fit.shape[1], p)
        first = k - 1
    else:
        return True
    gaps = np.abs(np.diff(values))[first:k]
    return not (gaps < 1e-12 * np.abs(values).max()).any()


def certificates(fit, p):
    """Return the bottom k eigenvectors of the second moment. With λ > 0, the
    eigenvector of eigenvalue γ is scaled by √max(0, 1−kγ/2λ)."""

    def rows(phi):
        return phi / np.linalg.norm(phi, axis=1, keepdims=True) if p.get("unit_norm", True) else phi

    h = fit.shape[1]
    k = certificates_k(h, p)
    f = rows(fit)
    mean = f.mean(0) if p.get("centred") else np.zeros(h)
    values, vectors = np.linalg.eigh((f - mean).T @ (f - mean) / len(f))
    c = vectors[:, :k]
    if p.get("lambda", 0) > 0:
        c = c * np.sqrt(np.maximum(0, 1 - k * np.maximum(values[:k], 0) / (2 * p["lambda"])))
    return lambda phi, z: (((rows(phi) - mean) @ c) ** 2).mean(1)


TEMPERATURES = [{"temperature": t} for t in (1.0, 2.0, 10.0)]
METHODS = {
    "certificates": (
        certificates,
        [{"lambda": l, "unit_norm": u} for u in (True, False) for l in (0.0, 1.0, 10.0)]
        + [{"lambda": 0.0, "unit_norm": True, "centred": True}],
    ),
    "covariance": (covariance, [{"lambda": l} for l in (1e-5, 1e-3, 1e-1, 1.0)]),
    "distance": (distance, [{"percentile": q} for q in (0.0, 1.0, 10.0, 50.0)]),
    "entropy": (entropy, TEMPERATURES),
    "functional": (functional, TEMPERATURES + [{"logits": True}]),
    "largest": (largest, TEMPERATURES + [{"logits": True}]),
    "pca": (
        pca,
        [
            {"k": k, "where": w, "square": s}
            for s in (False, True)
            for w in ("top", "bottom")
            for k in (1.0, 10.0, 100.0)
        ],
    ),
}


def metrics(inside, outside):
    y = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    s = np.r_[inside, outside]
    fpr, tpr, _ = roc_curve(y, s, drop_intermediate=False)
    return {
        "auroc": roc_auc_score(y, s),
        "fpr95": fpr[tpr >= 0.95].min(),
        "aupr_in": average_precision_score(1 - y, -s),
        "aupr_out": average_precision_score(y, s),
    }


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("model", nargs="?", help="ONNX file; none: the npz files hold features and logits")
    for name in ("fit", "in", "out"):
        p.add_argument("--" + name, required=True, dest=name + "_path", help="npz")
    p.add_argument("--preprocess", help="JSON")
    p.add_argument("--in-classes", default="")
    p.add_argument("--out-classes", default="")
    p.add_argument("--limit", type=int, default=0, help="first rows of each set to use (default: all)")
    p.add_argument("--feature", help="tensor that holds φ")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--k", type=float, help="certificates: k instead of three quarters of the features")
    p.add_argument("--json", action="store_true", help="print JSON instead of a table")
    p.add_argument("--check", help="output of `attach compare --json` to compare with")
    p.add_argument("--tolerance", type=float, default=1e-3)
    a = p.parse_args()

    number = lambda s: [int(c) for c in s.split(",") if c]
    wanted = {name: grid for name, (_, grid) in METHODS.items()}
    if a.k is not None:
        wanted["certificates"] = [{**g, "k": a.k} for g in wanted["certificates"]]
    theirs = None
    if a.check:
        with open(a.check) as f:
            theirs = {m["name"]: m["configs"] for m in json.load(f)["methods"]}
        unknown = sorted(set(theirs) - set(METHODS))
        wanted = {name: [c["params"] for c in theirs[name]] for name in METHODS if name in theirs}

    sets = [
        load(a.fit_path, number(a.in_classes), a.limit),
        load(a.in_path, number(a.in_classes), a.limit),
        load(a.out_path, number(a.out_classes), a.limit),
    ]
    if a.model:
        config = {}
        if a.preprocess:
            with open(a.preprocess) as f:
                config = json.load(f)
        network = Network(a.model, a.feature, a.threads)
        sets = [network(s["images"], config) for s in sets]
    else:
        sets = [(s["features"].astype(np.float64), s["logits"].astype(np.float64)) for s in sets]

    (fit, _), inside, outside = sets
    report = {"model": a.model, "n_fit": len(fit), "n_in": len(inside[0]), "n_out": len(outside[0]), "methods": []}
    for name, grid in wanted.items():
        configs = []
        for params in grid:
            score = METHODS[name][0](fit, params)
            configs.append({
                "params": params,
                "determined": determined(name, fit, params),
                **metrics(score(*inside), score(*outside)),
            })
        report["methods"].append({"name": name, "configs": configs})

    if a.json:
        json.dump(report, sys.stdout, indent=1)
        print()
    elif not a.check:
        for m in report["methods"]:
            for c in m["configs"]:
                print(f"{m['name']:14} {c['auroc']:.4f}  fpr95 {c['fpr95']:.4f}  {json.dumps(c['params'])}")
    if theirs is None:
        return
    worst = 0.0
    out = sys.stderr if a.json else sys.stdout
    for m in report["methods"]:
        for c, t in zip(m["configs"], theirs[m["name"]]):
            gaps = {k: abs(c[k] - t[k]) for k in ("auroc", "fpr95", "aupr_in", "aupr_out") if k in t}
            shown = "  ".join(f"Δ{k} {v:.1e}" for k, v in gaps.items())
            if c["determined"]:
                worst = max(worst, gaps["auroc"])
            else:
                shown += "  not determined"
            print(f"{m['name']:14} {c['auroc']:.4f} {t['auroc']:.4f}  {shown}  {json.dumps(c['params'])}", file=out)
    print(f"largest difference of an AUROC: {worst:.1e}; not compared: {', '.join(unknown) or 'none'}", file=out)
    if not worst <= a.tolerance:
        sys.exit(1)


if __name__ == "__main__":
    main()

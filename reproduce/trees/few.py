"""Which intervals suit a model with 30 to 300 calibration rows?

    few.py ATTACH DIR [DRAWS] [TABLES] [RETRAINED]

ATTACH is the command, and DIR holds california.csv and the UCI sets in uci/. A model is trained
on half of at most 9,000 rows. Each draw takes calibration rows and 500 rows to measure on from
the other half. For "south", the model is trained on the northern half of California, and all
other rows are from the southern half.

Prints the mean over draws for each table, model and number of calibration rows: the Winkler
score beside that of split conformal prediction, the coverage of 90 % intervals, and the standard
deviation of the coverage over draws.

    split  split conformal prediction: all intervals have the same width
    fit    attach fit without options
    ridge  the same interval model with --interval-score ridge
    cross  attach fit --interval-rows cross
    MAPIE  CrossConformalRegressor with the method "plus" and 10 folds, which trains the model
           anew on the rows of the other folds and on all training rows; RETRAINED draws

The interval model of fit and its score come from the training rows, so attach fits it once, and
the calibration is done here. Only its choice to learn from a surrogate model has seen all
calibration rows.

Run with Python 3.11, NumPy 2.4, scikit-learn 1.9.1, LightGBM 4.7.0, XGBoost 3.2.0, MAPIE 1.6.0
and onnxmltools 1.16.0.
"""
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from lightgbm import LGBMRegressor
from mapie.regression import CrossConformalRegressor
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from xgboost import XGBRegressor

LEVEL, ROWS, TEST = 0.9, 9000, 500
UCI = {"concrete": "concrete", "kin8nm": "kin8nm", "power": "power-plant"}
MODELS = {
    "LightGBM": (LGBMRegressor(n_estimators=200, random_state=0, n_jobs=1, verbose=-1), convert_lightgbm),
    "XGBoost": (XGBRegressor(n_estimators=300, max_depth=8, learning_rate=0.1, random_state=0, n_jobs=1), convert_xgboost),
}
COMMAND, DIR = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])


def load(name):
    """Returns inputs and targets, with the rows that train the model first."""
    if name in UCI:
        table = np.loadtxt(DIR / "uci" / f"{UCI[name]}.txt")
    else:
        table = np.loadtxt(DIR / "california.csv", delimiter=",", skiprows=1)
    table = table[np.random.default_rng(0).permutation(len(table))[:ROWS]].astype(np.float32)
    if name == "south":
        latitude = (DIR / "california.csv").open().readline().strip().split(",").index("Latitude")
        table = table[np.argsort(-table[:, latitude], kind="stable")]
    return table[:, :-1], table[:, -1]


def rank(n):
    return min(n, int(np.ceil(LEVEL * (n + 1) - 1e-9))) - 1


def measure(y, low, high):
    winkler = high - low + 2 / (1 - LEVEL) * np.maximum(np.maximum(low - y, y - high), 0)
    return winkler.mean(), ((low <= y) & (y <= high)).mean()


def units(score, low, median, high):
    """Returns the units in which a nonconformity score moves the ends of intervals."""
    if score == "cqr":
        return np.ones_like(low), np.ones_like(low)
    return (median - low, high - median) if score == "cqr-m" else (high - low, high - low)


def conformalized(units, low, high, y, cal, test):
    below, above = (np.maximum(u, 1e-30) for u in units)
    margin = np.sort(np.maximum((low - y) / below, (y - high) / above)[cal])[rank(len(cal))]
    return low[test] - margin * below[test], high[test] + margin * above[test]


def ridge(median, width, y, cal, test):
    """Returns the intervals of the score ridge. Columns of matrices are the calibration rows and a new row."""
    penalty = 30
    rows = np.hstack([np.tile(cal, (len(test), 1)), np.array(test)[:, None]])
    least = [0.1 * w[w > 0][(w > 0).sum() // 2] for w in np.sort(width[rows])]
    scale = np.maximum(width[rows], np.array(least)[:, None])
    x = median[rows] - median[rows].mean(axis=1, keepdims=True)
    x /= x.std(axis=1, keepdims=True)
    n = rows.shape[1]
    error = (y - median)[rows] / scale
    error[:, -1] = 0
    own = x[:, -1:]
    offset = error - error.mean(axis=1, keepdims=True) - x * (error * x).sum(axis=1, keepdims=True) / (n + penalty)
    slope = -1 / n - x * own / (n + penalty)
    slope[:, -1] += 1
    deviation = np.sqrt(1 - 1 / n - x**2 / (n + penalty))
    offset, slope = offset / deviation, slope / deviation
    a = (offset[:, :-1] - offset[:, -1:]) / (slope[:, -1:] - slope[:, :-1])
    b = -(offset[:, :-1] + offset[:, -1:]) / (slope[:, -1:] + slope[:, :-1])
    place = n - 1 - rank(n - 1)  # as many scores may be smaller than that of the new row
    low, high = np.sort(np.minimum(a, b))[:, place - 1], np.sort(np.maximum(a, b))[:, -place]
    return median[test] + low * scale[:, -1], median[test] + high * scale[:, -1]


def attach(folder, *args):
    done = subprocess.run([COMMAND, *args], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def fit(folder, rows, *flags):
    attach(folder, "fit", "m.onnx", "--x", "x.npz", "--rows", f":{rows}", "--cal", "cal.npz", "--no-detector", "-o", "m.attach", *flags)


def save(folder, name, x, y):
    np.savez(folder / f"{name}.npz", x=x, y=y)


def run(name, model, convert, draws, folder):
    x, y = load(name)
    half = len(y) // 2
    model.fit(x[:half], y[:half])
    graph = convert(model, initial_types=[("x", FloatTensorType([None, x.shape[1]]))], **({"zipmap": False} if convert is convert_lightgbm else {}))
    (folder / "m.onnx").write_bytes(graph.SerializeToString())
    prediction = model.predict(x).astype(np.float32)
    errors = y - prediction
    save(folder, "x", x[:half], y[:half])
    save(folder, "cal", x[half:], y[half:])
    fit(folder, half)
    score = json.loads(attach(folder, "inspect", "m.attach", "--json")).get("interval_score", "cqr")
    if score == "cir":
        sys.exit("the score cir is not calculated here")
    attach(folder, "predict", "m.attach", "--x", "cal.npz", "--quantiles", "0.05,0.5,0.95", "-o", "out.npz")
    out = np.load(folder / "out.npz")
    low, median, high = (np.append(np.zeros(half), out[q].ravel()) for q in ("q0.05", "q0.5", "q0.95"))
    for n in (30, 60, 100, 300):
        found = {}
        for draw in range(draws):
            order = half + np.random.default_rng(draw + 1).permutation(len(y) - half)
            cal, test = order[:n], order[n:n + TEST]
            margin = np.sort(np.abs(errors[cal]))[rank(n)]
            found.setdefault("split", []).append(measure(errors[test], -margin, margin))
            found.setdefault("fit", []).append(measure(y[test], *conformalized(units(score, low, median, high), low, high, y, cal, test)))
            found.setdefault("ridge", []).append(measure(y[test], *ridge(median, high - low, y, cal, test)))
            save(folder, "cal", x[cal], y[cal])
            save(folder, "test", x[test], y[test])
            fit(folder, 200, "--interval-rows", "cross")  # --x only scales the inputs
            attach(folder, "predict", "m.attach", "--x", "test.npz", "-o", "out.npz")
            out = np.load(folder / "out.npz")
            found.setdefault("cross", []).append(measure(y[test], out["lower"].ravel(), out["upper"].ravel()))
            if draw < retrained:
                m = CrossConformalRegressor(model, confidence_level=LEVEL, method="plus", cv=10)
                rows = np.r_[:half, cal]
                _, ends = m.fit_conformalize(x[rows], y[rows]).predict_interval(x[test])
                found.setdefault("MAPIE", []).append(measure(y[test], ends[:, 0, 0], ends[:, 1, 0]))
        split = [w for w, _ in found["split"]]
        cells = [f"{np.mean([w for w, _ in m]) / np.mean(split[:len(m)]):.2f} {np.mean([c for _, c in m]):.3f} ±{np.std([c for _, c in m]):.3f}" for m in found.values()]
        yield n, cells


draws = int(sys.argv[3]) if len(sys.argv) > 3 else 100
retrained = int(sys.argv[5]) if len(sys.argv) > 5 else 1
warnings.filterwarnings("ignore")
for name in sys.argv[4].split(",") if len(sys.argv) > 4 else ["california", "south", "kin8nm", "concrete"]:
    for title, (model, convert) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            for n, cells in run(name, model, convert, draws, Path(folder)):
                print(f"| {name}, {title} | {n} | " + " | ".join(cells) + " |", flush=True)

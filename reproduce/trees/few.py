"""Which intervals suit a model with 30 to 300 calibration rows?

    few.py ATTACH DIR [DRAWS] [TABLES]

ATTACH is the command, and DIR holds california.csv and the UCI sets in uci/. A model is trained
on half of at most 9,000 rows. Each draw takes calibration rows and 500 rows to measure on from
the other half. For "south", the model is trained on the northern half of California, and all
other rows are from the southern half.

Prints the mean over draws for each table, model and number of calibration rows: the Winkler
score beside that of split conformal prediction, the coverage of 90 % intervals, and the standard
deviation of the coverage over draws.

    split  split conformal prediction: all intervals have the same width
    x      attach fit --interval-rows x, with the quantile forest that cross has by default
    cross  attach fit --interval-rows cross
    MAPIE  CrossConformalRegressor with the method "plus" and 10 folds, which trains the model
           anew on the rows of the other folds and on all training rows; 1 draw

The interval model of x does not depend on the calibration rows, so attach fits it once, and the
calibration is done here.

Run with Python 3.11, NumPy 2.4, scikit-learn 1.9.1, LightGBM 4.7.0, XGBoost 3.2.0, MAPIE 1.6.0
and onnxmltools 1.16.0.
"""
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

LEVEL, ROWS, TEST, RETRAINED = 0.9, 9000, 500, 1
FOREST = ["--interval", "quantile-forest", "--interval-param", "n_estimators=50,min_samples_leaf=5"]
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


def attach(folder, *args):
    done = subprocess.run([COMMAND, *args], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


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
    fit(folder, half, "--interval-rows", "x", *FOREST)
    attach(folder, "predict", "m.attach", "--x", "cal.npz", "--quantiles", "0.05,0.95", "-o", "out.npz")
    out = np.load(folder / "out.npz")
    low, high = np.zeros(len(y)), np.zeros(len(y))
    low[half:], high[half:] = out["q0.05"].ravel(), out["q0.95"].ravel()
    for n in (30, 60, 100, 300):
        found = {}
        for draw in range(draws):
            order = half + np.random.default_rng(draw + 1).permutation(len(y) - half)
            cal, test = order[:n], order[n:n + TEST]
            margin = np.sort(np.abs(errors[cal]))[rank(n)]
            found.setdefault("split", []).append(measure(errors[test], -margin, margin))
            margin = np.sort(np.maximum(low[cal] - y[cal], y[cal] - high[cal]))[rank(n)]
            found.setdefault("x", []).append(measure(y[test], low[test] - margin, high[test] + margin))
            save(folder, "cal", x[cal], y[cal])
            save(folder, "test", x[test], y[test])
            fit(folder, 200, "--interval-rows", "cross")  # --x only scales the inputs
            attach(folder, "predict", "m.attach", "--x", "test.npz", "-o", "out.npz")
            out = np.load(folder / "out.npz")
            found.setdefault("cross", []).append(measure(y[test], out["lower"].ravel(), out["upper"].ravel()))
            if draw < RETRAINED:
                m = CrossConformalRegressor(model, confidence_level=LEVEL, method="plus", cv=10)
                rows = np.r_[:half, cal]
                _, ends = m.fit_conformalize(x[rows], y[rows]).predict_interval(x[test])
                found.setdefault("MAPIE", []).append(measure(y[test], ends[:, 0, 0], ends[:, 1, 0]))
        split = [w for w, _ in found["split"]]
        cells = [f"{np.mean([w for w, _ in m]) / np.mean(split[:len(m)]):.2f} {np.mean([c for _, c in m]):.3f} ±{np.std([c for _, c in m]):.3f}" for m in found.values()]
        yield n, cells


draws = int(sys.argv[3]) if len(sys.argv) > 3 else 100
warnings.filterwarnings("ignore")
for name in sys.argv[4].split(",") if len(sys.argv) > 4 else ["california", "south", "kin8nm", "concrete"]:
    for title, (model, convert) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            for n, cells in run(name, model, convert, draws, Path(folder)):
                print(f"| {name}, {title} | {n} | " + " | ".join(cells) + " |", flush=True)

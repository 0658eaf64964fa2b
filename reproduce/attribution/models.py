"""Trains the models of tables for `reproduce attribution`.

    models.py DATA OUT

DATA is the folder with california.csv, abalone.csv and uci/. For each table, OUT gets
NAME.npz with the arrays x_fit, y_fit, x_cal, y_cal and x_test, and the models
NAME-forest.onnx (50 trees) and NAME-mlp.onnx (two layers of 32). The models are trained on
half of the rows, and their targets are standardised.

Run with Python 3.11, NumPy 2.4.6, scikit-learn 1.9.1, skl2onnx 1.20.0.
"""
import sys
from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

data, out = Path(sys.argv[1]), Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)


def tables():
    yield "california", np.loadtxt(data / "california.csv", delimiter=",", skiprows=1)
    yield "abalone", np.loadtxt(data / "abalone.csv", delimiter=",", usecols=range(1, 9))
    for name in "concrete", "wine-quality-red", "power-plant", "naval-propulsion-plant", "energy", "kin8nm":
        yield name, np.loadtxt(data / "uci" / f"{name}.txt")


for name, rows in tables():
    rows = np.random.default_rng(1).permutation(rows.astype(np.float32))
    x, y, n = rows[:, :-1], rows[:, -1], len(rows)
    fit, cal = slice(0, n // 2), slice(n // 2, n * 3 // 4)
    y = (y - y[fit].mean()) / y[fit].std()  # a network learns the small targets of naval only so
    np.savez(out / f"{name}.npz", x_fit=x[fit], y_fit=y[fit, None], x_cal=x[cal], y_cal=y[cal, None], x_test=x[n * 3 // 4:])
    models = {
        "forest": RandomForestRegressor(50, min_samples_leaf=3, random_state=1),
        "mlp": make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(32, 32), max_iter=300, random_state=1)),
    }
    for kind, model in models.items():
        model.fit(x[fit], y[fit])
        print(name, kind, round(model.score(x[cal], y[cal]), 3), flush=True)
        (out / f"{name}-{kind}.onnx").write_bytes(to_onnx(model, x[:1]).SerializeToString())

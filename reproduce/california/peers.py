"""Intervals attached to a regressor of California housing, beside those of MAPIE.

    peers.py ATTACH CALIFORNIA.csv MODEL.onnx [SEEDS [METHODS]]

ATTACH is the command, MODEL.onnx a regressor of the table's eight columns. For every
seed 12 000 rows are fitted on, 4 000 calibrate and 4 640 are measured on, at 90 %:

    split      MAPIE's split conformal prediction around the network's own answer
    lightgbm   MAPIE's conformalized quantile regression of LightGBM on the columns
    trees      the same of 1 000 trees in place of 100, with a learning rate of .05
    attach     `attach fit` on the network and `attach predict`, as they are
    groups     the same with --groups, which calibrates by region

The region of a row is the nearest of six cities; tenths are of the network's
prediction, the same for every method. METHODS are names with commas between. Prints Markdown
tables, means over seeds. The last one has attach's mean width at several levels.

Run with Python 3.11, NumPy 2.4.6, MAPIE 1.6.0, scikit-learn 1.9.1, LightGBM 4.7.0 and
onnxruntime 1.32.0.
"""
import csv
import logging
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
from lightgbm import LGBMRegressor
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.base import BaseEstimator, RegressorMixin

LEVEL = .9
LEVELS = .5, .8, LEVEL, .95, .99
CITIES = {
    "Los Angeles": (34.05, -118.25), "San Diego": (32.72, -117.16), "San Francisco": (37.77, -122.42),
    "San Jose": (37.34, -121.89), "Sacramento": (38.58, -121.49), "Fresno": (36.74, -119.79),
}


class Network(RegressorMixin, BaseEstimator):
    def __init__(self, path):
        self.path = path
        self.session_ = onnxruntime.InferenceSession(path)

    def fit(self, x, y):
        return self

    def predict(self, x):
        return self.session_.run(None, {self.session_.get_inputs()[0].name: np.asarray(x, np.float32)})[0].ravel().astype(float)


def split(network, x, y, fit, cal, test):
    m = SplitConformalRegressor(network, confidence_level=LEVEL).conformalize(x[cal], y[cal])
    return m.predict_interval(x[test])[1][:, :, 0]


def lightgbm(network, x, y, fit, cal, test, **parameters):
    models = [LGBMRegressor(objective="quantile", alpha=a, random_state=0, n_jobs=1, verbose=-1, **parameters).fit(x[fit], y[fit])
              for a in ((1 - LEVEL) / 2, (1 + LEVEL) / 2, .5)]
    m = ConformalizedQuantileRegressor(models, confidence_level=LEVEL, prefit=True).conformalize(x[cal], y[cal])
    return m.predict_interval(x[test])[1][:, :, 0]


def attach(network, x, y, fit, cal, test, groups=None):
    with tempfile.TemporaryDirectory() as folder:
        at = {name: f"{folder}/{name}.npz" for name in ("fit", "cal", "test")}
        for name, rows in (("fit", fit), ("cal", cal), ("test", test)):
            extra = {} if groups is None else {"region": groups[rows]}
            np.savez(at[name], x=x[rows], y=y[rows].astype(np.float32), **extra)
        by = [] if groups is None else ["--groups", "region"]
        bundle, out = f"{folder}/m.attach", f"{folder}/out.npz"
        call = lambda *args: subprocess.run([COMMAND, *args, *by], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        call("fit", network.path, "--x", at["fit"], "--cal", at["cal"], "-o", bundle)
        for level in LEVELS:
            call("predict", bundle, "--x", at["test"], "--level", str(level), "-o", out)
            p = np.load(out)
            ends = np.stack([p["lower"], p["upper"]], 1)
            if level == LEVEL:
                at_level = ends
            if groups is None:
                WIDTHS[level].append((ends[:, 1] - ends[:, 0]).mean())
        return at_level


WIDTHS = {level: [] for level in LEVELS}  # of attach, one for each seed
COMMAND, table, model = sys.argv[1:4]
seeds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
warnings.filterwarnings("ignore")
logging.disable(logging.INFO)
rows = list(csv.reader(Path(table).open()))
data = np.array(rows[1:], np.float32)
x, y = data[:, :8], data[:, 8].astype(float)
network = Network(model)
predicted = network.predict(x)
away = np.stack([np.hypot(x[:, 6] - lat, (x[:, 7] - lon) * np.cos(np.radians(lat))) for lat, lon in CITIES.values()])
region = away.argmin(0)

METHODS = {
    "split": split, "lightgbm": lightgbm,
    "trees": lambda *a: lightgbm(*a, n_estimators=1000, learning_rate=.05),
    "attach": attach,
    "groups": lambda *a: attach(*a, groups=region),
}
if len(sys.argv) > 5:
    METHODS = {name: METHODS[name] for name in sys.argv[5].split(",")}
found = {name: [] for name in METHODS}
for seed in range(seeds):
    order = np.random.default_rng(seed).permutation(len(y))
    fit, cal, test = order[:12000], order[12000:16000], order[16000:]
    tenth = np.empty(len(test), int)
    tenth[predicted[test].argsort()] = np.arange(len(test)) * 10 // len(test)
    for name, method in METHODS.items():
        ends = method(network, x, y, fit, cal, test)
        hit = (ends[:, 0] <= y[test]) & (y[test] <= ends[:, 1])
        width = ends[:, 1] - ends[:, 0]
        by = lambda of, n: [[v[of == i].mean() for i in range(n)] for v in (hit, width)]
        found[name].append(([hit.mean(), width.mean()], *by(region[test], len(CITIES)), *by(tenth, 10)))
        print(seed, name, "%.4f %.4f" % tuple(found[name][-1][0]), file=sys.stderr, flush=True)

mean = {name: [np.mean(part, 0) for part in zip(*runs)] for name, runs in found.items()}
spread = {name: np.std([run[0] for run in runs], 0, ddof=1) if seeds > 1 else np.zeros(2) for name, runs in found.items()}
counts = np.bincount(region, minlength=len(CITIES)) / len(y)
print(f"{seeds} splits, mean (deviation over splits)\n")
print("| | coverage | width | " + " | ".join(f"{city}, {n:.0%}" for city, n in zip(CITIES, counts)) + " |")
print("|" + "---|" * (3 + len(CITIES)))
for name, (overall, hits, widths, _, _) in mean.items():
    print(f"| {name} | {overall[0]:.3f} ({spread[name][0]:.3f}) | {overall[1]:.3f} ({spread[name][1]:.3f}) | "
          + " | ".join(f"{h:.3f} ({w:.2f})" for h, w in zip(hits, widths)) + " |")
print("\n| tenth of the prediction | " + " | ".join(str(i + 1) for i in range(10)) + " |")
print("|" + "---|" * 11)
for name, (_, _, _, hits, widths) in mean.items():
    print(f"| {name} | " + " | ".join(f"{h:.3f} ({w:.2f})" for h, w in zip(hits, widths)) + " |")
if WIDTHS[LEVEL]:
    print("\n| level | " + " | ".join(map(str, LEVELS)) + " |\n" + "|---" * (1 + len(LEVELS)) + "|")
    print("| width of attach | " + " | ".join(f"{np.mean(w):.2f}" for w in WIDTHS.values()) + " |")

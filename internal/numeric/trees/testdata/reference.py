"""Writes reference.json: trees, quantile forests and boosted quantiles.

Made with Python 3.11.2, NumPy 1.24.2, scikit-learn 1.2.1. The results do not depend on
random choices: trees search all columns and splits, the bootstrap counts are part of the
file, and no two splits are equally good.
"""
import json

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

LEVELS = [0.03, 0.1, 0.5, 0.77, 0.97]


def problem(seed, n, d):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32)
    x[:, 0] = np.round(x[:, 0] * 4) / 4  # ties
    y = (np.sin(2 * x[:, 0]) + x[:, 1] + (0.2 + np.abs(x[:, 2])) * rng.normal(size=n)).astype(np.float32)
    return rng, x, y


def unique(fit, x):
    """Reports whether no split is tied, so that ties cannot change the predictions.

    fit is a function of a seed and a sign. The seed changes the order of columns, and a
    negative sign reverses the order of rows."""
    rows = np.r_[x, 2 * np.random.default_rng(0).normal(size=(2000, x.shape[1]))].astype(np.float32)
    first = fit(0, 1).predict(rows)
    return all(np.abs(fit(seed, sign).predict(sign * rows) - first).max() < 1e-12 for seed in range(8) for sign in (1, -1))


def nested(t, i=0):
    if t.children_left[i] < 0:
        return int(t.n_node_samples[i])
    return [int(t.feature[i]), float(t.threshold[i]), nested(t, t.children_left[i]), nested(t, t.children_right[i])]


rng, x, y = problem(1, 80, 4)
test = rng.normal(size=(40, 4)).astype(np.float32)
forests = []
for options in [
    {"max_depth": 2, "min_samples_split": 3},
    {"max_depth": 5, "min_samples_split": 9},
    {"min_samples_leaf": 4},
    {"min_samples_split": 10},
]:
    counts, trees, weights = [], [], np.zeros((len(test), len(y)))
    while len(trees) < 7:
        c = np.bincount(rng.integers(len(y), size=len(y)), minlength=len(y))
        bag = c > 0
        def fit(seed, sign):
            return DecisionTreeRegressor(random_state=seed, **options).fit(
                sign * x[bag], y[bag].astype(np.float64), sample_weight=c[bag])
        if not unique(fit, x):  # in a small node, two columns give equal splits
            continue
        tree = fit(0, 1)
        counts.append(c.tolist())
        trees.append(nested(tree.tree_))
        # Meinshausen (2006), equations 4 and 5.
        same = (tree.apply(test)[:, None] == tree.apply(x)[None, :]) * c
        weights += same / same.sum(1, keepdims=True) / 7
    order = np.argsort(y)
    cdf = np.cumsum(weights[:, order], axis=1)
    quantiles = [[float(y[order][np.searchsorted(row, tau - 1e-9)]) for tau in LEVELS] for row in cdf]
    forests.append({"options": options, "counts": counts, "trees": trees, "quantiles": quantiles})

boosting = []
# The gradient has only two values, so gains of splits often tie. Use only problems in which
# no tie changes the predictions.
for options in [
    {"max_depth": 3, "min_samples_leaf": 5, "min_samples_split": 12, "n_estimators": 20, "learning_rate": 0.1},
    {"max_depth": 2, "min_samples_leaf": 3, "min_samples_split": 2, "n_estimators": 30, "learning_rate": 0.3},
    {"max_depth": 1, "min_samples_leaf": 1, "min_samples_split": 2, "n_estimators": 40, "learning_rate": 0.1},
]:
    for tau in (0.1, 0.5, 0.77):
        for seed in range(2000):
            rng, bx, by = problem(seed, 120, 3)
            rows = rng.normal(size=(20, 3)).astype(np.float32)
            def fit(s, sign):
                return GradientBoostingRegressor(loss="quantile", alpha=tau, random_state=s, **options).fit(
                    sign * bx, by.astype(np.float64))
            if unique(fit, bx):
                break
        else:
            raise SystemExit("no problem without ties")
        print(options, tau, seed)
        boosting.append({"options": options, "level": tau, "x": bx.tolist(), "y": by.tolist(), "test": rows.tolist(), "predicted": fit(0, 1).predict(rows).tolist()})

with open("reference.json", "w") as f:
    json.dump({"levels": LEVELS, "x": x.tolist(), "y": y.tolist(), "test": test.tolist(), "forests": forests, "boosting": boosting}, f)

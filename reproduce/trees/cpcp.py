"""Do the density weights of CPCP improve intervals whose width is learned?

    cpcp.py DIR [SEEDS] [TABLES] [MODELS] [ROWS]

CPCP (Chen & Li 2025, arXiv 2512.24139) learns a quantile of the absolute error, and weights the
pinball loss of each row with the conditional density of the error at this quantile. This should
bring the coverage of each row closer to the level. The density is 2δ/(q(τ+δ) − q(τ−δ)), from
quantiles at two more levels.

Tables, models and the meaning of DIR are those of compare.py. Of ROWS rows, by default 4,000,
60 % train the model and 20 % calibrate. All other rows of the table, at most 20,000, are measured
on. Out-of-fold errors of the training rows teach LightGBM the quantile 0.9 of the absolute error:
100 trees of depth 3 with at least 10 rows in a leaf, like attach's symmetric-boosting. All
calibration rows calibrate, with the score |error| − quantile.

    sizes       without weights
    cpcp-0.02   with weights and δ = 0.02, as in the paper, of at most 5 times their mean
    cpcp-0.05   δ = 0.05
    mixed       half of the weights of cpcp-0.02 and half of equal ones, the paper's best variant
    tuned       50 more trees with the weights of cpcp-0.02 after the trees of sizes

Weights come from quantiles that have not seen the row, by two folds. The columns:

    Winkler        Winkler score beside that of split conformal prediction: geometric mean
    predictions    mean squared deviation of coverage from 0.9 in the deciles of the prediction,
                   less what chance adds, in 10⁻⁴
    widths         the same in the deciles of the width
    ERT            the part of the Brier score of coverage that LightGBM explains out of fold
                   from the inputs, the prediction and the width (arXiv 2512.11779), in 10⁻⁴
    change         what the weights add to the column, a mean over the pairs of a table and a model
                   with its standard error, and the number of pairs in which they make it smaller

Run with Python 3.11, NumPy 2.4, scikit-learn 1.9.1, LightGBM 4.7.0 and XGBoost 3.2.0.
"""
import logging
import sys
import warnings
from pathlib import Path

import numpy as np

import compare

LEVEL, TEST = compare.LEVEL, 20_000
TABLES = ["concrete", "kin8nm", "naval", "power", "wine", "diamonds", "Computers", "Wages1", "friedman1"]
METHODS = {"sizes": None, "cpcp-0.02": (0.02, 1, False), "cpcp-0.05": (0.05, 1, False), "mixed": (0.02, 0.5, False), "tuned": (0.02, 1, True)}
MEASURES = ["Winkler", "predictions", "widths", "ERT"]


def boost(x, y, level, trees=100, weights=None, start=None):
    from lightgbm import LGBMRegressor
    m = LGBMRegressor(objective="quantile", alpha=level, n_estimators=trees, max_depth=3, num_leaves=8, min_child_samples=10, verbose=-1, n_jobs=1)
    return m.fit(x, y, sample_weight=weights, init_score=start).predict


def density(x, y, delta, seed):
    """The density of y at its quantile in each row, beside its mean, by models of the other half of the rows."""
    half = np.random.default_rng(seed).permutation(len(y)) % 2
    gap = np.empty(len(y))
    for k in 0, 1:
        low, high = (boost(x[half != k], y[half != k], LEVEL + d)(x[half == k]) for d in (-delta, delta))
        gap[half == k] = high - low
    weights = 2 * delta / np.maximum(gap, 1e-2 * np.median(np.abs(gap)))
    return np.minimum(weights / weights.mean(), 5)


def deviation(covered, key):
    parts = np.array_split(np.argsort(key, kind="stable"), 10)
    return np.mean([(covered[i].mean() - LEVEL) ** 2 - LEVEL * (1 - LEVEL) / len(i) for i in parts])


def ert(covered, x, seed):
    from lightgbm import LGBMClassifier
    from sklearn.model_selection import KFold, cross_val_predict
    m = LGBMClassifier(n_estimators=50, learning_rate=0.05, max_depth=3, num_leaves=8, min_child_samples=50, verbose=-1, n_jobs=1)
    p = cross_val_predict(m, x, covered.astype(int), cv=KFold(5, shuffle=True, random_state=seed), method="predict_proba")[:, 1]
    return np.mean((LEVEL - covered) ** 2 - (p - covered) ** 2)


def measure(table, kind, seed, rows, folder):
    x, y = compare.load(table, folder)
    order = np.random.default_rng(seed).permutation(len(y))[:rows + TEST]
    n = min(rows, len(order))
    a, b = n * 6 // 10, n * 8 // 10
    x, y = np.asarray(x[order], np.float32), np.asarray(y[order], float)
    y = (y - y[:a].mean()) / y[:a].std()
    model = compare.learner(kind, a).fit(x[:a], y[:a])
    if kind == "forest":
        honest = model.oob_prediction_
    else:
        from sklearn.model_selection import KFold, cross_val_predict
        honest = cross_val_predict(compare.learner(kind, a), x[:a], y[:a], cv=KFold(compare.FOLDS, shuffle=True, random_state=seed))
    prediction = model.predict(x)
    size, inputs = np.abs(y[:a] - honest), np.column_stack([x[:a], honest])
    after = np.column_stack([x, prediction])[a:]
    error, target, centre = np.abs(y - prediction)[a:b], y[b:], prediction[b:]
    plain = boost(inputs, size, LEVEL)
    weights = {d: density(inputs, size, d, seed) for d in (0.02, 0.05)}

    def score(width):
        covered = np.abs(target - centre) <= width
        winkler = np.mean(2 * width + 2 / (1 - LEVEL) * np.maximum(np.abs(target - centre) - width, 0))
        return covered, winkler

    split = score(np.full(len(target), compare.quantile(error)))[1]
    result = {}
    for name, how in METHODS.items():
        q = plain(after)
        if how:
            delta, part, tuned = how
            w = part * weights[delta] + 1 - part
            q = q + boost(inputs, size, LEVEL, 50, w, plain(inputs))(after) if tuned else boost(inputs, size, LEVEL, weights=w)(after)
        q = np.maximum(q, 0)
        width = np.maximum(q[b - a:] + compare.quantile(error - q[:b - a]), 0)
        covered, winkler = score(width)
        result[name] = [np.log(winkler / split), 1e4 * deviation(covered, centre), 1e4 * deviation(covered, width),
                        1e4 * ert(covered, np.column_stack([after[b - a:], width]), seed), covered.mean()]
    return result


def summary(found):
    """A Markdown table of the means of each pair of a table and a model."""
    lines = ["| | " + " | ".join(f"{m} | change, better in" for m in MEASURES) + " | coverage |", "|---" * (2 * len(MEASURES) + 2) + "|"]
    for method in METHODS:
        values = np.array([v[method] for v in found.values()])
        change = values - np.array([v["sizes"] for v in found.values()])
        cells = []
        for k, mean in enumerate(values.mean(axis=0)[:len(MEASURES)]):
            cells.append(f"{np.exp(mean):.3f}" if k == 0 else f"{mean:.1f}")
            error = change[:, k].std(ddof=1) / np.sqrt(len(change))
            by = f"{100 * change[:, k].mean():+.1f} ± {100 * error:.1f} %" if k == 0 else f"{change[:, k].mean():+.1f} ± {error:.1f}"
            cells.append("" if method == "sizes" else f"{by}, {(change[:, k] < 0).sum()}")
        lines.append(f"| {method} | " + " | ".join(cells) + f" | {values[:, -1].mean():.3f} |")
    return "\n".join(lines)


def main(folder, seeds="5", tables=",".join(TABLES), models="lightgbm,xgboost,forest", rows="4000"):
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    folder, seeds, rows = Path(folder), int(seeds), int(rows)
    compare.ROWS = rows + TEST  # for made tables
    found = {}
    for table in tables.split(","):
        for kind in models.split(","):
            all = [measure(table, kind, seed, rows, folder) for seed in range(seeds)]
            found[table, kind] = {m: np.mean([one[m] for one in all], axis=0).round(3).tolist() for m in METHODS}
            print(table, kind, found[table, kind], file=sys.stderr, flush=True)
    print(f"{len(found)} pairs of a table and a model, {seeds} seeds each.\n\n{summary(found)}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])

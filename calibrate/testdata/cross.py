"""Reference CV+ intervals.

Run with Python 3.11 and MAPIE 1:
    python3 cross.py > cross.json
Made with Python 3.11.7, MAPIE 1.6.0, scikit-learn 1.9.1, NumPy 2.4.6.

The intervals come from CrossConformalRegressor with the method "plus". "calibration" holds
the prediction of each calibration row by the model of its fold, and "rows" the predictions of
each new row by the models of all folds. Infinite bounds are ±1e308.
"""
import json
import sys

import numpy as np
from mapie.regression import CrossConformalRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

rng = np.random.default_rng(31)
cases = []
for n, folds, levels in [(30, 10, [0.9, 0.8, 0.5]), (23, 5, [0.9, 0.7]), (12, 12, [0.9, 0.6])]:
    x = rng.normal(size=(n, 4))
    y = x @ [1, -1, 0.5, 0] + rng.standard_t(4, size=n)
    new = rng.normal(size=(6, 4))
    split = KFold(folds, shuffle=True, random_state=5)
    fold = np.zeros(n, int)
    models = []
    for k, (others, own) in enumerate(split.split(x)):
        fold[own] = k
        models.append(LinearRegression().fit(x[others], y[others]))
    predictions = np.stack([m.predict(x) for m in models], axis=1)
    m = CrossConformalRegressor(LinearRegression(), confidence_level=levels, method="plus", cv=split)
    _, ends = m.fit_conformalize(x, y).predict_interval(new, allow_infinite_bounds=True)
    cases.append({
        "folds": fold.tolist(), "y": y.tolist(), "calibration": predictions[np.arange(n), fold].tolist(),
        "rows": np.stack([m.predict(new) for m in models], axis=1).tolist(), "levels": levels,
        "lower": np.clip(ends[:, 0], -1e308, 1e308).tolist(), "upper": np.clip(ends[:, 1], -1e308, 1e308).tolist(),
    })
json.dump(cases, sys.stdout)

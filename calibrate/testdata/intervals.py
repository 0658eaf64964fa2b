"""Reference values for group-wise and one-sided intervals and conformal predictive distributions.

Run with Python 3, NumPy and crepes:
    python3 intervals.py > intervals.json
Made with Python 3.11.7, NumPy 2.4.6, crepes 0.9.1.

Predictions, targets and scales are multiples of powers of two, so that ties are
exact. A one-sided interval around a predicted quantile is a percentile of a
predictive system whose residuals are targets minus quantiles. Infinite ends are
null. crepes does not compute joint intervals, so "joint" uses only NumPy: the
score of a row is the largest score of its targets, divided by the interval width.
"""
import json

import numpy as np
from crepes import ConformalPredictiveSystem, ConformalRegressor

rng = np.random.default_rng(11)
n, m = 59, 7
grain = lambda v: np.round(v * 8) / 8
predicted, new = grain(rng.normal(0, 2, n)), grain(rng.normal(0, 2, m))
y, at = grain(predicted + rng.normal(0, 1, n)), grain(new + rng.normal(0, 1, m))
scale, new_scale = 2.0 ** rng.integers(-1, 2, n), 2.0 ** rng.integers(-1, 2, m)
groups, new_groups = rng.integers(0, 3, n), np.arange(m) % 3
groups[:5], groups[5:] = 2, rng.integers(0, 2, n - 5)  # group 2 has five rows

regressor = ConformalRegressor()
regressor.fit(y - predicted, bins=groups)
mondrian = {str(a): regressor.predict_int(new, bins=new_groups, confidence=1 - a).tolist() for a in (0.25, 0.5)}

plain = ConformalPredictiveSystem()
plain.fit(y - predicted)
scaled = ConformalPredictiveSystem()
scaled.fit(y - predicted, sigmas=scale)
np.random.seed(3)
tau = np.random.rand(m)
higher, lower = [2.5, 10, 25, 50, 90, 99.5], [1, 2.5, 11, 33, 99.5]  # lower levels have no whole rank, which crepes would include
percentiles = lambda s, sigmas, **kw: s.predict_percentiles(new, sigmas, **kw).tolist()

t, k = 3, 0.9
lo = grain(rng.normal(0, 1, (n + m, t)))
hi = lo + 2.0 ** rng.integers(-1, 3, (n + m, t))
v = grain((lo + hi) / 2 + rng.normal(0, 1.5, (n + m, t)))
score = (np.maximum(lo - v, v - hi) / (hi - lo)).max(1)[:n]
margin = np.sort(score)[int(np.ceil(k * (n + 1) - 1e-9)) - 1]
box = np.stack([lo - margin * (hi - lo), hi + margin * (hi - lo)], -1)[n:]

clean = lambda x: [[None if np.isinf(c) else c for c in r] for r in x]
print(json.dumps({
    "predicted": predicted.tolist(), "y": y.tolist(), "scale": scale.tolist(), "groups": groups.tolist(),
    "new": new.tolist(), "at": at.tolist(), "new_scale": new_scale.tolist(), "new_groups": new_groups.tolist(),
    "mondrian": {a: clean(i) for a, i in mondrian.items()},
    "tau": tau.tolist(),
    "cdf": scaled.predict_p(new, at, sigmas=new_scale, seed=3).tolist(),
    "cdf_plain": plain.predict_p(new, at, seed=3).tolist(),
    "cdf_upper": plain.predict_p(new, at, smoothing=False).tolist(),
    "higher_levels": [l / 100 for l in higher], "lower_levels": [l / 100 for l in lower],
    "higher": clean(percentiles(scaled, new_scale, higher_percentiles=higher)),
    "lower": clean(percentiles(scaled, new_scale, lower_percentiles=lower)),
    "upper_bounds": percentiles(plain, None, higher_percentiles=[90]),
    "lower_bounds": percentiles(plain, None, lower_percentiles=[10]),
    "joint": {"targets": t, "lo": lo.ravel().tolist(), "hi": hi.ravel().tolist(), "y": v[:n].ravel().tolist(),
              "margin": margin, "box": box.reshape(-1, 2).tolist()},
}))

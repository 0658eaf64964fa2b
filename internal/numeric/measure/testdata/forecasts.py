"""Reference values for metrics of quantiles and intervals of Gaussian forecasts.

Run with Python 3, NumPy, SciPy, scikit-learn and uncertainty-toolbox:
    python3 forecasts.py > forecasts.json
Made with Python 3.11.7, NumPy 2.4.6, SciPy 1.17.1, scikit-learn 1.9.1, uncertainty-toolbox 0.1.1.

"crps_grid" is computed from the integral of the pinball loss over all levels, by SciPy's
quadrature. The quantile function is linear between a few levels and constant beyond.
"""
import json

import numpy as np
import uncertainty_toolbox as uct
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss

rng = np.random.default_rng(3)
n = 24
mean, sd = rng.normal(10, 3, n), rng.uniform(0.3, 2, n)
y = mean + 1.4 * sd * rng.standard_t(4, n)
mean, sd, y = (v.round(4) for v in (mean, sd, y))
levels = np.linspace(0.01, 0.99, 99)
quantiles = mean[:, None] + sd[:, None] * norm.ppf(levels)

coarse = [0.05, 0.3, 0.5, 0.9]


def crps_grid(row, v):
    q = lambda t: np.interp(t, coarse, row)
    loss = lambda t: 2 * (v - q(t)) * (t - (v < q(t)))
    points = sorted(set(coarse) | set(np.interp(v, row, coarse, 0, 1).reshape(-1)))
    ends = [0, *[p for p in points if 0 < p < 1], 1]
    return sum(quad(loss, a, b, epsabs=1e-12)[0] for a, b in zip(ends, ends[1:]))


lower, upper = quantiles[:, 4], quantiles[:, 94]
inside = (lower < y) & (y < upper)
rows = mean[:, None] + sd[:, None] * norm.ppf(coarse)
print(json.dumps({
    "mean": mean.tolist(), "sd": sd.tolist(), "y": y.tolist(),
    "pinball": [mean_pinball_loss(y, quantiles[:, i], alpha=levels[i]) for i in range(99)],
    "check_score": uct.check_score(mean, sd, y),
    "crps_gaussian": uct.crps_gaussian(mean, sd, y),
    "crps_grid": [crps_grid(r, v) for r, v in zip(rows, y)],
    "interval_score": uct.interval_score(mean, sd, y),
    "picp90": inside.mean(), "mpiw90": (upper - lower).mean(), "nmpiw90": (upper - lower).mean() / np.ptp(y),
    "pit": norm.cdf(y, mean, sd).tolist(),
}))

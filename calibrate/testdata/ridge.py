"""Reference intervals of the score "ridge" by brute force.

Run with Python 3.11, NumPy 2 and scikit-learn 1:
    python3 ridge.py > ridge.json
Made with Python 3.11.7, NumPy 2.4.6, scikit-learn 1.9.1.

Each candidate value of a new target is tried on a grid. For each, scikit-learn's Ridge is fitted
to all rows anew, and the studentized residuals are compared. "lower" and "upper" are the
outermost candidates whose p-value is above α, and "step" is the distance of candidates. Quantiles
are those at "quantile_levels". Infinite bounds are ±1e308.
"""
import json
import sys

import numpy as np
from sklearn.linear_model import Ridge

PENALTY, LEAST_WIDTH, STEPS = 30, 0.1, 2001
LEVELS = np.array([0.05, 0.5, 0.95])


def interval(quantiles, y, new, level):
    """Returns the interval of a new row, and the step of the grid."""
    quantiles = np.vstack([quantiles, new])
    medians, widths = quantiles[:, 1], quantiles[:, 2] - quantiles[:, 0]
    positive = np.sort(widths[widths > 0])
    widths = np.maximum(widths, LEAST_WIDTH * positive[len(positive) // 2])
    x = ((medians - medians.mean()) / medians.std())[:, None]
    design = np.hstack([np.ones((len(x), 1)), x])
    leverage = np.diag(design @ np.linalg.inv(design.T @ design + np.diag([0, PENALTY])) @ design.T)
    span = 3 * np.abs((y - medians[:-1]) / widths[:-1]).max() * widths[-1]
    grid = medians[-1] + span * np.linspace(-1, 1, STEPS)
    inside = []
    for candidate in grid:
        errors = (np.append(y, candidate) - medians) / widths
        scores = np.abs(errors - Ridge(alpha=PENALTY).fit(x, errors).predict(x)) / np.sqrt(1 - leverage)
        inside.append((scores >= scores[-1] * (1 - 1e-12)).mean() > (1 - level) * (1 + 1e-9))
    inside = grid[inside]
    lower = -1e308 if inside[0] == grid[0] else inside[0]
    upper = 1e308 if inside[-1] == grid[-1] else inside[-1]
    return lower, upper, grid[1] - grid[0]


rng = np.random.default_rng(29)
cases = []
for n, levels in [(12, [0.9, 0.5]), (30, [0.9]), (8, [0.9])]:
    def draw(rows):
        center, width = 3 * rng.normal(size=rows), rng.exponential(size=rows) + 0.2
        width[-1] = 0  # the least width replaces it
        return np.stack([center - width, center, center + 2 * width], axis=1).astype(np.float32).astype(float)

    quantiles, new = draw(n), draw(3)
    y = (1 + 0.5 * quantiles[:, 1] + (0.1 + (quantiles[:, 2] - quantiles[:, 0]) / 3) * rng.normal(size=n)).astype(np.float32).astype(float)
    case = {"y": y.tolist(), "quantiles": quantiles.tolist(), "rows": new.tolist(), "levels": levels, "lower": [], "upper": [], "step": []}
    for row in new:
        ends = [interval(quantiles, y, row, level) for level in levels]
        for name, values in zip(("lower", "upper", "step"), zip(*ends)):
            case[name].append(values)
    cases.append(case)
json.dump({"quantile_levels": LEVELS.tolist(), "cases": cases}, sys.stdout)

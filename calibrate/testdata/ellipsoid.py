"""Reference values for ellipsoids.

Run with Python 3, NumPy and SciPy:
    python3 ellipsoid.py > ellipsoid.json
Made with Python 3.11.7, NumPy 2.4.6, SciPy 1.17.1.

Each row has three targets with correlated errors. Its quantiles have the levels 0.1, 0.5 and
0.9. The script computes the shape with numpy.linalg.inv instead of a Cholesky factor,
membership by a quadratic form, and volumes from a determinant.
"""
import json
import math

import numpy as np
from scipy.special import gammaln

rng = np.random.default_rng(3)
d, shaping, calibrating, new, alpha = 3, 20, 39, 30, 0.4
n = shaping + calibrating + new
spread = np.float32(rng.choice([0, 0.5, 1, 4], (n, d)))
grain = lambda v: np.float32(np.round(v * 16) / 16)
median = grain(rng.normal(0, 2, (n, d)))
mixing = np.array([[1, 0, 0], [0.8, 0.5, 0], [-0.3, 0.6, 0.4]])
y = grain(median + (spread + 0.2) * (rng.normal(size=(n, d)) @ mixing.T))
grid = np.stack([median - spread / 4, median, median + 3 * spread / 4], -1)

median, y, q = grid[..., 1].astype(float), y.astype(float), grid.astype(float)
width = q[..., 2] - q[..., 0]
first, second, third = slice(0, shaping), slice(shaping, shaping + calibrating), slice(shaping + calibrating, n)
scale = width + 0.2 * np.sort(width[first], 0)[shaping // 2]
z = (y - median) / scale
kept = np.where(np.eye(d) == 1, 1, shaping / (shaping + d))
weights = np.ones(shaping)
for step in range(20):  # weights of a t distribution with 10 degrees of freedom
    moments = kept * (z[first].T @ (weights[:, None] * z[first])) / shaping
    weights = (10 + d) / (10 + np.einsum("ij,jk,ik->i", z[first], np.linalg.inv(moments), z[first]))
scores = np.sqrt(np.einsum("ij,jk,ik->i", z, np.linalg.inv(moments), z))
radius = np.sort(scores[second])[math.ceil((1 - alpha) * (calibrating + 1) - 1e-9) - 1]

covariance = [radius**2 * np.diag(s) @ moments @ np.diag(s) for s in scale[third]]
inside = [bool(e @ np.linalg.inv(c) @ e <= 1) for e, c in zip((y - median)[third], covariance)]
volume = [d / 2 * math.log(math.pi) - gammaln(d / 2 + 1) + np.linalg.slogdet(c)[1] / 2 for c in covariance]
direction = np.array([1.0, -2.0, 0.5])
half = [math.sqrt(direction @ c @ direction) for c in covariance]
print(json.dumps({
    "shaping": shaping, "calibrating": calibrating, "alpha": alpha, "grid": grid.tolist(), "y": y.tolist(),
    "radius": radius, "scores": scores.tolist(), "inside": inside, "log_volume": volume,
    "covariance": [c.tolist() for c in covariance], "direction": direction.tolist(),
    "lower": (median[third] @ direction - half).tolist(), "upper": (median[third] @ direction + half).tolist(),
}))

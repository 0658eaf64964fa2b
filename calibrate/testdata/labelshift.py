"""Writes labelshift.json: class shares under label shift, their standard errors and the test
of the features, computed with NumPy and SciPy.

    python3 labelshift.py > labelshift.json
"""

import json

import numpy as np
from scipy import optimize, special, stats

rng = np.random.default_rng(4)
K, N, M, H, COMPONENTS = 3, 240, 150, 7, 5
MEANS = rng.normal(size=(K, H))


def draw(n, shares):
    labels = rng.choice(K, n, p=shares)
    features = (MEANS[labels] + rng.normal(size=(n, H))).round(2)
    bias = np.array([0.5, 0, -0.5])  # the classifier is not calibrated
    return labels, features, (2 * (features @ MEANS.T - (MEANS**2).sum(1) / 2) + bias).round(2)


def simplex(v):
    """Projects onto the simplex: the shift is the root of a decreasing function."""
    shift = optimize.brentq(lambda s: np.maximum(v - s, 0).sum() - 1, v.min() - 1, v.max(), xtol=1e-15)
    return np.maximum(v - shift, 0)


labels, x, z = draw(N, [0.4, 0.35, 0.25])
_, target_x, target_z = draw(M, [0.05, 0.15, 0.8])
temperature = 1 / optimize.minimize_scalar(
    lambda b: -special.log_softmax(b * z, axis=1)[np.arange(N), labels].sum(), bounds=(0.05, 20), method="bounded", options={"xatol": 1e-12}
).x
counts = np.bincount(labels, minlength=K)
weights = np.ones(K)
for _ in range(2):
    g, target_g = (special.softmax(v / temperature + np.log(weights), axis=1) for v in (z, target_z))
    confusion = np.stack([g[labels == c].mean(0) for c in range(K)], axis=1)
    raw = np.linalg.lstsq(confusion, target_g.mean(0), rcond=None)[0]
    shares = simplex(raw)
    weights = np.clip(shares * N / counts, 1 / 50, 50)

both = np.concatenate([x, target_x])
both = (both - both.mean(0)) / both.std(0)
components = both @ np.linalg.svd(both, full_matrices=False)[2][:COMPONENTS].T
h, target_h = components[:N], components[N:]
# The covariance of the means of components and probabilities together, by the delta method.
parts = [shares[c] ** 2 * np.cov(np.hstack([h, g])[labels == c].T) / counts[c] for c in range(K)]
parts.append(np.cov(np.hstack([target_h, target_g]).T) / M)
joint = sum(parts)
inverse = np.linalg.inv(confusion)
means = np.stack([h[labels == c].mean(0) for c in range(K)], axis=1)
to_shares = np.hstack([np.zeros((K, COMPONENTS)), inverse])
to_difference = np.hstack([np.eye(COMPONENTS), -means @ inverse])
difference = target_h.mean(0) - means @ raw
covariance = to_difference @ joint @ to_difference.T
statistic = difference @ np.linalg.solve(covariance, difference)
# Hotelling's distribution, with the degrees of freedom of Welch and Satterthwaite.
fractions = [np.trace(np.linalg.solve(covariance, to_difference @ p @ to_difference.T)) / COMPONENTS for p in parts]
freedom = 1 / sum(f**2 / (n - 1) for f, n in zip(fractions, [*counts, M]))
last = freedom - COMPONENTS + 1
print(json.dumps({
    "Labels": labels.tolist(), "Logits": z.ravel().tolist(), "Features": x.ravel().tolist(),
    "TargetLogits": target_z.ravel().tolist(), "TargetFeatures": target_x.ravel().tolist(),
    "Shares": shares.tolist(), "Errors": np.sqrt(np.diag(to_shares @ joint @ to_shares.T)).tolist(),
    "Weights": weights.tolist(), "PValue": stats.f.sf(statistic * last / (freedom * COMPONENTS), COMPONENTS, last),
}))

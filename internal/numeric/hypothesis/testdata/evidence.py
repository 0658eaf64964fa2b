"""Reference values for confidence intervals of fractions and tests of counts.

Run with Python 3, NumPy and SciPy:
    python3 evidence.py > evidence.json
Made with Python 3.11.7, NumPy 2.4.6, SciPy 1.17.1.
"""
import json

import numpy as np
from scipy.special import kolmogorov
from scipy.stats import betabinom, binom, binomtest, ks_2samp

shares = []
for k, n in [(0, 1), (0, 300), (1, 1), (5, 5), (3, 17), (489, 4000), (50, 1000), (999_000, 1_000_000), (1, 1_000_000)]:
    ci = binomtest(k, n).proportion_ci(0.95, method="exact")
    shares.append({"count": k, "n": n, "low": ci.low, "high": ci.high})

misses = []
for l, n in [(1, 19), (5, 100), (50, 1000), (30, 600), (6, 600), (1000, 9999), (19, 19)]:
    for m in [1, 20, 500, 4000, 200_000]:
        mean = m * l / (n + 1)
        for k in sorted({0, 1, int(mean / 2), int(mean), int(mean) + 1, int(1.5 * mean) + 2, m}):
            misses.append({"allowed": l, "calibration": n, "count": k, "rows": m, "p": betabinom.sf(k - 1, m, l, n + 1 - l)})

binomials = [{"count": k, "n": n, "p": p, "tail": binom.sf(k - 1, n, p)}
             for k, n, p in [(0, 10, .3), (1, 10, .3), (10, 10, .3), (11, 10, .3), (60, 1000, .05), (3, 300, .01), (100_500, 1_000_000, .1)]]

rng = np.random.default_rng(5)
samples = []
for a, b in [(rng.normal(size=40), rng.normal(size=25)), (rng.normal(size=200), rng.normal(.3, 1, 150)),
             (rng.integers(0, 5, 60), rng.integers(0, 5, 90)), (rng.normal(size=300), rng.normal(2, 1, 30)), (np.zeros(7), np.zeros(9))]:
    a, b = np.sort(a.astype(float)).round(4), np.sort(b.astype(float)).round(4)
    d = ks_2samp(a, b).statistic
    samples.append({"a": a.tolist(), "b": b.tolist(), "distance": d, "p": kolmogorov(d * np.sqrt(len(a) * len(b) / (len(a) + len(b))))})

print(json.dumps({"shares": shares, "misses": misses, "binomials": binomials, "samples": samples}))

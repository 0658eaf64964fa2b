"""Reference values for discoveries, bounds and tests that are computed from ranks.

Run with Python 3.12 and nonconform, online-fdr, NumPy and SciPy:
    python3 audit.py > audit.json
Made with Python 3.12.1, nonconform 2.0.0, online-fdr 1.0.0, NumPy 2.5.5, SciPy 1.18.1.
"""
import json
import math

import numpy as np
from nonconform.fdr import FDPCertificate
from nonconform._internal.conditional_calibration import betainv_simes
from online_fdr.core.utils.static import bh, storey_bh
from scipy.stats import betabinom, false_discovery_control, hypergeom

rng = np.random.default_rng(14)


def select(p, q):
    """Returns the discoveries at level q, and checks that SciPy and online-fdr agree."""
    scipy = false_discovery_control(p) <= q * (1 + 1e-12)
    k, _ = bh(list(p), q * (1 + 1e-12))
    assert scipy.sum() == k, (scipy.sum(), k)
    return {"count": int(k), "p": float(np.sort(p)[k - 1]) if k else 0.0}


def storey(p, n, q, lam):
    # online-fdr counts p-values above λ, but we count p ≥ λ. A λ that is smaller by half a step
    # gives the same count, and the factor on q corrects the division by 1 − λ.
    at = math.ceil(lam * (n + 1) * (1 - 1e-12)) / (n + 1)
    moved = at - .5 / (n + 1)
    if (1 + (p > moved).sum()) / (1 - moved) > len(p):
        return None  # online-fdr limits the estimated number of inliers to m
    k, t = storey_bh(list(p), q * (1 + 1e-12) * (1 - at) / (1 - moved), moved)
    return {"count": int(k), "p": float(t)}


class Envelope:
    """The interface of an envelope that the certificate of nonconform needs."""

    def __init__(self, looks, most, m, n):
        self.looks, self.most, self.m, self.n = looks, most, m, n

    def evaluate(self, x):
        ranks = np.rint(np.asarray(x) * (self.n + 1))
        return np.array([min([c for k, c in zip(self.looks, self.most) if k >= r], default=self.m) for r in ranks]) / self.m


def bounds(p, n, delta):
    m = len(p)
    ranks = np.rint(p * (n + 1)).astype(int)
    looks = sorted({math.ceil((n + 1) / 2**j) for j in range(1, 40)})
    seen = [int((ranks <= k).sum()) for k in looks]

    def max_inliers(i):  # for each look, the smallest c with P(V > c) < delta/K
        out = []
        for k in looks:
            c = np.arange(-1, i + 1)
            tail = betabinom.sf(c, i, k, n + 1 - k) if i else np.where(c < 0, 1.0, 0.0)
            out.append(int(c[np.argmax(tail < delta / len(looks))]))
        return out

    inliers = max(i for i in range(m + 1) if i <= min(c + m - r for c, r in zip(max_inliers(i), seen)))
    support, counts = np.unique(p, return_counts=True)
    counts = np.cumsum(counts)
    envelope = Envelope(looks, max_inliers(inliers), m, n)
    c = object.__new__(FDPCertificate)
    minima = np.minimum.accumulate(np.minimum(m, m * envelope.evaluate(support) - counts))
    for name, value in {"_p_values": p, "_support": support, "_counts": counts, "_prefix_minima": minima, "_envelope": envelope}.items():
        object.__setattr__(c, name, value)
    envelope.n_test = m
    fdp = [float(c.bound_at(k / (n + 1))) for k in range(1, n + 2)]
    # nonconform does not use the bound on the number of all inliers, so apply it here.
    below = [int((ranks <= k).sum()) for k in range(1, n + 2)]
    fdp = [min(f, inliers / b) if b else 0.0 for f, b in zip(fdp, below)]
    return {"outliers": m - inliers, "fdp": fdp}


def shift(p, n):
    m = len(p)
    ranks = np.rint(p * (n + 1)).astype(int)
    looks = sorted({math.ceil((n + 1) / 2**j) for j in range(1, 40)})
    seen = [int((ranks <= k).sum()) for k in looks]
    higher = min(betabinom.sf(r - 1, m, k, n + 1 - k) for k, r in zip(looks, seen))
    lower = min(betabinom.cdf(r, m, k, n + 1 - k) for k, r in zip(looks, seen))
    return {"higher": min(1, len(looks) * higher), "lower": min(1, len(looks) * lower)}


sets = []
for n, m, outliers, by in [(49, 60, 0, 0), (49, 60, 12, 3), (99, 300, 15, 4), (200, 120, 30, 2), (499, 400, 80, 5), (500, 700, 35, 3), (19, 300, 100, 6), (100, 200, 0, -.6)]:
    calibration = np.sort(rng.normal(size=n))
    scores = rng.normal(size=m) + (min(by, 0) if not outliers else 0)
    scores[:outliers] += by
    p = (1 + n - np.searchsorted(calibration, scores)) / (n + 1)
    counts = np.bincount(np.rint(p * (n + 1)).astype(int) - 1, minlength=n + 1)
    case = {"counts": counts.tolist(), "bh": [], "storey": [], "bounds": [], "shift": shift(p, n)}
    for q in [.05, .1, .2]:
        case["bh"].append({"q": q, **select(p, q)})
        for lam in [.3, .5, .9]:
            if found := storey(p, n, q, lam):
                case["storey"].append({"q": q, "lambda": lam, **found})
    for delta in [.05, .1]:
        conditional = np.array([float(betainv_simes(np.array([r / (n + 1) - 1e-12]), n, n // 2, delta)[0]) for r in range(1, n + 2)])
        k = select(conditional[np.rint(p * (n + 1)).astype(int) - 1], .2)["count"]
        case["bounds"].append({"delta": delta, "conditional": conditional.tolist(), "count": k, **bounds(p, n, delta)})
    sets.append(case)

shares = []
for calibration, audited in [([50, 30, 20], [5000, 3000, 2000]), ([50, 30, 20, 0], [400, 350, 100, 150]), ([500, 500], [4800, 5200]), ([1, 0, 0], [0, 0, 1])]:
    n, m = sum(calibration), sum(audited)
    raw = []
    for a, b in zip(calibration, audited):
        distribution = hypergeom(n + m, a + b, n)
        raw.append(min(1, 2 * min(distribution.cdf(a), distribution.sf(a - 1))))
    order, adjusted, top = np.argsort(raw, kind="stable"), [0.0] * len(raw), 0
    for i, c in enumerate(order):
        top = max(top, min(1, (len(raw) - i) * raw[c]))
        adjusted[c] = top
    shares.append({"calibration": calibration, "audited": audited, "p": adjusted})



def short(x):
    """Rounds all numbers to 11 digits, because the test compares with a tolerance of 1e-9."""
    if isinstance(x, dict):
        return {k: short(v) for k, v in x.items()}
    return [short(v) for v in x] if isinstance(x, list) else float(f"{x:.11g}") if isinstance(x, float) else x


print(json.dumps(short({"sets": sets, "shares": shares}), separators=(",", ":")))

"""Reference levels and thresholds of adaptive conformal inference.

Run with Python 3.11, NumPy and MAPIE before version 1:
    python3 adaptive.py > adaptive.json
Made with Python 3.11.7, NumPy 2.4.6, MAPIE 0.9.2, scikit-learn 1.5.2.

"mapie" holds the levels of MapieTimeSeriesRegressor.adapt_conformal_inference and
whether each target was covered. "runs" come from NumPy code that follows the papers:
ACI is equation 2 of Gibbs & Candès (2021), DtACI is algorithm 1 of Gibbs & Candès
(2024) with the mean of the experts' levels as its output, and PID is quantile
tracking and error integration of Angelopoulos, Candès & Tibshirani (2023). Each row
keeps its own copy of the calibration scores. Infinite thresholds are ±1e308.
"""
import json
import sys
import warnings

import numpy as np
from mapie.regression import MapieTimeSeriesRegressor
from sklearn.linear_model import LinearRegression

warnings.simplefilter("ignore")
rng = np.random.default_rng(21)


def mapie(gamma, alpha):
    x = rng.normal(size=(500, 2))
    noise = np.where(np.arange(500) < 300, 1, 1.4) * rng.normal(size=500)
    y = x @ [1, -2] + noise
    model = LinearRegression().fit(x[:100], y[:100])
    m = MapieTimeSeriesRegressor(model, method="aci", cv="prefit").fit(x[100:200], y[100:200])
    levels, covered = [], []
    for i in range(200, 500):
        before = m._get_alpha(np.array([alpha]))[0]
        _, ends = m.predict(x[i:i + 1], alpha=[alpha], allow_infinite_bounds=True)
        levels.append(float(before))
        covered.append(bool(ends[0, 0, 0] < y[i] < ends[0, 1, 0]))
        m.adapt_conformal_inference(x[i:i + 1], y[i:i + 1], gamma=gamma, alpha=[alpha])
    assert min(levels) > 0  # MAPIE clips levels to [0,1], and the papers do not
    return {"alpha": alpha, "gamma": gamma, "levels": levels, "covered": covered}


def threshold(calibration, level):
    """The ceil((1-level)(n+1))-th smallest score, infinite beyond the ends."""
    n = len(calibration)
    k = int(np.ceil((1 - level) * (n + 1) - 1e-9))
    return np.inf if k > n else -np.inf if k < 1 else float(np.sort(calibration)[k - 1])


class ACI:
    def __init__(self, alpha, gamma):
        self.alpha, self.gamma, self.level = alpha, gamma, alpha

    def propose(self, calibration):
        return self.level, threshold(calibration, self.level), None

    def learn(self, _, err, score, calibration):
        self.level += self.gamma * (self.alpha - err)


class DtACI:
    def __init__(self, alpha, gammas, interval):
        k = len(gammas)
        self.alpha, self.gammas = alpha, np.array(gammas)
        self.levels, self.w = np.full(k, alpha), np.ones(k)
        self.sigma = 1 / (2 * interval)
        self.eta = np.sqrt(3 / interval) * np.sqrt(
            (np.log(k * interval) + 2) / ((1 - alpha) ** 2 * alpha ** 3 + alpha ** 2 * (1 - alpha) ** 3))

    def propose(self, calibration):
        level = float(self.w @ self.levels / self.w.sum())
        return level, threshold(calibration, level), self.levels.copy()

    def learn(self, levels, err, score, calibration):
        beta = (1 + np.sum(np.array(calibration) >= score)) / (len(calibration) + 1)
        loss = self.alpha * (beta - levels) - np.minimum(0, beta - levels)
        bar = self.w * np.exp(-self.eta * loss)
        self.w = (1 - self.sigma) * bar + bar.sum() * self.sigma / len(bar)
        errs = np.array([score > threshold(calibration, a) for a in levels])
        self.levels = self.levels + self.gammas * (self.alpha - errs)


class PID:
    def __init__(self, alpha, eta, K, C, start):
        self.alpha, self.eta, self.K, self.C, self.q, self.errs = alpha, eta, K, C, start, []

    def propose(self, calibration):
        t, r = len(self.errs), 0
        if t:
            x = (sum(self.errs) - t * self.alpha) * np.log(t) / (t * self.C)
            r = np.inf * np.sign(x) if abs(x) >= np.pi / 2 else self.K * np.tan(x)
        return 0, float(self.q + r), None

    def learn(self, _, err, score, calibration):
        self.errs.append(err)
        self.q += self.eta * self.spread * (err - self.alpha)


def run(method, alpha, steps, window, delay, interval=0, K=0, C=0):
    n = 160
    calibration = [float(f"{v:.5f}") for v in np.abs(rng.normal(size=60))]
    scores = [float(f"{v:.5f}") for v in np.abs(rng.normal(size=n)) * np.where(np.arange(n) < n // 2, 1, 3)]
    # Row i gets its threshold at time i, and its feedback after a random delay.
    when = np.arange(n) + .5 + (rng.integers(0, delay + 1, size=n) if delay else 0)
    events = sorted([(float(i), "next", i) for i in range(n)] + [(float(w), "feedback", i) for i, w in enumerate(when)])
    seen = calibration[-window:] if window else list(calibration)
    if method == "aci":
        m = ACI(alpha, steps[0])
    elif method == "dtaci":
        m = DtACI(alpha, steps, interval)
    else:
        m = PID(alpha, steps[0], K, C, threshold(seen, alpha))
    waiting, out = {}, {"levels": [], "thresholds": [], "order": [], "covered": []}
    for _, kind, i in events:
        out["order"].append(i if kind == "next" else -1 - i)
        if kind == "next":
            level, q, private = m.propose(seen)
            waiting[i] = (q, private, list(seen))
            out["levels"].append(float(f"{level:.13g}"))
            out["thresholds"].append(float(np.clip(q, -1e308, 1e308)))
            continue
        q, private, known = waiting.pop(i)
        err = bool(scores[i] > q)
        out["covered"].append(not err)
        m.spread = max(seen) - min(seen)
        m.learn(private, err, scores[i], known)
        if window:
            seen = (seen + [scores[i]])[-window:]
    return {"method": method, "alpha": alpha, "steps": steps, "window": window, "memory": interval, "gain": K,
            "saturation": C, "calibration": calibration, "scores": scores, **out}


gammas = [.001, .002, .004, .008, .016, .032, .064, .128]
runs = [
    run("aci", .1, [.02], 0, 0),
    run("aci", .2, [.05], 40, 6),
    run("dtaci", .1, gammas, 0, 0, interval=500),
    run("dtaci", .1, gammas, 50, 8, interval=50),
    run("pid", .1, [.1], 0, 0, K=2, C=.6),
    run("pid", .1, [.05], 30, 5, K=1, C=.3),
]
json.dump({"mapie": [mapie(.005, .1), mapie(.02, .3)], "runs": runs}, sys.stdout, separators=(",", ":"))
print()

"""Writes intervals.json: quantiles of the interval methods. Quantiles of
given networks are computed in double precision, with the dropout masks that the
method draws. Boosted trees are scikit-learn's. Quantiles of a forest follow from
groups of equal rows, which no tree can split.
"""
import numpy as np
from scipy.stats import norm
from sklearn.ensemble import GradientBoostingRegressor

from fixture import Problem, f32, take, uniforms

rng = np.random.default_rng(30)
FIT, ASK = [0.1, 0.9], [0.05, 0.1, 0.3, 0.5, 0.9, 0.95]
# Groups of equal rows, each with three values of a target. A tenth of the rows is not a whole
# number, for any run of consecutive groups.
SIZES, AT = (37, 41, 43), (-3, 0, 2)
group = np.repeat(np.arange(len(SIZES)), SIZES)
x = f32(np.stack([np.array(AT)[group], np.full(len(group), 7)], 1))  # the second column is constant
share = np.concatenate([(np.arange(n) + 0.5) / n for n in SIZES])
values = f32(rng.normal(size=(len(SIZES), 2, 3)).cumsum(2) * np.array([1, 10])[:, None] + 2 * np.arange(len(SIZES))[:, None, None])
values.sort(2)
y = np.stack([values[group, t, (share > 0.2).astype(int) + (share > 0.7)] for t in range(2)], 1)
order = rng.permutation(len(x))
x, y = x[order], y[order]
test_group = np.array([0, 1, 2, 0, 2])
test = f32(np.stack([np.array(AT)[test_group] + [0.3, -0.4, 0.7, -9, 9], [7, 7, 7, 4, 7]], 1))
problem = Problem("numpy", "scipy", "sklearn", tolerance=2e-5, absolute=2e-5,
                  train={"features": x, "targets": y, "levels": FIT}, test={"features": test, "levels": ASK})


def interpolated(ends):
    """Interpolate linearly between the levels of the fit, constant beyond: rows × targets × 2 to rows × targets × levels."""
    return np.stack([[np.interp(ASK, FIT, np.sort(e)) for e in row] for row in ends])


# The fraction of rows up to a value depends on the bootstrap sample, but varies by far less
# than its distance to any level.
atoms = [0 if tau < 0.2 else 1 if tau < 0.7 else 2 for tau in ASK]
problem.put("quantile-forest", {}, values[test_group][:, :, atoms])


def boosted(y, tau, seed, sign):
    """Independent of which of equal splits is taken: columns come in the order that the seed draws, rows in that of the sign."""
    model = GradientBoostingRegressor(loss="quantile", alpha=tau, random_state=seed).fit(sign * x, y)
    return model.predict(sign * test)


def boost(y, levels):
    ends = np.stack([[boosted(column, tau, 0, 1) for tau in levels] for column in y.T]).transpose(2, 0, 1)
    for seed in range(4):
        again = np.stack([[boosted(column, tau, seed, -1) for tau in levels] for column in y.T]).transpose(2, 0, 1)
        assert np.abs(again - ends).max() < 1e-9, "splits tie"
    return ends


problem.put("gradient-boosting", {}, interpolated(boost(y, FIT)))
# The quantiles 0.1 and 0.9 are the quantile 0.8 of the distance from the median. Nearer to the
# median, they are linear.
middle = np.median(y, 0)
factors = np.clip((np.array(ASK) - 0.5) / 0.4, -1, 1)
problem.put("symmetric-boosting", {}, middle[:, None] + boost(np.abs(y - middle), [0.8]) * factors)


def given(*widths):
    """A network whose weights have few digits."""
    def numbers(*shape):
        return np.round(256 * rng.normal(size=shape)) / 256
    return [{"w": numbers(i, o), "b": numbers(o)} for i, o in zip(widths, widths[1:])]


def output(network, x, masks=()):
    for i, layer in enumerate(network):
        if i:
            x = np.maximum(x, 0) * (masks[i - 1] if len(masks) else 1)
        x = x @ layer["w"] + layer["b"]
    return x


# The constant column is ignored, whatever its weights are.
z = np.stack([(test[:, 0] - x[:, 0].mean()) / x[:, 0].std(), 0 * test[:, 0]], 1)
mean, deviation = y.mean(0), y.std(0)


def both(of, *widths):
    """Two networks, one for each target, and the result of the function `of` for every row, in units of the targets."""
    networks = [given(*widths), given(*widths)]
    return networks, np.stack([mean[t] + deviation[t] * of(n, t) for t, n in enumerate(networks)], 1)


def conditional(levels):
    def of(n, t):
        return np.stack([output(n, np.c_[z, np.full(len(z), (tau - 0.5) * 12)])[:, 0] for tau in levels], 1)
    return of


def gaussian(n, t):
    f = output(n, z)
    return f[:, :1] + np.sqrt(np.log1p(np.exp(f[:, 1:])) + 1e-3) * norm.ppf(ASK)


def dropout(n, t):
    numbers, passes, rate = uniforms(t), 1000, 0.1
    masks = [(take(numbers, passes, len(layer["b"])) >= rate) / (1 - rate) for layer in n[:-1]]
    each = np.concatenate([output(n, z, [m[s] for m in masks]) for s in range(passes)], 1)
    return np.quantile(each, ASK, axis=1).T


GRID = [0.001, 0.0025, *(np.arange(1, 200) / 200), 0.9975, 0.999]
networks, q = both(conditional(GRID), 3, 5, 4, 1)
q.sort(2)
problem.put("sqr", {}, np.stack([[np.interp(ASK, GRID, r) for r in row] for row in q]), trained=networks)
networks, q = both(conditional(FIT), 3, 5, 1)
problem.put("sqr-two-level", {}, interpolated(q), trained=networks)
networks, q = both(gaussian, 2, 5, 2)
problem.put("conditional-gaussian", {}, q, trained=networks)
networks, q = both(lambda n, t: output(n, z), 2, 5, 2)
problem.put("quality-driven", {}, interpolated(q), trained=networks)
networks, q = both(dropout, 2, 5, 4, 1)
problem.put("mc-dropout", {}, q, trained=networks)
problem.write("intervals.json")

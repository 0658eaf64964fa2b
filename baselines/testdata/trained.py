"""Writes trained.json: the oracle's log-odds by scikit-learn, and the scores of
methods that train, computed in double precision for given networks. Random
numbers that a method draws from its seed are drawn here in the same way.
"""
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from fixture import Problem, f32, take, uniforms

WIDTH, HIDDEN, K = 6, 5, 100
rng = np.random.default_rng(3)
scale = np.array([1, 2, 0.5, 1, 10, 1])
train = f32(rng.normal(size=(40, WIDTH)) * scale + 3)
outliers = f32(rng.normal(size=(25, WIDTH)) * scale * 1.5 + 3 + 0.7 * scale)
test = f32(rng.normal(size=(15, WIDTH)) * scale * 1.2 + 3)
problem = Problem("numpy", "sklearn", tolerance=1e-5, absolute=1e-6, train={"features": train, "outliers": outliers}, test={"features": test})

both = np.concatenate((train, outliers))
s = StandardScaler().fit(both)
y = np.r_[np.zeros(len(train)), np.ones(len(outliers))]
for lam in (0.1, 1.0, 10.0):
    model = LogisticRegression(C=1 / lam, solver="newton-cg", tol=1e-9, max_iter=10000)
    model.fit(s.transform(both), y)
    problem.put("oracle", {"lambda": lam}, model.decision_function(s.transform(test)), tolerance=2e-6, absolute=2e-6)


def given(*widths, bias=True):
    """A network whose weights have few digits."""
    def numbers(*shape):
        return np.round(256 * rng.normal(size=shape) / widths[0] ** 0.5) / 256
    return [{"w": numbers(i, o), **({"b": numbers(o)} if bias else {})} for i, o in zip(widths, widths[1:])]


def drawn(stream, *widths, bias=True):
    """An untrained network: weights uniform on ±1/√inputs."""
    numbers = uniforms(0, stream)
    layers = []
    for i, o in zip(widths, widths[1:]):
        def draw(*shape):
            return f32((2 * take(numbers, *shape) - 1) / np.sqrt(i))
        layers.append({"w": draw(i, o), **({"b": draw(o)} if bias else {})})
    return layers


def output(network, x):
    for i, layer in enumerate(network):
        x = (np.maximum(x, 0) if i else x) @ layer["w"] + layer.get("b", 0)
    return x


teacher, student = drawn(0x7465616368, WIDTH, 64, K), given(WIDTH, K)
problem.put("distillation", {}, ((output(student, test) - output(teacher, test)) ** 2).mean(1), trained=[student])
start, network = drawn(0x73766464, WIDTH, 64, K, bias=False), given(WIDTH, HIDDEN, K, bias=False)
centre = output(start, train).mean(0)
problem.put("svdd", {}, ((output(network, test) - centre) ** 2).mean(1), trained=[network])


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def score(f, loss):
    return ((1 / (1 + np.exp(-f)) if loss == "bce" else f) ** 2).mean(1)


c = given(WIDTH, 3 * WIDTH // 4, bias=False)
for method in ("certificates-trained", "certificates-unregularised"):
    # For rows of a classifier, loss=task is bce.
    problem.put(method, {}, score(output(c, test), "bce"), trained=[c])
    rows, mean = unit(test), unit(train).mean(0)
    problem.put(method, {"loss": "mse", "unit_norm": True, "centred": True, "k": 4}, score(output(c, rows - mean), "mse"), trained=[c])

network = given(WIDTH, HIDDEN, WIDTH)
for of, unit_norm in ((unit, True), (lambda x: x, False)):
    about = of(train) - of(train).mean(0)
    f = output(network, (of(test) - of(train).mean(0)) / np.sqrt((about**2).mean()))
    for loss in ("mse", "bce") if unit_norm else ("l1",):
        params = {} if loss == "mse" else {"loss": loss, "unit_norm": unit_norm}
        problem.put("certificates-nonlinear", params, score(f, loss), trained=[network])
problem.write("trained.json")

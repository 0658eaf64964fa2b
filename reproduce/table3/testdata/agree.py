"""Writes agree.json: scores of public implementations on four pairs that table3_test.go makes by the same formulas.

    pip install numpy scipy scikit-learn pandas lingam causal-learn pyvinecopulib; pip install --no-deps cdt
    python3 agree.py

agree.json says which versions it was written with.
"""
import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import types

import numpy as np
import pyvinecopulib
from causallearn.search.FCMBased.ANM.ANM import ANM
from causallearn.utils.KCI.KCI import KCI_UInd
from lingam import ICALiNGAM
from scipy.stats import norm
from sklearn.preprocessing import MinMaxScaler, StandardScaler

HERE = pathlib.Path(__file__).parent


def pairs(n=300):
    i = np.arange(1, n + 1)
    u, v = i * 0.6180339887498949 % 1, i * 0.41421356237309515 % 1
    logistic = np.log(u / (1 - u))
    return {
        "linear": (logistic**3, 0.02 * logistic**3 + 2 * v),
        "additive": (2 * u - 1, (2 * u - 1) ** 3 + (2 * u - 1) + 0.6 * v),
        "saturated": (logistic, np.tanh(logistic) + 0.1 * np.log(v / (1 - v))),
        "scaled": (2 * u - 1, (2 * u - 1) ** 2 * (1 + 0.6 * v)),
    }


def igci():
    """cdt's module alone: the package imports torch and networkx."""
    at = pathlib.Path(importlib.metadata.distribution("cdt").locate_file("cdt/causality/pairwise/IGCI.py"))
    package = types.ModuleType("pairwise")
    package.__path__ = [str(at.parent)]
    sys.modules["pairwise"] = package
    model = types.ModuleType("pairwise.model")
    model.PairwiseModel = object
    sys.modules["pairwise.model"] = model
    spec = importlib.util.spec_from_file_location("pairwise.IGCI", at)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.eval_entropy


def conditional(x, y, levels, grid):
    """Quantiles of y given x on normal scores, by a copula as QCCD's."""
    n = len(x)
    u = np.column_stack([np.argsort(np.argsort(v)) + 1 for v in (x, y)]) / (n + 1)
    copula = pyvinecopulib.Bicop.from_data(
        u, controls=pyvinecopulib.FitControlsBicop(family_set=[pyvinecopulib.BicopFamily.tll], nonparametric_method="constant"))
    return {str(l): norm.ppf(copula.hinv1(np.column_stack([norm.cdf(grid), np.full(len(grid), l)]))).tolist() for l in levels}


out = {"versions": {p: importlib.metadata.version(p) for p in ("cdt", "causal-learn", "lingam", "pyvinecopulib", "numpy", "scikit-learn")}, "pairs": {}}
entropy = igci()
for name, (x, y) in pairs().items():
    both = np.column_stack([x, y])
    standard, scaled = StandardScaler().fit_transform(both), MinMaxScaler().fit_transform(both)
    model = ICALiNGAM(random_state=0, max_iter=5000)
    model.fit(standard)
    p, statistic = KCI_UInd().compute_pvalue(standard[:, :1].copy(), standard[:, 1:].copy())
    forward, backward = ANM().cause_or_effect(standard[:, :1].copy(), standard[:, 1:].copy())
    out["pairs"][name] = {
        "igci-g": entropy(standard[:, 0]) - entropy(standard[:, 1]),
        "igci-u": entropy(scaled[:, 0]) - entropy(scaled[:, 1]),
        "lingam": 1 if list(model.causal_order_) == [0, 1] else -1,
        "hsic": statistic, "hsic_p": p,
        "anm_forward": float(forward), "anm_backward": float(backward),
        "copula": conditional(x, y, [0.1127016653792583, 0.5, 0.8872983346207417], np.array([-1.5, -0.5, 0, 0.5, 1.5])),
    }
(HERE / "agree.json").write_text(json.dumps(out, indent=1) + "\n")

"""Reference values for Venn–Abers intervals of the confidence, by MAPIE and venn-abers.

Run with Python 3, NumPy, MAPIE and venn-abers:
    python3 vennabers.py > vennabers.json
Made with Python 3.11.2, NumPy 1.24.2, MAPIE 1.6.0, venn-abers 1.5.4.
"""
import json

import numpy as np
import venn_abers
from mapie import _venn_abers

rng = np.random.default_rng(17)


def problem(n, m, decimals):
    top = rng.beta(4, 1.5, n + m).round(decimals)
    right = (rng.random(n) < top[:n] ** 1.5).astype(int)
    both = []
    for package in venn_abers, _venn_abers:
        model = package.VennAbers()
        model.fit(np.column_stack([1 - top[:n], top[:n]]), right)
        both.append(model.predict_proba(np.column_stack([1 - top[n:], top[n:]]))[1])
    bounds = both[0]
    assert np.array_equal(*both)
    return {"top": top.tolist(), "right": right.tolist(), "bounds": bounds.tolist()}


print(json.dumps([problem(40, 30, 2), problem(200, 60, 12), problem(5, 8, 1), problem(500, 60, 2)]))

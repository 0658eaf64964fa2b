"""Reference decisions of online false discovery control.

Run with Python 3.12, online-fdr and NumPy:
    python3 online.py > online.json
Made with Python 3.12.1, online-fdr 1.0.0, NumPy 2.5.5.
"""
import json
import sys

import numpy as np
from online_fdr.e_values.sequential import ELond
from online_fdr.p_values.investing.lond.lond import Lond
from online_fdr.p_values.investing.lord.plus_plus import LordPlusPlus

rng = np.random.default_rng(16)


def decide(test, values):
    decisions, levels = [], []
    for v in values:
        decisions.append(bool(test.test_one(v)))
        levels.append(test.last_test_level)
    return {"discoveries": [i + 1 for i, d in enumerate(decisions) if d], "levels": levels[::20]}


streams = []
for n, share, fdr in [(0, .1, .1), (0, .5, .05), (2000, .3, .2), (20000, .2, .1), (20000, 0, .1)]:
    scores = rng.normal(size=300) + 4 * (rng.uniform(size=300) < share)
    cal = rng.normal(size=n or 10**6)
    p = [(1 + int((cal >= s).sum())) / (len(cal) + 1) for s in scores]
    e = [float(f"{np.exp(4 * s - 8):.6g}") for s in scores]  # e-values: density ratio of N(4,1) to N(0,1)
    streams.append({
        "p": p, "e": e, "fdr": fdr,
        "lond": decide(Lond(fdr), p),
        "elond": decide(ELond(fdr), e),
        "lord": decide(LordPlusPlus(fdr, wealth=fdr / 2), p),
        "rich": decide(LordPlusPlus(fdr, wealth=fdr * .9), p),
    })
json.dump({"streams": streams}, sys.stdout, separators=(",", ":"))
print()

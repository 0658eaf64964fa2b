"""Reference values of nonconform's martingales and sequential ranks.

Run with Python 3.12 and nonconform and NumPy:
    python3 martingales.py > martingales.json
Made with Python 3.12.1, nonconform 2.0.0, NumPy 2.5.5.
"""
import json
import sys

import numpy as np
from nonconform.martingales import PowerMartingale, SimpleJumperMartingale, SimpleMixtureMartingale
from nonconform.monitoring import SequentialRankConformalizer

rng = np.random.default_rng(16)
p = np.concatenate([rng.uniform(size=100), rng.uniform(size=50) ** 3, rng.uniform(size=50)])
p = [float(f"{v:.6g}") for v in p]
out = {"p": p, "logs": {}}
for name, m in {"power": PowerMartingale(), "mixture": SimpleMixtureMartingale(), "jumper": SimpleJumperMartingale()}.items():
    states = m.update_many(p)
    out["logs"][name] = [s.log_martingale for s in states][::10]
    out["logs"][name + ", restarted"] = [s.log_restarted_martingale for s in states][::10]

scores = [float(v) for v in rng.normal(size=60).round(1)]
ranks = SequentialRankConformalizer(seed=0).prime_many(scores[:20])


class Fixed:
    def random(self):
        return 0.25


ranks._rng = Fixed()
out["scores"], out["ranks"] = scores, [ranks.update(s) for s in scores[20:]]
json.dump(out, sys.stdout, separators=(",", ":"))
print()

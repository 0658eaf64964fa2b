"""Writes clusters.json: the densities of ten Gaussians by scikit-learn, in rows
of ten clusters so far apart that every start gives the same clusters.
"""
import numpy as np
from sklearn.mixture import GaussianMixture

from fixture import Problem, f32

rng = np.random.default_rng(23)
K, H = 10, 3
centres = 40 * np.stack([np.arange(K), np.arange(K) ** 2 % 7, np.arange(K) ** 3 % 5], 1)
mixes = rng.normal(size=(K, H, H))
sizes = rng.integers(7, 12, K)
train = f32(np.concatenate([c + rng.normal(size=(n, H)) @ m for c, m, n in zip(centres, mixes, sizes)]))
test = f32(np.r_[train[:2], centres + rng.normal(size=(K, H)), 400 * rng.uniform(size=(4, H))])
model = GaussianMixture(K, means_init=centres).fit(train)
problem = Problem("numpy", "sklearn", train={"features": train}, test={"features": test})
problem.put("gaussian-mixture", {}, -model.score_samples(test))
problem.write("clusters.json")

"""Writes layers.json: earlier layers of fit rows and test rows, and
distances to class means within them by scikit-learn's covariance, averaged."""

import numpy as np
from sklearn.covariance import EmpiricalCovariance, shrunk_covariance

from fixture import Problem, f32

rng = np.random.default_rng(19)
C, FIT, WIDTHS = 3, 50, (4, 7, 9)
labels = rng.integers(0, C, FIT)


def layer(width):
    mix = rng.normal(size=(width, width)) * np.geomspace(3, 0.01, width)
    means = rng.normal(size=(C, width))
    fit = means[labels] + rng.normal(size=(FIT, width)) @ mix
    test = np.r_[means[[0, 1, 2, 2]] + rng.normal(size=(4, width)) @ mix, 5 * rng.normal(size=(4, width))]
    return f32(fit), f32(test)


layers = [layer(w) for w in WIDTHS]


def distances(rows, fit, shrinkage):
    means = np.stack([fit[labels == c].mean(0) for c in range(C)])
    gaussian = EmpiricalCovariance(assume_centered=True).fit(fit - means[labels])
    shrunk = EmpiricalCovariance(assume_centered=True)
    shrunk.location_ = np.zeros(fit.shape[1])
    shrunk._set_covariance(shrunk_covariance(gaussian.covariance_, shrinkage))
    return np.sqrt(np.min([shrunk.mahalanobis(rows - m) for m in means], axis=0))


problem = Problem("numpy", "sklearn", train={"layers": [fit for fit, _ in layers], "labels": labels},
                  test={"layers": [test for _, test in layers]})
for shrinkage in (0.001, 0.01, 0.1):
    each = [distances(test, fit, shrinkage) / distances(fit, fit, shrinkage).mean() for fit, test in layers]
    problem.put("mahalanobis-layers", {"shrinkage": shrinkage}, np.mean(each, axis=0))
problem.write("layers.json")

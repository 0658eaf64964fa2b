"""Functions that the scripts in this folder share. Each script writes one problem with reference scores.

A problem is {by, train, test, scores}, and what methods need in addition: last
{weight, bias}, levels of quantiles, network {hidden, shift, scale, passes}.
Rows are {features, logits, labels, layers, inputs {shape, data}, targets,
outliers}; all are optional. A score is {method, params, tolerance, absolute,
scores}. scores has one number for each row, or a row's quantiles target by
target, and an error of at most tolerance·|score| + absolute is allowed.
`without` names parts of the training rows that the method does not get, and
`trained` holds the networks that its trainer returns.
"""
import json
import platform
from importlib import import_module

import numpy as np


def f32(x):
    return np.asarray(x, np.float32).astype(np.float64)


def plain(v):
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    return v.tolist() if hasattr(v, "tolist") else v


class Problem:
    def __init__(self, *packages, tolerance=1e-6, absolute=1e-9, **parts):
        versions = ["Python " + platform.python_version()] + [f"{p} {import_module(p).__version__}" for p in packages]
        self.tolerance, self.absolute = tolerance, absolute
        self.out = {"by": ", ".join(versions), **parts, "scores": []}

    def put(self, method, params, scores, tolerance=None, absolute=None, **more):
        scores = np.asarray(scores, float)
        assert np.isfinite(scores).all(), method
        self.out["scores"].append({
            "method": method, "params": params, **more, "tolerance": self.tolerance if tolerance is None else tolerance,
            "absolute": self.absolute if absolute is None else absolute, "scores": scores.ravel()})
        return scores

    def write(self, name):
        with open(name, "w") as f:
            json.dump(plain(self.out), f)
            f.write("\n")


def pcg(seed, stream=0):
    """Go's math/rand/v2 PCG, O'Neill's 128-bit generator, whose algorithm is public: 64 bits at a time."""
    state = seed << 64 | stream
    while True:
        state = (state * 0x2360ED051FC65DA44385DF649FCCF645 + 0x5851F42D4C957F2D14057B7EF767814F) % 2**128
        hi, lo = state >> 64, state % 2**64
        hi ^= hi >> 32
        hi = hi * 0xDA942042E4DD58B5 % 2**64
        hi ^= hi >> 48
        yield hi * (lo | 1) % 2**64


def uniforms(seed, stream=0):
    """Random numbers in [0,1), as Go's Float64."""
    return (v % 2**53 / 2**53 for v in pcg(seed, stream))


def take(numbers, *shape):
    return np.array([next(numbers) for _ in range(int(np.prod(shape)))]).reshape(shape)


def permutation(n, seed, stream):
    """A random permutation, as Go's Perm, with Lemire's bounded numbers."""
    bits, p = pcg(seed, stream), list(range(n))
    for i in range(n - 1, 0, -1):
        m = i + 1
        if m & (m - 1) == 0:
            j = next(bits) & (m - 1)
        else:
            product = (next(bits) >> 32) * m
            assert product % 2**32 >= m  # otherwise Go might draw again
            j = product >> 32
        p[i], p[j] = p[j], p[i]
    return np.array(p)

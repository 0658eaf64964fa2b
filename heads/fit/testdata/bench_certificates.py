#!/usr/bin/env python3
"""Time ten epochs of Adam on squared-loss orthonormal certificates in PyTorch.

    bench_certificates.py FEATURES.npy K LAMBDA

The counterpart of TestExactCertificatesAgainstTorch in certificates_bench_test.go.
Prints the better time of 1 and 2 threads in seconds and the penalised loss
mean((Cᵀφ)²) + λ·mean((CᵀC−I)²) that it reached over all rows:

    seconds <tab> loss <tab> threads

Run with Python 3 and PyTorch 1.13 or later.
"""
import sys
import time

import numpy as np
import torch


def penalised(z, w, lam):
    eye = torch.eye(len(w))
    return (z ** 2).mean() + lam * ((w @ w.T - eye) ** 2).mean()


def train(x, k, lam):
    torch.manual_seed(0)
    net = torch.nn.Linear(x.shape[1], k, bias=False)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    began = time.perf_counter()
    for _ in range(10):
        for rows in torch.randperm(len(x)).split(64):
            loss = penalised(net(x[rows]), net.weight, lam)
            adam.zero_grad()
            loss.backward()
            adam.step()
    seconds = time.perf_counter() - began
    with torch.no_grad():
        return seconds, penalised(net(x), net.weight, lam).item()


def main():
    x = torch.from_numpy(np.load(sys.argv[1]))
    k, lam = int(sys.argv[2]), float(sys.argv[3])
    runs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs.append((*train(x, k, lam), threads))
    print(f"# PyTorch {torch.__version__}, Python {sys.version.split()[0]}")
    print("%.6f\t%.9g\t%d" % min(runs))


if __name__ == "__main__":
    main()

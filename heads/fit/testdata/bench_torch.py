#!/usr/bin/env python3
"""Time training steps of simultaneous quantile regression in PyTorch.

The counterpart of BenchmarkStep in bench_test.go, step for step: gather the
rows of a shuffled order, draw a level per row, forward, pinball loss,
backward, Adam. Prints one line per setting, at the better of 1 and 2 threads:

    name <tab> microseconds per step <tab> threads

Several models are trained one after another in PyTorch, so the time of one is
what BenchmarkStep's time per model-step is compared with.
Run with Python 3 and PyTorch 1.13 or later.
"""
import sys
import time

import torch

SETTINGS = [  # name, rows, columns, hidden, batch
    ("batch=256,513-128-1", 4096, 512, 128, 256),
    ("batch=64,5-64-1", 1024, 4, 64, 64),
]


def seconds_per_step(n, d, h, batch, budget):
    torch.manual_seed(0)
    x, y = torch.randn(n, d), torch.randn(n, 1)
    net = torch.nn.Sequential(torch.nn.Linear(d + 1, h), torch.nn.ReLU(), torch.nn.Linear(h, 1))
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(rows):
        tau = torch.rand(len(rows), 1)
        z = net(torch.cat((x[rows], (tau - 0.5) * 12), 1))
        over = z - y[rows]
        loss = torch.max(over * (1 - tau), -over * tau).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

    def epoch():
        order = torch.randperm(n)
        for start in range(0, n, batch):
            step(order[start:start + batch])

    for _ in range(3):
        epoch()
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        t = time.perf_counter()
        epoch()
        best = min(best, (time.perf_counter() - t) / (n // batch))
    return best


def main():
    print(f"# PyTorch {torch.__version__}, {'MKL' if torch.backends.mkl.is_available() else 'no MKL'}, "
          f"{'oneDNN' if torch.backends.mkldnn.is_available() else 'no oneDNN'}, "
          f"Python {sys.version.split()[0]}")
    for name, n, d, h, batch in SETTINGS:
        times = {}
        for threads in (1, 2):
            torch.set_num_threads(threads)
            times[threads] = seconds_per_step(n, d, h, batch, 2.0)
        threads = min(times, key=times.get)
        print(f"{name}\t{times[threads] * 1e6:.1f}\t{threads}")


if __name__ == "__main__":
    main()

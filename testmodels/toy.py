#!/usr/bin/env python3
"""Make the one-dimensional regression data of this folder and a network
trained on them by squared error.

    python3 toy.py --out .

writes toy_fit.npz, toy_cal.npz, toy_test.npz (x float32 n×1, y float32 n) and
toy_regressor.onnx (x → 100 ReLU → 100 ReLU → y).

Figure 1 of the paper shows data with non-Gaussian noise: aleatoric uncertainty
within their range, and epistemic uncertainty outside. The paper does not define
their distribution. Here it is

    x ~ U([-3,-0.5] ∪ [1,3]),   y = sin(1.5·x) + x/4 + s(x)·(E − 1),   E ~ Exp(1),
    s(x) = 0.05 + 0.15·(x + 3)/2,

so that the noise is skewed, has mean zero and grows with x. Its quantiles are known:
q(τ|x) = sin(1.5·x) + x/4 + s(x)·(−ln(1−τ) − 1). No row lies in the gap or beyond
±3, so that a network can only guess there. The network's training rows are drawn with
another seed and are not stored.
"""

import argparse
import os

import numpy as np
import onnx
import torch
from torch import nn

from render import save_npz

SEEDS = {"train": 10, "fit": 11, "cal": 12, "test": 13}
ROWS = {"train": 2000, "fit": 2000, "cal": 1000, "test": 2000}


def draw(name):
    rng = np.random.default_rng(SEEDS[name])
    n = ROWS[name]
    u = rng.uniform(0, 4.5, n)
    x = np.where(u < 2.5, u - 3, u - 1.5)
    noise = (0.05 + 0.075 * (x + 3)) * (rng.exponential(1, n) - 1)
    y = np.sin(1.5 * x) + x / 4 + noise
    return x[:, None].astype(np.float32), y.astype(np.float32)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--out", default=".", help="folder to write to")
    a = p.parse_args()
    for name in ("fit", "cal", "test"):
        x, y = draw(name)
        save_npz(os.path.join(a.out, f"toy_{name}.npz"), x=x, y=y)

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(1, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1)
    )
    x, y = (torch.from_numpy(v) for v in draw("train"))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    epochs, steps = 150, -(-len(x) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            loss = ((net(x[rows])[:, 0] - y[rows]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    with torch.no_grad():
        x, y = (torch.from_numpy(v) for v in draw("test"))
        truth = torch.sin(1.5 * x[:, 0]) + x[:, 0] / 4
        out = net(x)[:, 0]
        print(f"test: R² {1 - ((y - out) ** 2).mean() / y.var():.4f}, "
              f"rms distance from the true mean {((out - truth) ** 2).mean().sqrt():.4f}")
    path = os.path.join(a.out, "toy_regressor.onnx")
    torch.onnx.export(
        net, x[:2], path, opset_version=13, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
    )
    onnx.checker.check_model(onnx.load(path))
    print(f"{path}: {os.path.getsize(path)} bytes, torch {torch.__version__}")


if __name__ == "__main__":
    main()

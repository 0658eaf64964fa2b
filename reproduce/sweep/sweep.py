"""Time a sweep of simultaneous quantile regression in PyTorch.

    sweep.py FOLDER SEEDS EPOCHS

FOLDER holds x.npy and y.npy, standardised. For every seed and each of 15 settings
(learning rate by weight decay) a network of 64 hidden units is trained in
batches of 64 rows: one network after another ("loop"), and all as one network
of batched products with Adam on stacked parameters ("batched"). Prints for
each the seconds at the best number of threads (the loop with one), the mean pinball loss of the
last epoch, and how it ran:

    what <tab> seconds <tab> loss <tab> note

Run with Python 3 and PyTorch 1.13 or later.
"""
import itertools
import os
import sys
import time

import numpy as np
import torch

RATES, DECAYS, BATCH, HIDDEN = (1e-2, 1e-3, 1e-4), (0.0, 1e-3, 1e-2, 1e-1, 1.0), 64, 64


def pinball(z, y, tau):
    over = z - y
    return torch.max(over * (1 - tau), -over * tau)


def train_one(x, y, seed, rate, decay, epochs):
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1] + 1, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1))
    adam = torch.optim.Adam(net.parameters(), lr=rate, weight_decay=decay)
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(x)).split(BATCH):
            tau = torch.rand(len(rows), 1)
            loss = pinball(net(torch.cat((x[rows], (tau - 0.5) * 12), 1)), y[rows], tau).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            total += loss.item() * len(rows)
    return total / len(x)


def loop(x, y, seeds, epochs):
    runs = itertools.product(range(seeds), RATES, DECAYS)
    return float(np.mean([train_one(x, y, *run, epochs) for run in runs]))


def batched(x, y, seeds, epochs):
    torch.manual_seed(0)
    settings = list(itertools.product(RATES, DECAYS))
    per, models, d = len(settings), seeds * len(settings), x.shape[1] + 1
    rate = torch.tensor([s[0] for s in settings] * seeds).view(models, 1, 1)
    decay = torch.tensor([s[1] for s in settings] * seeds).view(models, 1, 1)

    def parameter(*shape, bound):
        return ((torch.rand(models, *shape) * 2 - 1) * bound).requires_grad_()

    w1, b1 = parameter(d, HIDDEN, bound=d ** -0.5), parameter(1, HIDDEN, bound=d ** -0.5)
    w2, b2 = parameter(HIDDEN, 1, bound=HIDDEN ** -0.5), parameter(1, 1, bound=HIDDEN ** -0.5)
    parameters = [w1, b1, w2, b2]
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]
    step = 0
    for _ in range(epochs):
        # Models of one seed see the same batches.
        order = torch.stack([torch.randperm(len(x)) for _ in range(seeds)])
        total = 0.0
        for rows in order.split(BATCH, 1):
            tau = torch.rand(seeds, rows.shape[1], 1)
            batch = torch.cat((x[rows], (tau - 0.5) * 12), 2).repeat_interleave(per, 0)
            target, level = y[rows].repeat_interleave(per, 0), tau.repeat_interleave(per, 0)
            z = torch.baddbmm(b2, torch.relu(torch.baddbmm(b1, batch, w1)), w2)
            losses = pinball(z, target, level).mean((1, 2))
            gradients = torch.autograd.grad(losses.sum(), parameters)
            total += losses.detach().mean().item() * rows.shape[1]
            step += 1
            with torch.no_grad():
                for p, g, m, v in zip(parameters, gradients, first, second):
                    g = torch.addcmul(g, decay, p)
                    m.mul_(0.9).add_(g, alpha=0.1)
                    v.mul_(0.999).addcmul_(g, g, value=0.001)
                    root = (v / (1 - 0.999 ** step)).sqrt_().add_(1e-8)
                    p.sub_((m / root).mul_(rate / (1 - 0.9 ** step)))
    return total / len(x)


def main():
    folder, seeds, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    x, y = (torch.from_numpy(np.load(os.path.join(folder, name))) for name in ("x.npy", "y.npy"))
    for what, run, tries in (("loop", loop, [1]), ("batched", batched, 2 * sorted({1, os.cpu_count()}))):
        best = None
        for threads in tries:
            torch.set_num_threads(threads)
            run(x[:BATCH], y[:BATCH], 1, 1)
            began = time.perf_counter()
            loss = run(x, y, seeds, epochs)
            seconds = time.perf_counter() - began
            if best is None or seconds < best[0]:
                best = seconds, loss, threads
        print("%s\t%.4f\t%.6f\t%d threads, PyTorch %s" % (what, *best, torch.__version__), flush=True)


if __name__ == "__main__":
    main()

"""Times a PyTorch network a pair, direction and repetition, as the paper's authors train them: all rows of a half
a step, Adam, a rate of 1e-4 that falls with the loss on the other half.

    python3 table3/peers.py DIR STEPS

trains both directions of five pairs of DIR/causal/an.npz for so many steps on one thread, and prints processor
seconds, and those of the whole table: 599 pairs, both directions, five repetitions, 3000 steps, a network each for
m = 1, 3, 5.
"""
import sys
import time

import numpy as np
import torch

LEVELS = (0.05, 0.23, 0.5, 0.77, 0.95)


def pinball(miss, tau):
    return torch.maximum(tau * miss, (tau - 1) * miss).mean()


def train(x, y, steps):
    order = torch.randperm(len(x))
    fit, test = order[: len(x) // 2], order[len(x) // 2 :]
    network = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    adam = torch.optim.Adam(network.parameters(), lr=1e-4, weight_decay=1e-4)
    falling = torch.optim.lr_scheduler.ReduceLROnPlateau(
        adam, patience=2, factor=0.99, threshold=1e-10, threshold_mode="abs", min_lr=1e-10)
    for _ in range(steps):
        tau = torch.rand(len(fit), 1)
        adam.zero_grad()
        pinball(y[fit] - network(torch.cat([x[fit], tau], 1)), tau).backward()
        adam.step()
        loss = 0.0
        for level in LEVELS:
            at = torch.full((len(test), 1), level)
            loss += pinball(y[test] - network(torch.cat([x[test], at], 1)), level).item()
        falling.step(loss)


torch.set_num_threads(1)
torch.manual_seed(0)
pairs, steps = np.load(sys.argv[1] + "/causal/an.npz"), int(sys.argv[2])
began = time.process_time()
for name in pairs.files[:5]:
    both = pairs[name]
    both = torch.tensor((both - both.mean(0)) / both.std(0), dtype=torch.float32)
    train(both[:, :1], both[:, 1:], steps)
    train(both[:, 1:], both[:, :1], steps)
spent = time.process_time() - began
whole = spent / 10 * 3000 / steps * 599 * 2 * 5 * 3
print(f"torch {torch.__version__}: {spent:.2f} s for ten networks and {steps} steps, {whole / 3600:.1f} hours for the table")

#!/usr/bin/env python3
"""Train small networks for 21 steps in PyTorch, and write losses and weights.

Writes trajectory.json beside this script: for each case the data, the initial
weights, the order of rows in each epoch, the quantile levels of each step, and
then the loss before each step and the weights after the last. Everything is
computed in double precision, with torch.optim.Adam. Cases
with "averaging" end with the mean of the weights after each epoch, and cases with
"validated" with the weights that have the smallest loss on held-out rows.
Made with Python 3.11 and PyTorch 1.13.
"""
import json
import os

import torch

torch.set_default_dtype(torch.float64)

ROWS, COLUMNS, BATCH, STEPS = 22, 3, 8, 21  # the last batch of an epoch has 6 rows
HELD = 10  # rows to validate on

CASES = [
    dict(name="conditional pinball, L2", hidden=[5], outputs=1, targets=1, loss="pinball", conditional=True,
         decay=0.1),
    dict(name="conditional pinball of levels", hidden=[5], outputs=1, targets=1, loss="pinball",
         conditional=True, levels=[0.05, 0.95], decay=0.1),
    dict(name="pinball of three levels, two hidden layers", hidden=[5, 4], outputs=3, targets=1, loss="pinball",
         levels=[0.1, 0.5, 0.9], decay=0.3),
    dict(name="pinball of two targets by two levels", hidden=[4], outputs=4, targets=2, target=-1, loss="pinball",
         levels=[0.25, 0.75]),
    dict(name="certificates, bce", hidden=[], outputs=2, targets=0, target=-1, bias=False, loss="bce", penalty=10.0),
    dict(name="certificates, mse with a bias", hidden=[], outputs=2, targets=0, target=-1, loss="mse", penalty=1.0,
         decay=0.1),
    dict(name="certificates, pinball", hidden=[], outputs=3, targets=0, target=-1, bias=False, loss="pinball",
         levels=[0.5], penalty=0.5),
    dict(name="penalty after a hidden layer", hidden=[5], outputs=2, targets=2, target=-1, loss="mse", penalty=2.0),
    dict(name="hidden layers without bias", hidden=[5, 3], outputs=1, targets=1, bias=False, loss="mse"),
    dict(name="l1 of the second target", hidden=[6], outputs=1, targets=2, target=1, loss="l1"),
    dict(name="bce with targets", hidden=[6], outputs=2, targets=2, target=-1, loss="bce", decay=0.2),
    dict(name="gaussian", hidden=[5], outputs=2, targets=1, loss="gaussian-nll", decay=0.1),
    dict(name="gaussian of the second target, linear", hidden=[], outputs=2, targets=2, target=1, loss="gaussian-nll"),
    dict(name="quality driven", hidden=[6, 4], outputs=2, targets=2, target=1,
         loss="quality-driven", levels=[0.1, 0.9], spread=1.5, tolerance=5e-3),  # steep sigmoids amplify rounding
    dict(name="averaged", hidden=[5], outputs=1, targets=1, loss="mse", averaging=0.7),
    dict(name="averaged and validated, conditional", hidden=[5], outputs=1, targets=2, target=1, loss="pinball",
         conditional=True, averaging=0.5, at=[0.1, 0.4, 0.9], seed=27, validated=True),
    dict(name="validated at the levels of training", hidden=[8], outputs=1, targets=1, loss="pinball", conditional=True,
         levels=[0.05, 0.95], seed=20, validated=True),
    dict(name="validated gaussian", hidden=[8], outputs=2, targets=1, loss="gaussian-nll", decay=0.01, seed=19, validated=True),
    dict(name="validated, quality driven", hidden=[8], outputs=2, targets=1, loss="quality-driven", levels=[0.2, 0.8],
         spread=1.5, tolerance=5e-3, seed=21, validated=True),
    dict(name="validated, two targets by two levels", hidden=[8], outputs=4, targets=2, target=-1, loss="pinball",
         levels=[0.25, 0.75], seed=24, validated=True),
    dict(name="conditional sigmoid pinball of labels", hidden=[5], outputs=1, targets=1, loss="sigmoid-pinball",
         conditional=True, labels=True, decay=0.1),
    dict(name="sigmoid pinball of two targets by two levels", hidden=[4], outputs=4, targets=2, target=-1,
         loss="sigmoid-pinball", levels=[0.25, 0.75], labels=True),
    dict(name="one row of targets for all rows", hidden=[5], outputs=2, targets=2, target=-1, bias=False, loss="mse", shared=True),
    dict(name="gradient penalty", hidden=[5, 4], outputs=3, targets=0, target=-1, loss="mse", gradient=2.0),
    dict(name="gradient penalty without bias", hidden=[6], outputs=2, targets=2, target=-1, bias=False, loss="mse",
         gradient=0.5, decay=0.1),
    dict(name="gradient penalty of a linear network", hidden=[], outputs=3, targets=0, target=-1, loss="bce", gradient=1.0),
    dict(name="diversity", hidden=[5], outputs=3, targets=0, target=-1, loss="mse", diversity=3.0),
    dict(name="three penalties", hidden=[7], outputs=3, targets=0, target=-1, loss="l1", gradient=1.0, diversity=2.0, penalty=0.5),
]


def run(case, seed):
    g = torch.Generator().manual_seed(seed)
    conditional, bias = case.get("conditional", False), case.get("bias", True)
    levels, penalty = case.get("levels", []), case.get("penalty", 0.0)
    target = case.get("target", 0)
    x = torch.randn(ROWS, COLUMNS, generator=g).float().double()
    y = torch.randn(ROWS, max(case["targets"], 1), generator=g).float().double()
    if case["loss"] == "bce" or case.get("labels"):
        y = (y > 0).double()
    if case["targets"] == 0:
        y = torch.zeros_like(y)
    if case.get("shared"):
        y = y[:1].expand(ROWS, -1)

    widths = [COLUMNS + conditional] + case["hidden"] + [case["outputs"]]
    layers = []
    for a, b in zip(widths, widths[1:]):
        w = ((torch.rand(a, b, generator=g) * 2 - 1) / a ** 0.5).float().double().requires_grad_()
        c = ((torch.rand(b, generator=g) * 2 - 1) / a ** 0.5).float().double().requires_grad_() if bias else None
        layers.append((w, c))
    if "spread" in case:  # width of the initial interval; with the default the gradient is nearly zero
        layers[-1][1].data = torch.tensor([-case["spread"], case["spread"]])
    initial = dump(layers)
    parameters = [p for layer in layers for p in layer if p is not None]
    adam = torch.optim.Adam(parameters, lr=0.02, weight_decay=case.get("decay", 0.0))

    def forward(z):
        for i, (w, c) in enumerate(layers):
            z = z @ w
            if c is not None:
                z = z + c
            if i + 1 < len(layers):
                z = torch.relu(z)
        return z

    def quality_driven(lower, upper, t, batch):
        alpha = 1 - (levels[1] - levels[0])
        hard = ((t > lower) & (t < upper)).double()
        soft = torch.sigmoid(160 * (upper - t)) * torch.sigmoid(160 * (t - lower))
        width = ((upper - lower) * hard).sum() / hard.sum().clamp(min=1)
        short = torch.clamp(1 - alpha - soft.mean(), min=0)
        return width + 15 * batch / (alpha * (1 - alpha)) * short ** 2

    def element_loss(z, t, tau, batch):
        kind = case["loss"]
        if kind == "bce":
            return torch.nn.functional.binary_cross_entropy_with_logits(z, t.expand_as(z))
        if kind == "mse":
            return ((z - t) ** 2).mean()
        if kind == "l1":
            return (z - t).abs().mean()
        if kind == "gaussian-nll":
            variance = torch.nn.functional.softplus(z[:, 1:]) + 1e-3
            return torch.nn.functional.gaussian_nll_loss(z[:, :1], t, variance, eps=0)
        if kind == "quality-driven":
            return quality_driven(z[:, :1], z[:, 1:], t, batch)
        if kind == "sigmoid-pinball":
            z = torch.sigmoid(z)
        if not conditional and len(levels) > 0:
            z = z.reshape(len(z), -1, len(levels))  # outputs: the levels of target after target
            t = t.unsqueeze(-1)
            tau = torch.tensor(levels)
        u = t - z
        return torch.max(tau * u, (tau - 1) * u).mean()

    held_x = torch.randn(HELD, COLUMNS, generator=g).float().double()
    held_y = torch.randn(HELD, max(case["targets"], 1), generator=g).float().double()
    at = case.get("at", levels)

    def validate(weights):
        used = [p.detach().clone() for p in parameters]
        with torch.no_grad():
            for p, w in zip(parameters, weights):
                p.copy_(w)
            t = held_y if target < 0 else held_y[:, target:target + 1]
            if conditional:
                each = [(torch.cat((held_x, torch.full((HELD, 1), (a - 0.5) * 12)), 1), a) for a in at]
                loss = sum(element_loss(forward(z), t, a, BATCH) for z, a in each) / len(at)
            else:
                loss = element_loss(forward(held_x), t, None, BATCH)
            for p, w in zip(parameters, used):
                p.copy_(w)
        return loss.item()

    def on_noise(rows):
        """The gradient penalty and diversity on fresh noise, as rows of a batch see them."""
        noise = torch.randn(BATCH, COLUMNS, generator=g).float().double()
        mix = torch.rand(len(rows), 1, generator=g).float().double()
        pick = torch.randint(case["outputs"], (len(rows), 1), generator=g)
        noises.append(dict(rows=short(noise), mix=short(mix), pick=pick.flatten().tolist()))
        between = (rows + mix * (noise[:len(rows)] - rows)).requires_grad_()
        gradient, = torch.autograd.grad(forward(between).gather(1, pick).sum(), between, create_graph=True)
        f = forward(noise)
        second = f.T @ f / BATCH - torch.eye(case["outputs"])
        return (case.get("gradient", 0) * ((gradient.norm(dim=1) - 1) ** 2).mean()
                + case.get("diversity", 0) * (second ** 2).mean())

    orders, taus, losses, noises = [], [], [], []
    averaging, validated, best = case.get("averaging", 0.0), case.get("validated", False), (float("inf"), 0, None)
    mean, total = [torch.zeros_like(p) for p in parameters], 0.0
    while len(losses) < STEPS:
        order = torch.randperm(ROWS, generator=g)
        orders.append(order.tolist())
        for rows in order.split(BATCH):
            tau = torch.rand(len(rows), 1, generator=g).float().double()
            if levels and conditional:
                tau = torch.tensor(levels).float().double()[torch.randint(len(levels), (len(rows), 1), generator=g)]
            taus.append(tau.flatten().tolist())
            t = y[rows] if target < 0 else y[rows, target:target + 1]
            z = forward(torch.cat((x[rows], (tau - 0.5) * 12), 1) if conditional else x[rows])
            loss = element_loss(z, t, tau, len(rows))
            if penalty:
                c = layers[-1][0]
                loss = loss + penalty * ((c.T @ c - torch.eye(c.shape[1])) ** 2).mean()
            if "gradient" in case or "diversity" in case:
                loss = loss + on_noise(x[rows])
            losses.append(loss.item())
            adam.zero_grad()
            loss.backward()
            adam.step()
        total = averaging * total + 1
        mean = [m + (p.detach() - m) / total for m, p in zip(mean, parameters)]
        if validated:
            loss = validate(mean)
            if loss < best[0]:
                best = (loss, len(orders), mean)
    with torch.no_grad():
        for p, w in zip(parameters, best[2] if validated else mean):
            p.copy_(w)
    return dict(case, conditional=conditional, bias=bias, levels=levels, penalty=penalty, target=target,
                tolerance=case.get("tolerance", 1e-4),
                decay=case.get("decay", 0.0), rate=0.02, batch=BATCH,
                x=short(x), y=short(y[:1] if case.get("shared") else y), noises=noises, initial=initial, orders=orders, taus=taus if conditional else [],
                losses=losses, final=dump(layers), averaging=averaging, validated=validated, at=case.get("at", []),
                held_x=short(held_x) if validated else [], held_y=short(held_y) if validated else [],
                best=best[0] if validated else 0, epoch=best[1])


def short(t):
    return [float(f"{v:.9g}") for v in t.flatten().tolist()]


def dump(layers):
    return [dict(w=short(w.detach()), b=short(c.detach()) if c is not None else []) for w, c in layers]


def main():
    # If a case has a seed, its smallest validation loss comes before the last epoch.
    out = [run(case, case.get("seed", i)) for i, case in enumerate(CASES)]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trajectory.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()

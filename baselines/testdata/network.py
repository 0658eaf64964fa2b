"""Writes network.json: a small convolutional network, inputs for it, and scores
of the methods that differentiate it or read its last layer.

Every gradient is PyTorch's, in double precision; the convolution is written as
the dense matrix that it is.
"""
import numpy as np
import torch
from torch.nn import functional as F

from fixture import Problem

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)


def f32(x):
    return x.float().double()


ROWS, CLASSES = 8, 4
STD = torch.tensor([0.25, 0.4])
kernel = f32(torch.randn(3, 2, 3, 3) / 3)
shift = f32(torch.randn(3) / 4)
weight = f32(torch.randn(CLASSES, 48) / 2)
bias = f32(torch.randn(CLASSES))
x = f32(torch.randn(ROWS, 2, 4, 4))
x[3] *= 5


def features(x):
    return torch.tanh(F.conv2d(x, kernel, shift, padding=1)).flatten(1)


def logits(x):
    return features(x) @ weight.T + bias


def gradient(x, scalar):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(scalar(logits(x)).sum(), x)[0]


def top_two(v):
    return v.sort(1, descending=True)[0][:, :2]


def margin(v):
    s = top_two(v)
    return s[:, 0] - s[:, 1]


def largest_log_softmax(z, t):
    top = z.argmax(1)
    return F.log_softmax(z / t, 1)[torch.arange(len(z)), top]


# Five passes. For the first three rows, they are confident and equal, unsure and equal, and
# contradictory.
passes = torch.randn(5, ROWS, CLASSES)
passes[:, 0] = torch.tensor([30.0, 0, -2, 5]) + torch.randn(5, 4) / 100
passes[:, 1] = torch.tensor([1.0, 1, 1, 1])
for s in range(5):
    passes[s, 2] = 12 * F.one_hot(torch.tensor(s % CLASSES), CLASSES)
passes = f32(passes)

# The rows also serve as fit rows, because the methods learn nothing from them.
rows = {"features": f32(features(x)), "logits": f32(logits(x)), "inputs": {"shape": list(x.shape), "data": x.flatten()}}
units = torch.eye(32).reshape(32, 2, 4, 4)
# Features and logits are float32.
problem = Problem(
    "numpy", "torch", tolerance=2e-6, absolute=2e-7, train=rows, test=rows, last={"weight": weight, "bias": bias},
    network={"hidden": F.conv2d(units, kernel, padding=1).flatten(1).T, "shift": shift.repeat_interleave(16),
             "scale": 1 / STD, "passes": passes})
put = problem.put

for t in (100, 1000, 10000):
    for eps in (0.014, 0.0014, 0.00014):
        step = eps / STD[:, None, None] * gradient(x, lambda z: largest_log_softmax(z, t)).sign()
        # At these temperatures the softmax is nearly uniform, and scores of different rows
        # differ by about 1/T.
        near = {"tolerance": 0, "absolute": 2e-6 / t}
        put("odin", {"temperature": t, "epsilon": eps}, -F.softmax(logits(x + step) / t, 1).max(1)[0], **near)
        phi = features(x).detach().requires_grad_()
        g = torch.autograd.grad(largest_log_softmax(phi @ weight.T + bias, t).sum(), phi)[0]
        z = (phi.detach() + eps * g.sign()) @ weight.T + bias
        put("odin-features", {"temperature": t, "epsilon": eps}, -F.softmax(z / t, 1).max(1)[0], **near)


def length(g):
    return g.flatten(1).norm(dim=1)


z = logits(x)
outputs = {"logits": lambda z: z, **{t: (lambda z, t=t: F.softmax(z / t, 1)) for t in (1, 2, 10)}}
for name, f in outputs.items():
    params = {"logits": True} if name == "logits" else {"temperature": name}
    m = margin(f(z))
    put("geometrical", {**params, "gradient": "sum"}, -m / length(gradient(x, lambda z: z.sum(1))))
    put("geometrical", {**params, "gradient": "margin"}, -m / length(gradient(x, lambda z: margin(f(z)))))

# The smallest distance over classes, from the gradient of each difference.
phi = features(x).detach().requires_grad_()
z = phi @ weight.T + bias
top = z.argmax(1)
distances = []
for k in range(CLASSES):
    d = z[torch.arange(ROWS), top] - z[:, k]
    g = torch.autograd.grad(d.sum(), phi, retain_graph=True)[0].norm(dim=1)
    distances.append(torch.where(top == k, torch.inf, d / g))
put("geometrical-features", {}, -torch.stack(distances).min(0)[0].detach())

for t in (1, 2):
    out = []
    for row in phi.detach():
        w = weight.clone().requires_grad_()
        p = F.log_softmax((w @ row + bias) / t, 0)
        kl = (torch.full_like(p, 1 / CLASSES) * (np.log(1 / CLASSES) - p)).sum()
        out.append(-torch.autograd.grad(kl, w)[0].abs().sum())
    put("gradnorm", {"temperature": t}, torch.stack(out))

p = F.softmax(passes, 2).numpy()


def entropy(p):
    return -(p * np.log(p)).sum(-1)


mean = p.mean(0)
for score, of in [("mutual-information", entropy(mean) - entropy(p).mean(0)), ("predictive-entropy", entropy(mean)), ("variance", p.var(0).mean(1))]:
    put("bald", {"score": score}, of, tolerance=1e-9, absolute=1e-15)
problem.write("network.json")

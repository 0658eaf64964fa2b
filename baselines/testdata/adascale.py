"""Writes adascale.json: scores of AdaSCALE on a small network, with PyTorch's
gradients, in double precision."""

import torch
from torch.nn import functional as F

from fixture import Problem

torch.manual_seed(5)
torch.set_default_dtype(torch.float64)
N, INPUTS, H, C = 40, 60, 48, 4


def f32(x):
    return x.float().double()


hidden, shift = f32(torch.randn(H, INPUTS) / 6), f32(torch.randn(H) / 2)
weight, bias = f32(torch.randn(C, H) / 2), f32(torch.randn(C))
train, test = f32(torch.randn(N, 3, 4, 5)), f32(torch.randn(12, 3, 4, 5) * torch.linspace(0.5, 3, 12)[:, None, None, None])


def features(x):
    return torch.tanh(x.flatten(1) @ hidden.T + shift)


def logits(x):
    return features(x) @ weight.T + bias


def rows(x):
    return {"features": f32(features(x)), "logits": f32(logits(x)), "inputs": {"shape": list(x.shape), "data": x.flatten()}}


def moved(x, share=0.05, epsilon=0.5):
    """Features after a step, along the gradient of the largest logit, of the inputs with the smallest gradient."""
    x = x.clone().requires_grad_()
    g = torch.autograd.grad(logits(x).max(1)[0].sum(), x)[0].flatten(1)
    least = g.abs().topk(int(share * g.shape[1]), largest=False)[1]
    mask = torch.zeros_like(g).scatter_(1, least, 1)
    return features(f32(x.detach() + (epsilon * g.sign() * mask).view_as(x)))


def shifts(x, after, kept, shifted, weight):
    before = f32(features(x))
    top = lambda percent: before.topk(max(1, int(H * percent / 100)))[1]
    return after.relu().gather(1, top(kept)).sum(1) + weight * (after - before).abs().gather(1, top(shifted)).sum(1)


after_train, after_test = moved(train), moved(test)
problem = Problem(
    "numpy", "torch", tolerance=2e-6, absolute=2e-6, train=rows(train), test=rows(test), last={"weight": weight, "bias": bias},
    network={"hidden": hidden, "shift": shift, "scale": [1]})
for scales in ("features", "logits"):
    for low, high, kept, shifted, shift_weight in [(60, 85, 1, 5, 10), (60, 95, 1, 30, 10), (80, 85, 10, 10, 1)]:
        fit, new = shifts(train, after_train, kept, shifted, shift_weight), shifts(test, after_test, kept, shifted, shift_weight)
        share = (fit[None] <= new[:, None]).double().mean(1)
        k = H - (H * (low + (1 - share) * (high - low)) / 100).round().long()
        phi = f32(features(test))
        positive = phi.relu()
        ratio = positive.sum(1) / torch.stack([r.topk(n)[0].sum() for r, n in zip(positive, k.tolist())])
        if scales == "features":
            z = F.linear(phi * ratio.exp()[:, None], weight, bias)
        else:
            z = F.linear(phi, weight, bias) * ratio[:, None] ** 2
        params = {"scales": scales, "low": low, "high": high, "kept": kept, "shifted": shifted, "shift": shift_weight}
        problem.put("adascale", params, -z.logsumexp(1))
problem.write("adascale.json")

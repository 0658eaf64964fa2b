#!/usr/bin/env python3
"""Compute scores of methods that differentiate the network in PyTorch, to check
`attach compare --json`.

    python3 reference_odin.py digits_vgg.onnx --preprocess digits.preprocess.json \\
        --in digits_test.npz --out letters.npz [--check theirs.json]

The graph is run node by node with PyTorch's operators, and PyTorch's autograd
differentiates it. No code of attach or ONNX Runtime is used. --check
compares every configuration of theirs.json that is known here (odin,
geometrical, gradnorm); the exit status is 1 if an AUROC differs by more than
--tolerance. The other arguments are those of reference_auroc.py.

ODIN's step is epsilon in units of pixels in [0,1], as in the authors' code: in
the network's input, it is epsilon divided by the std of the preprocessing.

Written with Python 3.11.2, PyTorch 1.13.0, onnx 1.12.0, NumPy 1.24.2, scikit-learn 1.2.1.
"""

import argparse
import json
import sys
import time

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from reference_auroc import load, metrics, preprocess
from torch.nn import functional as F


class Network:
    """Computes features (the input of the last Gemm) and logits of a graph. It supports
    the operators that the small networks here use."""

    def __init__(self, path):
        self.graph = onnx.load(path).graph
        self.values = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in self.graph.initializer}
        self.input = next(i.name for i in self.graph.input if i.name not in self.values)
        self.last = [n for n in self.graph.node if n.op_type == "Gemm"][-1]

    def weight(self):
        return self.values[self.last.input[1]]

    def __call__(self, x):
        v = {**self.values, self.input: x}
        for n in self.graph.node:
            a = {p.name: helper.get_attribute_value(p) for p in n.attribute}
            v[n.output[0]] = self.run(n, a, [v[i] for i in n.input if i])
        return v[self.last.input[0]], v[self.graph.output[0].name]

    @staticmethod
    def run(n, a, v):
        pads = a.get("pads", [0, 0, 0, 0])
        if n.op_type not in ("Conv", "MaxPool", "AveragePool", "Pad"):
            pads = None
        elif n.op_type != "Pad" and pads[:2] != pads[2:]:
            sys.exit(f"{n.name}: padding {pads} is not the same on both sides")
        if n.op_type == "Conv":
            return F.conv2d(*v, stride=a.get("strides", 1), padding=pads[:2], dilation=a.get("dilations", 1), groups=a.get("group", 1))
        if n.op_type == "MaxPool":
            return F.max_pool2d(v[0], a["kernel_shape"], a.get("strides", 1), pads[:2], ceil_mode=bool(a.get("ceil_mode")))
        if n.op_type == "AveragePool":
            return F.avg_pool2d(v[0], a["kernel_shape"], a.get("strides", 1), pads[:2], count_include_pad=bool(a.get("count_include_pad")))
        if n.op_type == "Pad":
            gaps = v[1].tolist()
            half = len(gaps) // 2
            return F.pad(v[0], [g for i in reversed(range(half)) for g in (gaps[i], gaps[half + i])])
        if n.op_type == "BatchNormalization":
            x, scale, shift, mean, var = v
            return F.batch_norm(x, mean, var, scale, shift, eps=a.get("epsilon", 1e-5))
        if n.op_type == "Gemm":
            w = v[1].T if a.get("transB") else v[1]
            return v[0] @ w + v[2]
        if n.op_type == "Constant":
            return torch.from_numpy(numpy_helper.to_array(a["value"]).copy())
        simple = {
            "Relu": lambda: F.relu(v[0]),
            "Add": lambda: v[0] + v[1],
            "GlobalAveragePool": lambda: v[0].mean((2, 3), keepdim=True),
            "Flatten": lambda: v[0].flatten(a.get("axis", 1)),
            "Dropout": lambda: v[0],
            "Identity": lambda: v[0],
        }
        if n.op_type not in simple:
            sys.exit(f"{n.name}: {n.op_type} is not among the operators of this reference")
        return simple[n.op_type]()


def margin(z, p):
    v = z if p.get("logits") else F.softmax(z / p.get("temperature", 1), 1)
    top = v.topk(2, 1)[0]
    return top[:, 0] - top[:, 1]


def gradient(net, x, scalar):
    x = x.clone().requires_grad_()
    phi, z = net(x)
    return phi.detach(), z.detach(), torch.autograd.grad(scalar(z).sum(), x)[0]


def odin(net, x, p, std):
    t = p.get("temperature", 1000)
    _, _, g = gradient(net, x, lambda z: F.log_softmax(z / t, 1).max(1)[0])
    with torch.no_grad():
        z = net(x + p.get("epsilon", 0.0014) / std * g.sign())[1].double()
    return -F.softmax(z / t, 1).max(1)[0]


def geometrical(net, x, p, std):
    own = p.get("gradient", "margin") == "margin"
    _, z, g = gradient(net, x, (lambda z: margin(z, p)) if own else (lambda z: z.sum(1)))
    length = g.double().flatten(1).norm(dim=1)
    return -margin(z.double(), p) / length.clamp(min=torch.finfo(torch.float32).smallest_normal)


def gradnorm(net, x, p, std):
    t, out = p.get("temperature", 1), []
    with torch.no_grad():
        phi, z = net(x)
    bias = z - phi @ net.weight().T
    for f, b in zip(phi, bias):
        w = net.weight().clone().requires_grad_()
        loss = -F.log_softmax((w @ f + b) / t, 0).mean()
        out.append(-torch.autograd.grad(loss, w)[0].double().abs().sum())
    return torch.stack(out)


SUMS = [{"temperature": float(t), "gradient": "sum"} for t in (1, 2, 10)] + [{"logits": True, "gradient": "sum"}]
METHODS = {
    "odin": (odin, [{"temperature": float(t), "epsilon": e} for t in (100, 1000, 10000) for e in (0.014, 0.0014, 0.00014)]),
    "geometrical": (geometrical, SUMS + [{"temperature": 1.0, "gradient": "margin"}, {"logits": True, "gradient": "margin"}]),
    "gradnorm": (gradnorm, [{"temperature": 1.0}]),
}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("model", help="ONNX file")
    for name in ("in", "out"):
        p.add_argument("--" + name, required=True, dest=name + "_path", help="npz of images and labels")
    p.add_argument("--preprocess", required=True, help="JSON")
    p.add_argument("--in-classes", default="")
    p.add_argument("--out-classes", default="")
    p.add_argument("--limit", type=int, default=0, help="first rows of each set to use (default: all)")
    p.add_argument("--methods", default=",".join(METHODS))
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--json", action="store_true", help="print JSON")
    p.add_argument("--check", help="output of `attach compare --json` to compare with")
    p.add_argument("--tolerance", type=float, default=5e-3)
    a = p.parse_args()

    torch.set_num_threads(a.threads)
    net = Network(a.model)
    with open(a.preprocess) as f:
        config = json.load(f)
    std = torch.tensor(config.get("image_std", [1.0])).reshape(-1, 1, 1)
    classes = lambda s: [int(c) for c in s.split(",") if c]
    sets = [load(a.in_path, classes(a.in_classes), a.limit), load(a.out_path, classes(a.out_classes), a.limit)]
    rows = [torch.from_numpy(preprocess(s["images"], config)) for s in sets]

    wanted = {name: METHODS[name][1] for name in a.methods.split(",")}
    theirs = {}
    if a.check:
        with open(a.check) as f:
            theirs = {m["name"]: m["configs"] for m in json.load(f)["methods"]}
        wanted = {name: [c["params"] for c in theirs[name]] for name in wanted if name in theirs}
        if not wanted:
            sys.exit(f"{a.check} has none of {a.methods}")
    report, worst = [], 0.0
    for name, grid in wanted.items():
        configs = []
        for i, params in enumerate(grid):
            start = time.time()
            inside, outside = (
                torch.cat([METHODS[name][0](net, x, params, std) for x in r.split(a.batch)]).numpy() for r in rows
            )
            m = metrics(inside, outside)
            configs.append({"params": params, **m})
            line = f"{name:12} {m['auroc']:.4f}"
            if theirs:
                gap = abs(m["auroc"] - theirs[name][i]["auroc"])
                worst = max(worst, gap)
                line += f" {theirs[name][i]['auroc']:.4f}  Δ {gap:.1e}"
            print(f"{line}  {json.dumps(params)}  {time.time() - start:.1f} s", file=sys.stderr if a.json else sys.stdout)
        report.append({"name": name, "configs": configs})
    if a.json:
        json.dump({"model": a.model, "n_in": len(rows[0]), "n_out": len(rows[1]), "methods": report}, sys.stdout, indent=1)
        print()
    if theirs:
        print(f"largest difference of an AUROC: {worst:.1e}", file=sys.stderr if a.json else sys.stdout)
        if not worst <= a.tolerance:
            sys.exit(1)


if __name__ == "__main__":
    main()

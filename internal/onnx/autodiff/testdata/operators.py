"""Write gradients of operators, computed by PyTorch's autograd in double precision.

    python operators.py > operators.json

Each case is one form of a node, for a range of operator sets. Its gradients are those
of Σ cos(i)·y[i] over the elements of the output y. The formula in `values` computes
inputs for which the case gives no values, rounded to float32.

Written with Python 3.11, PyTorch 1.13.0.
"""

import json
import math
import sys

import torch
import torch.nn.functional as F

CASES = []


def values(shape, j, low, high):
    n = math.prod(shape)
    v = [low + (high - low) * math.modf(0.5 + (i + 1) * 0.6180339887498949 + j * 0.37)[0] for i in range(n)]
    return torch.tensor(v, dtype=torch.float64).float().double().reshape(shape)


def ints(*v, shape=None):
    return {"ints": v, "shape": [len(v)] if shape is None else shape}


def scalar(v):
    return {"ints": [v], "shape": []}


def floats(*v, shape=None):
    return {"floats": v, "shape": [len(v)] if shape is None else shape}


def bools(*v):
    return {"bools": v, "shape": [len(v)]}


NONE = {"none": True}


def attribute(v):
    if isinstance(v, str):
        return {"s": v}
    if isinstance(v, (list, tuple)):
        return {"ints": v}
    return {"f": v} if isinstance(v, float) else {"i": v}


def case(op, versions, inputs, function, low=-2.0, high=2.0, outputs=1, output=0, name=None, **attributes):
    inputs = [{"shape": i} if isinstance(i, list) else i for i in inputs]
    x = [values(i["shape"], j, low, high).requires_grad_() for j, i in enumerate(inputs) if set(i) == {"shape"}]
    y = function(*x)
    (y.reshape(-1) * torch.cos(torch.arange(y.numel(), dtype=torch.float64))).sum().backward()
    CASES.append({
        "name": name or op, "op": op, "from": versions[0], "to": versions[1], "low": low, "high": high,
        "outputs": outputs, "output": output, "shape": y.shape, "inputs": inputs,
        "attributes": {k: attribute(v) for k, v in attributes.items()},
        "gradients": [[float(f"{g:.9g}") for g in i.grad.reshape(-1).tolist()] for i in x],
    })


ALL = (7, 26)
M, C3, IMG = [3, 4], [2, 3, 4], [2, 4, 3, 2]


def activations():
    case("Elu", ALL, [M], lambda x: F.elu(x, 0.7), alpha=0.7)
    case("Selu", ALL, [M], F.selu)
    case("Celu", (12, 26), [M], lambda x: F.celu(x, 0.6), alpha=0.6)
    case("LeakyRelu", ALL, [M], lambda x: F.leaky_relu(x, 0.2), alpha=0.2)
    case("PRelu", ALL, [C3, [3, 1]], lambda x, s: torch.where(x > 0, x, x * s))
    case("HardSwish", (14, 26), [M], F.hardswish, low=-5.0, high=5.0)
    case("HardSigmoid", ALL, [M], lambda x: (0.2 * x + 0.5).clamp(0, 1), low=-5.0, high=5.0)
    case("Swish", (24, 24), [M], lambda x: x * torch.sigmoid(1.3 * x), alpha=1.3)
    case("Mish", (18, 26), [M], F.mish)
    case("Softsign", ALL, [M], F.softsign)
    case("Softplus", ALL, [M], F.softplus)
    case("Gelu", (20, 26), [M], F.gelu)
    case("Gelu", (20, 26), [M], lambda x: F.gelu(x, approximate="tanh"), approximate="tanh", name="Gelu tanh")
    case("Erf", (9, 26), [M], torch.erf)
    case("Sin", ALL, [M], torch.sin)
    case("Cos", ALL, [M], torch.cos)
    case("Clip", (7, 10), [M], lambda x: x.clamp(-1, 0.5), min=-1.0, max=0.5)
    case("Clip", (11, 26), [M, floats(-1.0, shape=[]), floats(0.5, shape=[])], lambda x: x.clamp(-1, 0.5))
    case("Clip", (11, 26), [M, NONE, floats(0.5, shape=[])], lambda x: x.clamp(max=0.5), name="Clip above")
    case("Pow", ALL, [M, floats(3.0, shape=[])], lambda x: x**3)
    case("Mean", (8, 26), [M, [4], [3, 1]], lambda a, b, c: (a + b + c) / 3)
    case("Min", (8, 26), [M, [4]], torch.minimum)
    case("Max", (8, 26), [M, [4]], torch.maximum)


def normalizations():
    c4 = [[4], [4], [4], [4]]
    case("BatchNormalization", ALL, [IMG] + c4, lambda x, w, b, m, v: (x - m[:, None, None]) / torch.sqrt(v[:, None, None] + 1e-3) * w[:, None, None] + b[:, None, None],
         low=0.5, high=2.0, epsilon=1e-3)
    case("InstanceNormalization", ALL, [IMG, [4], [4]], lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=1e-5))
    case("LayerNormalization", (17, 26), [C3, [4], [4]], lambda x, w, b: F.layer_norm(x, (4,), w, b))
    case("LayerNormalization", (17, 26), [C3, [3, 4]], lambda x, w: F.layer_norm(x, (3, 4), w, eps=0.1), axis=1, epsilon=0.1,
         name="LayerNormalization of two axes")
    case("GroupNormalization", (21, 26), [IMG, [4], [4]], lambda x, w, b: F.group_norm(x, 2, w, b), num_groups=2)
    case("RMSNormalization", (23, 26), [C3, [4]], lambda x, w: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w)
    case("LpNormalization", ALL, [C3], lambda x: F.normalize(x, 2, 1), axis=1)
    case("LpNormalization", ALL, [C3], lambda x: F.normalize(x, 1, -1), p=1, name="LpNormalization of 1")
    case("LRN", ALL, [[2, 6, 2, 1]], lambda x: F.local_response_norm(x, 5, 0.5, 0.6, 2.0), size=5, alpha=0.5, beta=0.6, bias=2.0)
    for op, f in [("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax)]:
        case(op, (7, 12), [C3], lambda x: f(x.flatten(1), 1).reshape(x.shape), name=op + " of rows")
        case(op, (7, 12), [C3], lambda x: f(x.flatten(), 0).reshape(x.shape), axis=0, name=op + " of all")
        case(op, (13, 26), [C3], lambda x: f(x, -1))
        case(op, (13, 26), [C3], lambda x: f(x, 1), axis=1, name=op + " axis")
    case("Dropout", (7, 11), [M], lambda x: x, ratio=0.3)
    case("Dropout", (12, 26), [M, floats(0.3, shape=[])], lambda x: x)


def reductions():
    def l1(x, axes, keep):
        return x.abs().sum(axes, keep)

    table = {
        "ReduceMax": lambda x, a, k: x.amax(a, k), "ReduceMin": lambda x, a, k: x.amin(a, k), "ReduceL1": l1,
        "ReduceL2": lambda x, a, k: (x * x).sum(a, k).sqrt(),
        "ReduceLogSumExp": lambda x, a, k: x.logsumexp(a, k), "ReduceSumSquare": lambda x, a, k: (x * x).sum(a, k),
        "ReduceMean": lambda x, a, k: x.mean(a, k), "ReduceSum": lambda x, a, k: x.sum(a, k),
    }
    for op, f in table.items():
        last = 12 if op == "ReduceSum" else 17
        case(op, (7, last), [C3], lambda x: f(x, (1,), True), axes=[1])
        case(op, (7, last), [C3], lambda x: f(x, (0, 2), False), axes=[0, 2], keepdims=0, name=op + " dropped")
        case(op, (last + 1, 26), [C3, ints(1)], lambda x: f(x, (1,), True))
        case(op, (last + 1, 26), [C3, ints(0, -1)], lambda x: f(x, (0, 2), False), keepdims=0, name=op + " dropped")
    case("ReduceMax", ALL, [C3], lambda x: x.amax((0, 1, 2), True), name="ReduceMax of all")


def places():
    case("Slice", (7, 9), [C3], lambda x: x[:, 1:3, :-1], starts=[1, 0], ends=[3, -1], axes=[1, 2])
    case("Slice", (10, 26), [C3, ints(1, 0), ints(3, 4), ints(1, 2), ints(1, 2)], lambda x: x[:, 1:3, ::2])
    case("Slice", (10, 26), [C3, ints(-1), ints(-100), ints(2), ints(-2)], lambda x: x.flip(2)[:, :, ::2], name="Slice backwards")
    for mode in ("constant", "reflect", "edge"):
        how = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}[mode]
        case("Pad", (7, 10), [C3], lambda x: F.pad(x, (2, 1), how), pads=[0, 0, 2, 0, 0, 1], mode=mode, name="Pad " + mode)
        case("Pad", (11, 26), [C3, ints(0, 0, 2, 0, 0, 1)], lambda x: F.pad(x, (2, 1), how), mode=mode, name="Pad " + mode)
    case("Pad", (19, 26), [C3, ints(0, 0, 2, 0, 0, 1)], lambda x: F.pad(x, (2, 1), "circular"), mode="wrap", name="Pad wrap")
    case("Pad", (18, 26), [C3, ints(1, 2), NONE, ints(-1)], lambda x: F.pad(x, (1, 2)), name="Pad axes")
    case("Pad", (11, 26), [C3, ints(0, -1, 1, 0, 0, -2)], lambda x: F.pad(x, (1, -2, -1, 0)), name="Pad crops")
    case("Split", (7, 12), [C3], lambda x: x[:, :, 1:], outputs=2, output=1, axis=2, split=[1, 3])
    case("Split", (13, 26), [C3, ints(1, 3)], lambda x: x[:, :, 1:], outputs=2, output=1, axis=2)
    case("Split", (7, 17), [C3], lambda x: x[:1], outputs=2, name="Split evenly")
    case("Split", (18, 26), [C3], lambda x: x[:, :2], outputs=2, axis=1, num_outputs=2, name="Split by number")
    case("Squeeze", (7, 12), [[3, 1, 4]], lambda x: x.squeeze(1), axes=[1])
    case("Squeeze", (13, 26), [[3, 1, 4], ints(1)], lambda x: x.squeeze(1))
    case("Unsqueeze", (7, 12), [M], lambda x: x[:, None, :, None], axes=[1, 3])
    case("Unsqueeze", (13, 26), [M, ints(1, -1)], lambda x: x[:, None, :, None])
    case("Reshape", ALL, [C3, ints(0, -1)], lambda x: x.flatten(1))
    case("Reshape", (14, 26), [C3, ints(6, -1)], lambda x: x.reshape(6, 4), allowzero=1, name="Reshape allowzero")
    case("TopK", (7, 9), [C3], lambda x: x.topk(2, 1)[0], outputs=2, axis=1, k=2)
    case("TopK", (10, 10), [C3, ints(2)], lambda x: x.topk(2, 1)[0], outputs=2, axis=1)
    case("TopK", (11, 26), [C3, ints(2)], lambda x: x.topk(2, 1, largest=False)[0], outputs=2, axis=1, largest=0)
    case("Gather", (11, 26), [C3, ints(2, -3, 2, 0, shape=[2, 2])],
         lambda x: x[:, [2, 0, 2, 0]].reshape(2, 2, 2, 4), axis=1)
    case("Gather", ALL, [C3, scalar(1)], lambda x: x[:, 1], axis=1, name="Gather one")
    case("Gather", (11, 26), [C3, scalar(-1)], lambda x: x[..., -1], axis=-1, name="Gather the last")
    case("GatherElements", (11, 26), [M, ints(2, 0, 2, 1, 0, 0, 1, 1, shape=[2, 4])],
         lambda x: x.gather(0, torch.tensor([[2, 0, 2, 1], [0, 0, 1, 1]])))
    case("GatherND", (11, 26), [C3, ints(0, 1, 1, 2, 0, 1, shape=[3, 2])], lambda x: x[[0, 1, 0], [1, 2, 1]])
    case("GatherND", (12, 26), [C3, ints(2, 0, shape=[2, 1])], lambda x: x[[0, 1], [2, 0]], batch_dims=1, name="GatherND batch")
    at = torch.tensor([[2, 0, 1, 1]])
    for op, since, to in [("Scatter", 9, 10), ("ScatterElements", 11, 26)]:
        case(op, (since, to), [M, ints(2, 0, 1, 1, shape=[1, 4]), [1, 4]], lambda x, u: x.scatter(0, at, u))
    case("ScatterElements", (16, 26), [M, ints(2, 0, 1, 1, shape=[1, 4]), [1, 4]], lambda x, u: x.scatter_add(0, at, u),
         reduction="add", name="ScatterElements add")
    case("ScatterND", (11, 26), [[4, 3], ints(3, 1, shape=[2, 1]), [2, 3]], lambda x, u: x.index_copy(0, torch.tensor([3, 1]), u))
    case("ScatterND", (16, 26), [[4, 3], ints(3, 3, shape=[2, 1]), [2, 3]], lambda x, u: x.index_add(0, torch.tensor([3, 3]), u),
         reduction="add", name="ScatterND add")
    case("Tile", ALL, [C3, ints(2, 1, 3)], lambda x: x.repeat(2, 1, 3))
    case("Expand", (8, 26), [[3, 1], ints(2, 1, 4)], lambda x: x.expand(2, 3, 4))
    case("CumSum", (11, 26), [C3, scalar(1)], lambda x: x.cumsum(1))
    case("CumSum", (11, 26), [C3, scalar(-1)], lambda x: x.flip(2).cumsum(2).flip(2) - x, exclusive=1, reverse=1,
         name="CumSum exclusive from the end")
    case("Trilu", (14, 26), [C3, scalar(1)], lambda x: x.tril(1), upper=0)
    case("Einsum", (12, 26), [C3, [2, 4, 5]], lambda a, b: torch.einsum("bij,bjk->bki", a, b), equation="bij,bjk->bki")
    case("Where", (9, 26), [bools(True, False, True, True), M, M], lambda a, b: torch.where(torch.tensor([True, False, True, True]), a, b))


if __name__ == "__main__":
    activations()
    normalizations()
    reductions()
    places()
    json.dump(CASES, sys.stdout, separators=(",", ":"))
    print()

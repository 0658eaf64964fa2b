"""Attributes the scores of `reproduce attribution --captum DIR` with captum, and prints how often
the fault ranks first and in the first three, beside the attributions of attach.

    with_captum.py DIR [NAME ...]

For each network, DIR has NAME.onnx, which computes the score, and NAME.npz with the flagged rows.
The script runs this model in PyTorch and checks that the scores are the same. All methods get the
same reference rows, or their mean.

Run with Python 3.11, torch 1.13, captum 0.7.0, onnx 1.16.2, NumPy 1.26.4.
"""
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from captum.attr import FeatureAblation, IntegratedGradients
from onnx import helper, numpy_helper

torch.set_num_threads(1)
DTYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 11: torch.float64}


def axes_of(x, a, axes=None):
    axes = a.get("axes") if axes is None else axes.tolist()
    return tuple(range(x.dim())) if axes is None else tuple(axes)


def reduction(f):
    return lambda a, x, axes=None: f(x, axes_of(x, a, axes), bool(a.get("keepdims", 1)))


def pads(a, x):
    p = a.get("pads", [0, 0, 0, 0])
    assert a.get("auto_pad", b"NOTSET") == b"NOTSET", "auto_pad"
    return p[1], p[3], p[0], p[2]


def pad(a, x, widths=None, value=None, axes=None):
    widths = a["pads"] if widths is None else widths.tolist()
    assert a.get("mode", b"constant") == b"constant" and axes is None, "Pad"
    pairs = zip(widths[:x.dim()], widths[x.dim():])
    return F.pad(x, [w for pair in reversed(list(pairs)) for w in pair], value=a.get("value", 0.0) if value is None else float(value))


def pool(f, value):
    return lambda a, x: f(F.pad(x, pads(a, x), value=value), a["kernel_shape"], a.get("strides", 1))


def conv(a, x, w, b=None):
    return F.conv2d(F.pad(x, pads(a, x)), w, b, a.get("strides", 1), 0, a.get("dilations", 1), a.get("group", 1))


def gemm(a, x, w, b=0):
    x, w = x.T if a.get("transA") else x, w.T if a.get("transB") else w
    return a.get("alpha", 1) * x @ w + a.get("beta", 1) * b


def gather(a, x, i):
    axis = a.get("axis", 0) % x.dim()
    return x.index_select(axis, i.flatten()).reshape(*x.shape[:axis], *i.shape, *x.shape[axis + 1:])


def reshape(a, x, shape):
    return x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape.tolist())])


def slices(a, x, starts, ends, axes=None, steps=None):
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist())):
        axis, step = i if axes is None else axes.tolist()[i] % x.dim(), 1 if steps is None else steps.tolist()[i]
        at = range(x.shape[axis])[start:end:step]
        x = x.index_select(axis, torch.tensor(list(at), dtype=torch.int64))
    return x


def squeeze(a, x, axes=None):
    return x.reshape([d for i, d in enumerate(x.shape) if i not in [k % x.dim() for k in axes_of(x, a, axes)]])


def unsqueeze(a, x, axes=None):
    axes = axes_of(x, a, axes)
    for axis in sorted(k % (x.dim() + len(axes)) for k in axes):
        x = x.unsqueeze(axis)
    return x


def constant(a):
    return torch.from_numpy(numpy_helper.to_array(a["value"]).copy()) if "value" in a else torch.tensor(a.get("value_float", a.get("value_int", a.get("value_ints", a.get("value_floats")))))


def fold(f):
    return lambda a, *x: torch.stack(torch.broadcast_tensors(*x)).amax(0) if f == "max" else torch.stack(torch.broadcast_tensors(*x)).amin(0)


OPS = {
    "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y, "Div": lambda a, x, y: x / y,
    "Pow": lambda a, x, y: x ** y, "Neg": lambda a, x: -x, "Abs": lambda a, x: x.abs(), "Sqrt": lambda a, x: x.sqrt(), "Log": lambda a, x: x.log(), "Exp": lambda a, x: x.exp(),
    "Relu": lambda a, x: x.relu(), "Identity": lambda a, x: x, "Not": lambda a, x: ~x, "Less": lambda a, x, y: x < y, "Where": lambda a, c, x, y: torch.where(c, x, y),
    "Max": fold("max"), "Min": fold("min"), "MatMul": lambda a, x, y: x @ y, "Gemm": gemm, "Conv": conv, "Pad": pad, "Gather": gather, "Reshape": reshape, "Slice": slices,
    "Flatten": lambda a, x: x.flatten(a.get("axis", 1)), "Concat": lambda a, *x: torch.cat(x, a["axis"]), "Cast": lambda a, x: x.to(DTYPES[a["to"]]),
    "Transpose": lambda a, x: x.permute(*a["perm"]), "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Constant": constant, "Shape": lambda a, x: torch.tensor(x.shape),
    "MaxPool": pool(F.max_pool2d, -torch.inf), "AveragePool": pool(F.avg_pool2d, 0), "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "BatchNormalization": lambda a, x, w, b, m, v: F.batch_norm(x, m, v, w, b, eps=a.get("epsilon", 1e-5)),
    "Softmax": lambda a, x: x.softmax(a.get("axis", -1)), "LpNormalization": lambda a, x: F.normalize(x, a.get("p", 2), a.get("axis", -1)),
    "Scaler": lambda a, x: (x - torch.tensor(a["offset"])) * torch.tensor(a["scale"]), "TopK": lambda a, x, k: x.topk(int(k), a.get("axis", -1), bool(a.get("largest", 1))),
    "ReduceSum": reduction(lambda x, d, k: x.sum(d, k)), "ReduceMean": reduction(lambda x, d, k: x.mean(d, k)), "ReduceMax": reduction(lambda x, d, k: x.amax(d, k)),
    "ReduceMin": reduction(lambda x, d, k: x.amin(d, k)), "ReduceLogSumExp": reduction(lambda x, d, k: x.logsumexp(d, k)), "ReduceSumSquare": reduction(lambda x, d, k: (x * x).sum(d, k)),
}


class Score(torch.nn.Module):
    """Runs the nodes of an ONNX model that its score needs."""

    def __init__(self, path):
        super().__init__()
        graph = onnx.load(path).graph
        self.input = graph.input[0].name
        self.weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
        self.nodes, needed = [], {"attach.ood_score"}
        for n in reversed(graph.node):
            if needed & set(n.output):
                needed |= set(n.input)
                self.nodes.insert(0, (n.op_type, {a.name: helper.get_attribute_value(a) for a in n.attribute}, n.input, n.output))

    def forward(self, x):
        values = {**self.weights, self.input: x, "": None}
        for op, attributes, inputs, outputs in self.nodes:
            out = OPS[op](attributes, *[values[i] for i in inputs])
            values.update(zip(outputs, out if isinstance(out, tuple) else (out,)))
        return values["attach.ood_score"].flatten()


def within(values, faults, k):
    """Returns the probability that one of the k largest values has a fault, as ranks in attribution.go does."""
    best = values[faults].max()
    above, equal, with_fault = (values > best).sum(), (values == best).sum(), (values[faults] == best).sum()
    miss = 1.0
    for drawn in range(min(max(0, k - above), equal)):
        miss *= max(0, equal - with_fault - drawn) / (equal - drawn)
    return 1 - miss


def measure(path):
    z = np.load(path)
    score, x = Score(path.with_suffix(".onnx")), torch.from_numpy(z["rows"])
    drawn, patch = torch.from_numpy(z["reference"][z["drawn"]]), int(z["patch"][0])
    with torch.no_grad():
        score(x[:64])  # the first call takes longer
        start = time.perf_counter()
        scores = torch.cat([score(b) for b in x.split(64)]).numpy()
        one_prediction = time.perf_counter() - start
        difference = np.abs([*(scores - z["scores"]), score(drawn).mean().item() - z["baseline"][0]]).max() / np.abs(z["scores"]).max()
        assert difference < 1e-3, f"{path.stem}: the scores differ by {difference} of the largest score"
    mask, replaced = torch.arange(x[0].numel()).reshape(x[:1].shape), [drawn[i:i + 1] for i in range(len(drawn))]
    if patch:  # n×C×H×W
        height, width = x.shape[2:]
        rows, columns = torch.arange(height) // patch, torch.arange(width) // patch
        mask = (rows[:, None] * ((width + patch - 1) // patch) + columns[None]).expand(x[:1].shape)
        replaced = [torch.from_numpy(z["reference"]).mean(0, keepdim=True)]
    assert mask.max() + 1 == z["faults"].shape[1]

    def summed(values):  # over the numbers of an element
        total = torch.zeros(len(values), mask.max() + 1, dtype=torch.float64)
        return total.index_add(1, mask.flatten(), values.flatten(1).double()).numpy()

    def gradients(baselines, **options):
        ig = IntegratedGradients(score)
        return sum(np.concatenate([summed(ig.attribute(b, baselines=base, internal_batch_size=64, **options)) for b in x.split(8)]) for base in baselines) / len(baselines)

    def ablations():
        # The result repeats the drop for each number of an element.
        ablation, first = FeatureAblation(score), torch.tensor([mask.flatten().tolist().index(e) for e in range(mask.max() + 1)])
        with torch.no_grad():
            return sum(np.concatenate([ablation.attribute(b, baselines=base, feature_mask=mask).flatten(1)[:, first].double().numpy() for b in x.split(64)]) for base in replaced) / len(replaced)

    def same_points(steps=8):  # the gradients of PyTorch at the points that attach takes
        total = 0
        for k, base in enumerate(drawn):
            for step in range(steps):
                point = (base + (step + (k + 0.5) / len(drawn)) / steps * (x - base)).requires_grad_()
                slope = torch.cat([torch.autograd.grad(score(b).sum(), b)[0] for b in (b.detach().requires_grad_() for b in point.split(64))])
                total = total + summed(slope * (x - base))
        return total / (steps * len(drawn))

    each = [drawn[i:i + 1] for i in range(len(drawn))]
    mean = [torch.from_numpy(z["reference"]).mean(0, keepdim=True)]
    methods = {
        "attach gradient": lambda: z["gradient"], "captum IntegratedGradients, reference rows": lambda: gradients(each, n_steps=8),
        "captum IntegratedGradients, mean row": lambda: gradients(mean, n_steps=64),
        "attach replacement": lambda: z["replacement"], "captum FeatureAblation": ablations,
    }
    lists = {}
    for name, method in methods.items():
        start = time.perf_counter()
        values = lists[name] = method()
        cost = (time.perf_counter() - start) / one_prediction
        first, three = (np.mean([within(v, f, k) for v, f in zip(values, z["faults"])]) for k in (1, 3))
        print(f"{path.stem:48} {name:42} {len(x):4} rows: first {first:.3f}, first three {three:.3f}" + f", cost {cost:.0f}" * name.startswith("captum"), flush=True)
    for check, values in ("gradients of PyTorch at the same points", same_points()), ("captum FeatureAblation", lists["captum FeatureAblation"]):
        ours = z["replacement" if check.startswith("captum") else "gradient"]
        print(f"{path.stem:48} correlation of attach with {check}: {np.corrcoef(ours.flatten(), values.flatten())[0, 1]:.6f}", flush=True)
    for name in "attach gradient", "captum IntegratedGradients, reference rows":
        missing = np.abs(lists[name].sum(1) / (z["scores"] - z["baseline"]) - 1)
        print(f"{path.stem:48} {name}: the sum differs from that of the scores by {np.median(missing):.0%} (median)", flush=True)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for path in [folder / f"{name}.npz" for name in sys.argv[2:]] or sorted(folder.glob("*.npz")):
        measure(path)

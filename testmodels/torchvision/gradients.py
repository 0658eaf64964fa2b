"""Differentiate the torchvision networks that export.py wrote, in PyTorch.

    python gradients.py OUT [NAME ...]

For each architecture that export.py exported to OUT it writes
OUT/NAME.gradient.npz with the gradient of log-softmax of the predicted class,
summed over the rows, with respect to DRAWS random inputs x of two rows each, of
which the first is the exported one: in double precision (gradient), and the
relative error of PyTorch's own in single precision, ‖g32 − g64‖₂/‖g64‖₂
(pytorch_error). The network is made again from its seed, and must give the
exported logits. The statistics of its batch norms come from the file, because
they differ in the last bit between runs. Then

    python errors.py OUT

prints the error of package featurize beside it. If the input of a ReLU is
0 up to rounding, single precision decides by chance whether the unit is on. One
such unit can cause an error of 1e-3. Several inputs distinguish this from a
mistake, which would appear in all of them.

Written with Python 3.11, PyTorch 1.13.0, torchvision 0.14.1, NumPy 1.24.2, onnx 1.12.0.
"""

import os
import sys

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from export import NAMES, prepare

DRAWS = 3


def gradient(net, x):
    x = x.clone().requires_grad_()
    scores = torch.log_softmax(net(x), dim=1)
    scores.gather(1, scores.argmax(dim=1, keepdim=True)).sum().backward()
    return x.grad.detach()


def relative(a, b):
    return float((a - b).norm() / b.norm())


def take_statistics(net, path):
    exported = {t.name: t for t in onnx.load(path).graph.initializer}
    for name, value in net.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            value.copy_(torch.from_numpy(numpy_helper.to_array(exported[name]).copy()))


def differentiate(name, out):
    net, first = prepare(name)
    take_statistics(net, os.path.join(out, name + ".onnx"))
    exported = np.load(os.path.join(out, name + ".npz"))
    with torch.no_grad():
        logits = net(first)
    if not np.array_equal(exported["x"], first.numpy()) or relative(torch.from_numpy(exported["logits"]), logits) > 1e-4:
        raise RuntimeError("the exported network is another one: run export.py again")
    xs = [first] + [torch.randn_like(first) for _ in range(DRAWS - 1)]
    singles = [gradient(net, x) for x in xs]
    net.double()
    doubles = [gradient(net, x.double()) for x in xs]
    errors = [relative(s.double(), d) for s, d in zip(singles, doubles)]
    stack = lambda ts: torch.stack(ts).numpy()
    np.savez(os.path.join(out, name + ".gradient.npz"), x=stack(xs), gradient=stack(doubles), pytorch_error=np.array(errors))
    print(f"{name:20} ‖g‖ {doubles[0].norm():.3g}  PyTorch's float32 error " + " ".join(f"{e:.2g}" for e in errors), flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    failed = []
    for name in sys.argv[2:] or NAMES:
        try:
            differentiate(name, sys.argv[1])
        except Exception as e:  # go on with the other networks
            failed.append(name)
            print(f"{name:20} FAILED: {type(e).__name__}: {str(e).splitlines()[0]}", flush=True)
    if failed:
        sys.exit("no gradients of: " + ", ".join(failed))


if __name__ == "__main__":
    main()

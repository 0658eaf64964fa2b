"""Gradients of the digit classifiers in PyTorch: digits_gradients.npz.

    python gradients.py

For each of testmodels/digits_resnet.onnx and digits_vgg.onnx, rebuilt by
testmodels/train.py with the weights of the file: x (4×1×24×24, noise), and in
double precision the gradients with respect to x of log-softmax of the top class
(NAME_top), the same at temperature 1000 (NAME_warm), the sum of the logits
(NAME_sum) and the difference of the two largest (NAME_two).

Written with Python 3.11, PyTorch 1.13.0, onnx 1.12.0, NumPy 1.24.2.
"""

import os
import sys

import numpy as np
import onnx
import torch
from onnx import numpy_helper

here = os.path.dirname(os.path.abspath(__file__))
models = os.path.join(here, "..", "..", "testmodels")
sys.dont_write_bytecode = True
sys.path.insert(0, models)

from train import build  # noqa: E402

SCALARS = {
    "top": lambda z: torch.log_softmax(z, 1).max(1).values,
    "warm": lambda z: torch.log_softmax(z / 1000, 1).max(1).values,
    "sum": lambda z: z.sum(1),
    "two": lambda z: (lambda t: t[:, 0] - t[:, 1])(z.topk(2, 1).values),
}

x = np.random.default_rng(1).standard_normal((4, 1, 24, 24)).astype(np.float32)
arrays = {"x": x}
for name in ["resnet", "vgg"]:
    graph = onnx.load(os.path.join(models, f"digits_{name}.onnx")).graph
    weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    classes = graph.output[0].type.tensor_type.shape.dim[1].dim_value
    net = build(name, 1, classes, 1)
    missing, _ = net.load_state_dict({k: v for k, v in weights.items() if k in net.state_dict()}, strict=False)
    assert all(m.endswith("num_batches_tracked") for m in missing), missing
    net.eval().double()
    for scalar, f in SCALARS.items():
        inputs = torch.from_numpy(x).double().requires_grad_()
        f(net(inputs)).sum().backward()
        arrays[f"{name}_{scalar}"] = inputs.grad.numpy()
np.savez(os.path.join(here, "digits_gradients.npz"), **arrays)

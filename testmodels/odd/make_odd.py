#!/usr/bin/env python3
"""Make the tiny networks of this folder, with random weights: one for each form of
ONNX file that a reader must handle.

    python3 make_odd.py --out .        needs numpy, pillow, onnx, onnxruntime (to quantise)

NAME.onnx has NAME.npz beside it: inputs `x` (7 rows; those of several by their names), `features` (n×h, the input
of the last linear layer; absent where there is none) and the model's outputs under
their names, all computed in NumPy in float64 and stored as float32.
expected.json lists what a reader should find in each file.

Written with numpy 2.4.6, onnx 1.23.2, onnxruntime 1.31.1.
"""

import argparse
import json
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from render import save_npz

N = 7
DTYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.float16: TensorProto.FLOAT16}


class Net:
    """Collects nodes and weights of one model. Weights come from one seed per model."""

    def __init__(self, name, dtype=np.float32):
        self.name, self.dtype = name, dtype
        self.rng = np.random.default_rng(list(name.encode()))
        self.nodes, self.weights, self.inputs, self.outputs = [], {}, [], []

    def rows(self, *shape):
        return self.rng.normal(0, 1, (N, *shape)).astype(self.dtype)

    def weight(self, name, *shape, scale=None):
        """Stores a weight and returns it in float64 as the model sees it."""
        scale = scale or np.prod(shape[1:]) ** -0.5
        self.weights[name] = self.rng.normal(0, scale, shape).astype(self.dtype)
        return self.weights[name].astype(np.float64)

    def const(self, name, value):
        self.weights[name] = np.asarray(value)

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs.split(), [output], name=f"{op}_{len(self.nodes)}", **attributes))

    def dense(self, data, output, width, h, node=None):
        """Gemm(transB=1); returns h·Wᵀ+b."""
        w = self.weight(f"{output}.weight", width, h.shape[1])
        b = self.weight(f"{output}.bias", width, scale=0.5)
        self.node("Gemm", f"{data} {output}.weight {output}.bias", output, transB=1)
        return h @ w.T + b

    def input(self, name, *shape):
        self.inputs.append(helper.make_tensor_value_info(name, DTYPES[self.dtype], shape))

    def output(self, name, *shape):
        self.outputs.append(helper.make_tensor_value_info(name, DTYPES[self.dtype], shape))

    def model(self, opset=13, ir=7):
        weights = [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in self.weights.items()]
        inputs = list(self.inputs)
        if ir < 4:
            inputs += [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in weights]
        graph = helper.make_graph(self.nodes, self.name, inputs, self.outputs, weights)
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir, producer_name="testmodels/odd")
        onnx.checker.check_model(m)
        return m


def relu(x):
    return np.maximum(x, 0)


def convolve(x, w, b, pad):
    """Cross-correlation with stride 1: x n×c×H×W, w o×c×k×k."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None]


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def mlp(net, out, width, batch="N", columns=6, hidden=(12,)):
    """columns → hidden (ReLU) → width; returns x, φ and the last layer's result."""
    net.input("x", batch, columns)
    x = net.rows(columns)
    h, data = x.astype(np.float64), "x"
    for i, wide in enumerate(hidden):
        h = relu(net.dense(data, f"hidden{i}", wide, h))
        data = f"relu{i}"
        net.node("Relu", f"hidden{i}", data)
    z = net.dense(data, out, width, h)
    return x, h, z


def fixed_batch(size):
    net = Net(f"fixed_batch{size}")
    net.input("image", size, 1, 8, 8)
    x = net.rows(1, 8, 8)
    w, b = net.weight("conv.weight", 6, 1, 3, 3), net.weight("conv.bias", 6)
    net.node("Conv", "image conv.weight conv.bias", "conv", pads=[1, 1, 1, 1])
    net.node("Relu", "conv", "relu")
    net.node("GlobalAveragePool", "relu", "pool")
    net.const("shape", np.array([size, 6]))
    net.node("Reshape", "pool shape", "phi")
    phi = relu(convolve(x, w, b, 1)).mean((2, 3))
    logits = net.dense("phi", "logits", 5, phi)
    net.output("logits", size, 5)
    return net.model(), dict(x=x, features=phi, logits=logits), dict(feature="phi", op="Gemm")


def float16():
    net = Net("float16", np.float16)
    x, phi, logits = mlp(net, "logits", 4)
    net.output("logits", "N", 4)
    return net.model(), dict(x=x, features=phi, logits=logits), dict(feature="relu0", op="Gemm", rtol=5e-3)


def double_regressor():
    net = Net("double_regressor", np.float64)
    x, phi, y = mlp(net, "y", 1, hidden=(12, 8))
    net.output("y", "N", 1)
    return net.model(), dict(x=x, features=phi, y=y), dict(feature="relu1", op="Gemm", task="regression")


def trailing_softmax():
    net = Net("trailing_softmax")
    x, phi, logits = mlp(net, "logits", 4)
    net.node("Softmax", "logits", "probabilities", axis=-1)
    net.output("probabilities", "N", 4)
    return net.model(), dict(x=x, features=phi, logits=logits, probabilities=softmax(logits)), dict(feature="relu0", op="Gemm")


def log_softmax():
    net = Net("log_softmax")
    x, phi, logits = mlp(net, "logits", 4)
    net.node("LogSoftmax", "logits", "log_probabilities", axis=1)
    net.output("log_probabilities", "N", 4)
    return net.model(), dict(x=x, features=phi, logits=logits, log_probabilities=np.log(softmax(logits))), dict(feature="relu0", op="Gemm")


def two_outputs():
    net = Net("two_outputs")
    x, phi, logits = mlp(net, "logits", 4)
    angle = relu(net.dense("relu0", "neck", 5, phi))
    net.node("Relu", "neck", "neck_relu")
    size = net.dense("neck_relu", "size", 2, angle)
    net.output("logits", "N", 4)
    net.output("size", "N", 2)
    return (
        net.model(),
        dict(x=x, features=phi, logits=logits, size=size, features_size=angle),
        dict(feature="relu0", op="Gemm", outputs={"logits": "relu0", "size": "neck_relu"}),
    )


def nhwc():
    """As TensorFlow exports: Transpose, Conv, mean over space, MatMul, Add."""
    net = Net("nhwc")
    net.input("image", "N", 8, 8, 3)
    x = net.rows(8, 8, 3)
    net.node("Transpose", "image", "nchw", perm=[0, 3, 1, 2])
    w, b = net.weight("conv.weight", 6, 3, 3, 3), net.weight("conv.bias", 6)
    net.node("Conv", "nchw conv.weight conv.bias", "conv", pads=[1, 1, 1, 1])
    net.node("Relu", "conv", "relu")
    net.node("ReduceMean", "relu", "mean", axes=[2, 3], keepdims=0)
    phi = relu(convolve(x.transpose(0, 3, 1, 2).astype(np.float64), w, b, 1)).mean((2, 3))
    w, b = net.weight("kernel", 6, 4), net.weight("bias", 4)
    net.node("MatMul", "mean kernel", "product")
    net.node("Add", "product bias", "logits")
    net.output("logits", "N", 4)
    return net.model(), dict(x=x, features=phi, logits=phi @ w + b), dict(feature="mean", op="MatMul")


def three_targets():
    net = Net("three_targets")
    x, phi, y = mlp(net, "y", 3)
    net.output("y", "N", 3)
    return net.model(), dict(x=x, features=phi, y=y), dict(feature="relu0", op="Gemm", task="regression")


def external():
    net = Net("external")
    x, phi, logits = mlp(net, "logits", 4, hidden=(32, 16))
    net.output("logits", "N", 4)
    return net.model(), dict(x=x, features=phi, logits=logits), dict(feature="relu1", op="Gemm")


def ir3_opset7():
    net = Net("ir3_opset7")
    x, phi, logits = mlp(net, "logits", 4)
    net.output("logits", "N", 4)
    return net.model(opset=7, ir=3), dict(x=x, features=phi, logits=logits), dict(feature="relu0", op="Gemm")


def opset9():
    """Conv, BatchNormalization, Flatten and a Gemm whose weight is not transposed."""
    net = Net("opset9")
    net.input("image", "N", 2, 6, 6)
    x = net.rows(2, 6, 6)
    w = net.weight("conv.weight", 4, 2, 3, 3)
    net.node("Conv", "image conv.weight", "conv")
    gain, shift = net.weight("gain", 4, scale=1), net.weight("shift", 4, scale=1)
    mean = net.weight("mean", 4, scale=0.3)
    net.const("variance", np.linspace(0.5, 1.5, 4).astype(np.float32))
    variance = net.weights["variance"].astype(np.float64)
    net.node("BatchNormalization", "conv gain shift mean variance", "norm", epsilon=1e-5)
    net.node("Relu", "norm", "relu")
    net.node("MaxPool", "relu", "pool", kernel_shape=[2, 2], strides=[2, 2])
    net.node("Flatten", "pool", "flat", axis=1)
    c = lambda v: v[:, None, None]
    h = relu((convolve(x.astype(np.float64), w, np.zeros(4), 0) - c(mean)) / np.sqrt(c(variance) + 1e-5) * c(gain) + c(shift))
    phi = h.reshape(N, 4, 2, 2, 2, 2).max((3, 5)).reshape(N, 16)
    w, b = net.weight("weight", 16, 5), net.weight("bias", 5)
    net.node("Gemm", "flat weight bias", "logits")
    net.output("logits", "N", 5)
    return net.model(opset=9, ir=4), dict(x=x, features=phi, logits=phi @ w + b), dict(feature="flat", op="Gemm")


def scaled_gemm():
    """Gemm with alpha and beta, its weight behind Identity and its bias in a Constant."""
    net = Net("scaled_gemm")
    net.input("x", "N", 6)
    x = net.rows(6)
    phi = relu(net.dense("x", "hidden", 10, x.astype(np.float64)))
    net.node("Relu", "hidden", "relu")
    w = net.weight("stored", 3, 10)
    net.node("Identity", "stored", "weight")
    b = net.rng.normal(0, 1, 3).astype(np.float32)
    net.nodes.append(helper.make_node("Constant", [], ["bias"], value=numpy_helper.from_array(b, "bias")))
    net.node("Gemm", "relu weight bias", "logits", transB=1, alpha=0.5, beta=2.0)
    net.output("logits", "N", 3)
    logits = 0.5 * phi @ w.T + 2 * b.astype(np.float64)
    return net.model(), dict(x=x, features=phi, logits=logits), dict(feature="relu", op="Gemm")


def conv1x1():
    """Last layer a 1×1 convolution, then the mean over space: φ is the mean of
    the convolution's input, and logits = Wφ+b holds."""
    net = Net("conv1x1")
    net.input("image", "N", 3, 6, 6)
    x = net.rows(3, 6, 6)
    w, b = net.weight("conv.weight", 8, 3, 3, 3), net.weight("conv.bias", 8)
    net.node("Conv", "image conv.weight conv.bias", "conv")
    net.node("Relu", "conv", "relu")
    h = relu(convolve(x.astype(np.float64), w, b, 0))
    w, b = net.weight("head.weight", 4, 8, 1, 1), net.weight("head.bias", 4)
    net.node("Conv", "relu head.weight head.bias", "map")
    net.node("GlobalAveragePool", "map", "pool")
    net.node("Flatten", "pool", "logits")
    net.output("logits", "N", 4)
    logits = convolve(h, w, b, 0).mean((2, 3))
    return net.model(), dict(x=x, features=h.mean((2, 3)), logits=logits), dict(feature="relu", op="Conv")


def conv1x1_relu():
    """As SqueezeNet ends: 1×1 convolution, ReLU, mean over space. φ is the mean
    of the convolution's input; logits = Wφ+b does not hold."""
    net = Net("conv1x1_relu")
    net.input("image", "N", 3, 6, 6)
    x = net.rows(3, 6, 6)
    w, b = net.weight("conv.weight", 8, 3, 3, 3), net.weight("conv.bias", 8)
    net.node("Conv", "image conv.weight conv.bias", "conv")
    net.node("Relu", "conv", "relu")
    h = relu(convolve(x.astype(np.float64), w, b, 0))
    w, b = net.weight("head.weight", 4, 8, 1, 1), net.weight("head.bias", 4)
    net.node("Conv", "relu head.weight head.bias", "map")
    net.node("Relu", "map", "map_relu")
    net.node("GlobalAveragePool", "map_relu", "pool")
    net.node("Flatten", "pool", "logits")
    net.output("logits", "N", 4)
    logits = relu(convolve(h, w, b, 0)).mean((2, 3))
    return net.model(), dict(x=x, features=h.mean((2, 3)), logits=logits), dict(feature="relu", op="Conv", exact=False)


def no_linear():
    """3×3 convolutions and elementwise nodes: no layer to take φ from."""
    net = Net("no_linear")
    net.input("image", "N", 1, 6, 6)
    x = net.rows(1, 6, 6)
    w, b = net.weight("conv1.weight", 4, 1, 3, 3), net.weight("conv1.bias", 4)
    net.node("Conv", "image conv1.weight conv1.bias", "conv1")
    net.node("Relu", "conv1", "relu")
    h = relu(convolve(x.astype(np.float64), w, b, 0))
    w, b = net.weight("conv2.weight", 3, 4, 3, 3), net.weight("conv2.bias", 3)
    net.node("Conv", "relu conv2.weight conv2.bias", "conv2")
    net.node("Tanh", "conv2", "tanh")
    net.node("GlobalMaxPool", "tanh", "pool")
    net.node("Flatten", "pool", "scores")
    net.output("scores", "N", 3)
    scores = np.tanh(convolve(h, w, b, 0)).max((2, 3))
    return net.model(), dict(x=x, scores=scores), dict(task="unknown", exact=False)


def int8():
    """Dynamically quantised by onnxruntime: the scale of an activation depends on
    the rows that are run together, so the reference holds for all 7 in one batch."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    net = Net("int8")
    x, _, _ = mlp(net, "logits", 5, hidden=(16,))
    net.output("logits", "N", 5)
    with tempfile.TemporaryDirectory() as folder:
        before, after = os.path.join(folder, "a.onnx"), os.path.join(folder, "b.onnx")
        onnx.save(net.model(), before)
        quantize_dynamic(before, after, weight_type=QuantType.QInt8)
        model = onnx.load(after)
    stored = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}

    def product(h, layer):
        low, high = min(h.min(), 0), max(h.max(), 0)
        scale = np.float32(high - low) / np.float32(255)
        zero = np.rint(-np.float32(low) / scale)
        h = (np.clip(np.rint(h.astype(np.float32) / scale) + zero, 0, 255) - zero) * np.float64(scale)
        w = stored[f"{layer}.weight_quantized"].astype(np.float64) - stored[f"{layer}.weight_zero_point"]
        return h @ (w * stored[f"{layer}.weight_scale"]) + stored[f"{layer}.bias"]

    phi = relu(product(x, "hidden0"))
    logits = product(phi, "logits")
    feature = [n for n in model.graph.node if n.op_type == "DynamicQuantizeLinear"][-1].input[0]
    return model, dict(x=x, features=phi, logits=logits), dict(feature=feature, op="MatMulInteger", exact=False, rtol=1e-4)


def two_inputs():
    """An image and columns. A third input, 0 by default, is added to them."""
    net = Net("two_inputs")
    net.input("image", "N", 1, 6, 6)
    net.input("columns", "N", 3)
    net.input("shift", "N", 3)
    net.const("shift", np.zeros((1, 3), np.float32))
    image, columns = net.rows(1, 6, 6), net.rows(3)
    w, b = net.weight("conv.weight", 4, 1, 3, 3), net.weight("conv.bias", 4)
    net.node("Conv", "image conv.weight conv.bias", "conv")
    net.node("Relu", "conv", "relu")
    net.node("GlobalAveragePool", "relu", "pool")
    net.node("Flatten", "pool", "seen")
    net.node("Add", "columns shift", "shifted")
    net.node("Concat", "seen shifted", "both", axis=1)
    seen = relu(convolve(image.astype(np.float64), w, b, 0)).mean((2, 3))
    phi = relu(net.dense("both", "hidden", 8, np.concatenate([seen, columns.astype(np.float64)], 1)))
    net.node("Relu", "hidden", "phi")
    logits = net.dense("phi", "logits", 4, phi)
    net.output("logits", "N", 4)
    return net.model(), dict(image=image, columns=columns, features=phi, logits=logits), dict(feature="phi", op="Gemm")


def tokens():
    """Ids of tokens and their mask: the mean of embeddings, and a hidden layer."""
    net = Net("tokens")
    for name in ["input_ids", "attention_mask"]:
        net.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]))
    lengths = [3, 5, 1, 4, 5, 2, 3]
    mask = (np.arange(5) < np.array(lengths)[:, None]).astype(np.int64)
    ids = net.rng.integers(1, 9, (N, 5)) * mask
    table = net.weight("embedding", 9, 6)
    net.node("Gather", "embedding input_ids", "embedded")
    net.node("Cast", "attention_mask", "mask", to=TensorProto.FLOAT)
    net.const("last", np.array([2]))
    net.const("middle", np.array([1]))
    net.node("Unsqueeze", "mask last", "wide")
    net.node("Mul", "embedded wide", "kept")
    net.node("ReduceSum", "kept middle", "sum", keepdims=0)
    net.node("ReduceSum", "mask middle", "count", keepdims=1)
    net.node("Div", "sum count", "mean")
    mean = (table[ids] * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    phi = relu(net.dense("mean", "hidden", 8, mean))
    net.node("Relu", "hidden", "phi")
    logits = net.dense("phi", "logits", 4, phi)
    net.output("logits", "N", 4)
    arrays = dict(input_ids=ids, attention_mask=mask, features=phi, logits=logits)
    return net.model(), arrays, dict(feature="phi", op="Gemm")


MODELS = [
    (lambda: fixed_batch(1), "batch of 1 in the input's shape and in a Reshape"),
    (lambda: fixed_batch(4), "batch of 4"),
    (float16, "float16 input, weights and output"),
    (double_regressor, "float64 input, weights and output; one target"),
    (trailing_softmax, "output is Softmax of the logits"),
    (log_softmax, "output is LogSoftmax of the logits"),
    (two_outputs, "two outputs, each with its own last layer"),
    (nhwc, "NHWC input, MatMul and Add"),
    (three_targets, "regressor of three targets"),
    (external, "weights in external.bin"),
    (ir3_opset7, "IR 3, opset 7, initializers listed as inputs"),
    (opset9, "opset 9, IR 4, batch normalisation, weight h×c"),
    (scaled_gemm, "alpha and beta, weight through Identity, bias a Constant"),
    (conv1x1, "last layer a 1×1 convolution, averaged over space"),
    (conv1x1_relu, "the same with ReLU before the mean"),
    (no_linear, "no linear layer"),
    (int8, "dynamic int8: MatMulInteger"),
    (two_inputs, "an image beside columns, and an input with a default"),
    (tokens, "ids and their mask, of a length that varies"),
]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--out", default=".", help="folder to write to")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    table = []
    for make, doc in MODELS:
        model, arrays, facts = make()
        name = model.graph.name
        if name == "external":
            path = os.path.join(a.out, "external.bin")
            if os.path.exists(path):
                os.remove(path)
            onnx.save(model, os.path.join(a.out, "external.onnx"), save_as_external_data=True, location="external.bin", size_threshold=64)
        else:
            onnx.save(model, os.path.join(a.out, name + ".onnx"))
        save_npz(
            os.path.join(a.out, name + ".npz"),
            **{k: v.astype(np.float32) if v.dtype == np.float64 and k != "x" else v for k, v in arrays.items()},
        )
        outputs = [o.name for o in model.graph.output]
        facts.setdefault("outputs", {outputs[0]: facts.get("feature", "")})
        table.append({
            "name": name,
            "doc": doc,
            "task": facts.get("task", "classification"),
            "feature": facts.get("feature", ""),
            "width": arrays["features"].shape[1] if "features" in arrays else 0,
            "op": facts.get("op", ""),
            "exact": facts.get("exact", True),
            "rtol": facts.get("rtol", 1e-5),
            "outputs": facts["outputs"],
        })
    with open(os.path.join(a.out, "expected.json"), "w") as f:
        json.dump(table, f, indent=1, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()

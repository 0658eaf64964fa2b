"""Writes layers.json: earlier layers of a few rows of testmodels, averaged over
positions by NumPy, from ONNX Runtime's own values of those tensors.

    python layers.py

Made with Python 3.11.2, NumPy 2.4.6, onnx 1.23.2, onnxruntime 1.31.1.
"""
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper

MODELS = Path(__file__).parent.parent.parent / "testmodels"
ROWS = 3
TENSORS = {
    "digits_resnet": ["/blocks/blocks.0/Relu_1_output_0", "/blocks/blocks.1/Relu_output_0", "/blocks/blocks.2/Relu_output_0"],
    "digits_vgg": ["/convolutions/convolutions.4/MaxPool_output_0", "/convolutions/convolutions.6/Relu_output_0",
                   "/convolutions/convolutions.9/MaxPool_output_0"],
    "toy_regressor": ["/1/Relu_output_0"],
}

out = {}
for name, tensors in TENSORS.items():
    model = onnx.load(MODELS / f"{name}.onnx")
    for t in tensors:
        model.graph.output.append(helper.make_empty_tensor_value_info(t))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = session.get_inputs()[0]
    shape = [ROWS] + [int(d) for d in given.shape[1:]]
    x = np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)
    layers = []
    for v in session.run(tensors, {given.name: x}):
        layers.append(v.astype(np.float64).reshape(*v.shape[:2], -1).mean(2).tolist())
    out[name] = {"shape": shape, "tensors": tensors, "layers": layers}

Path(__file__).with_name("layers.json").write_text(json.dumps(out))

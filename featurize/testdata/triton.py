"""Reads the configurations of triton_test.go with Triton's own schema.

Needs `pip install 'tritonclient[grpc]'` (tried with 2.73):  python3 triton.py
"""
import glob
import os

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

os.chdir(os.path.dirname(os.path.abspath(__file__)))
for path in sorted(glob.glob("triton-*.pbtxt")):
    with open(path) as f:
        config = text_format.Parse(f.read(), ModelConfig())
    print(path, "max_batch_size", config.max_batch_size)
    for tensor in list(config.input) + list(config.output):
        reshape = list(tensor.reshape.shape) if tensor.HasField("reshape") else ""
        print(" ", tensor.name, DataType.Name(tensor.data_type), list(tensor.dims), reshape, "optional" if getattr(tensor, "optional", False) else "")

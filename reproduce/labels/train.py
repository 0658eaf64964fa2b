"""Trains the LightGBM regressor of `reproduce targets` on half of UCI's power plant set.

python3 train.py DATA MODELS

DATA holds uci/power-plant.txt. The first half of its rows trains, and the file
MODELS/power_lightgbm.onnx is written. Run with LightGBM 4.7.0 and onnxmltools 1.16.0.
"""
import sys
from pathlib import Path

import lightgbm
import numpy as np
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType

rows = np.loadtxt(Path(sys.argv[1]) / "uci" / "power-plant.txt").astype(np.float32)
half = len(rows) // 2
x, y = rows[:, :-1], rows[:, -1]
model = lightgbm.LGBMRegressor(verbose=-1, random_state=0, n_jobs=1).fit(x[:half], y[:half])
print(f"R² of the other half: {model.score(x[half:], y[half:]):.3f}")
graph = convert_lightgbm(model, initial_types=[("x", FloatTensorType([None, x.shape[1]]))], zipmap=False)
(Path(sys.argv[2]) / "power_lightgbm.onnx").write_bytes(graph.SerializeToString())

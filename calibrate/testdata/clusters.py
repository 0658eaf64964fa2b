"""Reference values for clusters of classes and their thresholds, by TorchCP.

Run with Python 3, PyTorch and TorchCP:
    python3 clusters.py > clusters.json
Made with Python 3.11.2, PyTorch 1.13.0, TorchCP 1.2.1.
"""
import json

import numpy as np
import torch
from torchcp.classification.predictor import ClusteredPredictor
from torchcp.classification.score import LAC

torch.set_default_dtype(torch.float64)
torch.manual_seed(3)
rng = np.random.default_rng(3)
CLASSES, N, ALPHA = 24, 1500, 0.1
y = rng.choice(CLASSES, N, p=np.r_[np.full(22, 0.045), 0.005, 0.005])
p = rng.beta(*np.array([[20, 2], [8, 8], [2, 9]])[y % 3].T)
z = np.log((1 - p) / (CLASSES - 1))[:, None].repeat(CLASSES, 1)
z[np.arange(N), y] = np.log(p)
predictor = ClusteredPredictor(LAC(), ratio_clustering=0.5, num_clusters=3)
predictor.calculate_threshold(torch.tensor(z.tolist()), torch.tensor(y.tolist()), ALPHA)
of, limits = predictor.cluster_assignments.tolist(), predictor.q_hat.tolist()
print(json.dumps({"scores": (1 - p).tolist(), "labels": y.tolist(), "served": predictor.idx1.tolist(), "of": of, "limits": [None if np.isinf(v) else v for v in limits]}))

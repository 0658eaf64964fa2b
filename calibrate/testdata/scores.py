"""Reference values for CQR-r and CQR-m.

Run with Python 3, PyTorch and TorchCP:
    python3 scores.py > scores.json
Made with Python 3.11.7, PyTorch 1.13.0, TorchCP 1.2.1.

TorchCP adds 1e-6 to divisors, so results agree only up to about 1e-6. This script
computes the intervals of CQR-r from the scores and the threshold of TorchCP, because
generate_intervals of TorchCP 1.2.1 uses the width of intervals that are still 0.
"""
import json

import torch
from torchcp.regression.score import CQRM, CQRR
from torchcp.utils.common import calculate_conformal_value

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
n, m, alpha = 59, 8, .2
x = torch.rand(n + m)
quantiles = torch.stack([x - .3, x + .1 * x, x + .5 + x], -1).float().double()
y = (x + (.1 + x) * (torch.empty(n + m).exponential_() - .5)).float().double()
out = {"alpha": alpha, "quantiles": quantiles.tolist(), "y": y[:n].tolist()}
for name, score, q in ("cqr-r", CQRR(), quantiles[:, [0, 2]]), ("cqr-m", CQRM(), quantiles):
    scores = score(q[:n], y[:n])
    threshold = calculate_conformal_value(scores, alpha)
    if name == "cqr-m":
        ends = score.generate_intervals(q[n:], threshold)[:, 0]
    else:
        width = q[n:, 1] - q[n:, 0] + 1e-6
        ends = torch.stack([q[n:, 0] - threshold * width, q[n:, 1] + threshold * width], -1)
    out[name] = ends.reshape(-1, 2).tolist()
print(json.dumps(out))

"""Measures the peak memory of detectors that keep their training rows.

    python memory.py ATTACH DIR [ROWS [COLUMNS [METHODS]]]

Writes ROWS×COLUMNS random float32 rows (1 000 000×512) to an .npy file in DIR,
runs the command ATTACH on it as

    attach compare --fit fit.npy --in in.npy --out out.npy --methods METHODS

(knn), prints the largest resident set of that process, and deletes the files.
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

attach, where = sys.argv[1:3]
n, h = (int(v) for v in (sys.argv[3:5] + ["1000000", "512"][len(sys.argv[3:5]):]))
methods = sys.argv[5] if len(sys.argv) > 5 else "knn"
rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory(dir=where) as folder:
    for name, rows, shift in ("fit", n, 0), ("in", 200, 0), ("out", 200, 0.1):
        out = np.lib.format.open_memmap(f"{folder}/{name}.npy", mode="w+", dtype=np.float32, shape=(rows, h))
        for i in range(0, rows, 10000):
            out[i : i + 10000] = rng.standard_normal(out[i : i + 10000].shape, np.float32) + np.float32(shift)
        del out
    size = os.path.getsize(f"{folder}/fit.npy")
    start = time.time()
    args = [f"--{name}={folder}/{name}.npy" for name in ("fit", "in", "out")]
    subprocess.run([attach, "compare", *args, "--methods", methods, "--bootstrap", "0"], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(f"{methods}: {n}x{h} rows, a file of {size / 1e9:.2f} GB: peak {peak / 1e9:.2f} GB in {time.time() - start:.0f} s")

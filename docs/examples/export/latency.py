"""Measures how much slower exported models are than the model itself.

    python latency.py BATCH THREADS RUNS MODEL.onnx NAME=SHAPE OUT.onnx...

THREADS 0 uses the runtime's default. The runs alternate in random order. Each file gets four
sessions, because sessions of the same file differ by about 1 %.
"""
import sys, time, numpy as np, onnxruntime as ort
n, threads, runs = map(int, sys.argv[1:4])
name, shape = sys.argv[5].split("="); shape = [int(v) for v in shape.split("x")]
files, sessions = [sys.argv[4], *sys.argv[6:]], []
for _ in range(4):
    for f in files:
        o = ort.SessionOptions(); o.log_severity_level = 3; o.intra_op_num_threads = threads
        sessions.append((f, ort.InferenceSession(f, o, providers=["CPUExecutionProvider"])))
rng = np.random.default_rng(0)
x = {name: rng.standard_normal([n] + shape).astype(np.float32)}
took = {f: [] for f in files}
for i in range(runs // 4 + 2):
    for k in rng.permutation(len(sessions)):
        t = time.perf_counter(); sessions[k][1].run(None, x); t = time.perf_counter() - t
        if i > 1: took[sessions[k][0]].append(1e3 * t)
bare = np.quantile(took[files[0]], [.25, .5, .75])
for f in files:
    q = np.quantile(took[f], [.25, .5, .75])
    print(f"{f}: {len(took[f])} runs of {n} rows, median {q[1]:.3f} ms, quartiles {q[0]:.3f} and {q[2]:.3f}; of the bare model's {q[1]/bare[1]:.4f}, {q[0]/bare[0]:.4f} and {q[2]/bare[2]:.4f}")

"""Latency of an exported model over the model alone: python latency.py MODEL.onnx OUT.onnx NAME=SHAPE [threads]. Alternating runs, medians."""
import sys, time, numpy as np, onnxruntime as ort
base, out, spec = sys.argv[1:4]
threads = int(sys.argv[4]) if len(sys.argv) > 4 else 1
name, shape = spec.split("="); shape = [int(v) for v in shape.split("x")]
def session(f):
    o = ort.SessionOptions(); o.log_severity_level = 3; o.intra_op_num_threads = threads
    return ort.InferenceSession(f, o, providers=["CPUExecutionProvider"])
a, b = session(base), session(out)
for n in (1, 32):
    x = np.random.default_rng(0).standard_normal([n] + shape).astype(np.float32)
    ta, tb, ratios = [], [], []
    for i in range(400 if n == 1 else 40):
        pair = {}
        for which in ((a, b) if i % 2 else (b, a)):
            t = time.perf_counter(); which.run(None, {name: x}); pair[which] = time.perf_counter() - t
        ta.append(pair[a]); tb.append(pair[b]); ratios.append(pair[b] / pair[a])
    print(f"batch {n}: {1e3*np.median(ta):.3f} ms bare, {1e3*np.median(tb):.3f} ms exported, ratio of medians {np.median(tb)/np.median(ta):.4f}, median of ratios {np.median(ratios):.4f}, least {1e3*min(ta):.3f} and {1e3*min(tb):.3f}")

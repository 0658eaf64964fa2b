"""Runs exported models in four runtimes, and prints how far the runtimes agree.

    npm install --ignore-scripts onnxruntime-node onnxruntime-web playwright-core
    pip install numpy onnx onnxruntime
    python agree.py --attach ./attach --chromium /usr/bin/chromium DIR

For each model, DIR holds NAME.attach, the exported NAME.onnx, and NAME.npz with the
prepared inputs by their names. If the model takes images or texts, DIR also holds
NAME.raw.npz or NAME.raw.csv with the same rows before preparation.

Go is represented by `attach verify`, which compares the exported model with the .attach
file in attach's own ONNX Runtime. Node and the browser are compared with Python. P-values
are left out of the numbers, because they are equal except for ties. The outputs of the
model itself are compared, too, because every other output depends on them.
"""
import argparse, json, pathlib, subprocess, tempfile
import numpy as np, onnx, onnxruntime as ort

def main():
    p = argparse.ArgumentParser()
    p.add_argument("--attach", required=True)
    p.add_argument("--chromium", required=True)
    p.add_argument("--node", default="node")
    p.add_argument("dir", type=pathlib.Path)
    o = p.parse_args()
    here, dir = pathlib.Path(__file__).resolve().parent, o.dir.resolve()
    tmp = pathlib.Path(tempfile.mkdtemp())
    jobs, verified, python = [], {}, {}
    for bundle in sorted(dir.glob("*.attach")):
        name, model = bundle.stem, bundle.with_suffix(".onnx")
        if not model.exists() or not bundle.with_suffix(".npz").exists():
            continue
        onnx.checker.check_model(str(model), full_check=True)
        session = ort.InferenceSession(str(model), sess_options=quiet(), providers=["CPUExecutionProvider"])
        arrays = dict(np.load(bundle.with_suffix(".npz"), allow_pickle=False))
        feeds = {}
        for i in session.get_inputs():
            a = arrays[i.name] if i.name in arrays else arrays["x"] if "x" in arrays and len(session.get_inputs()) == 1 else arrays[i.name]
            n = i.shape[0]
            a = a[:n] if isinstance(n, int) else a[:64]
            feeds[i.name] = a.astype(object) if a.dtype.kind == "U" else np.ascontiguousarray(a.astype(TYPES[i.type]))
        outputs = [v.name for v in session.get_outputs() if v.type in TYPES and v.type not in ("tensor(string)", "tensor(float16)")]
        python[name] = dict(zip(outputs, session.run(outputs, feeds)))
        inputs = []
        for key, a in feeds.items():
            file = tmp / f"{name}.{key.replace('/', '_')}"
            if a.dtype == object:
                file.write_text(json.dumps(a.ravel().tolist()))
            else:
                file.write_bytes(a.tobytes())
            inputs.append({"name": key, "type": "string" if a.dtype == object else str(a.dtype), "dims": list(a.shape), "file": str(file)})
        jobs.append({"name": name, "model": str(model), "inputs": inputs, "outputs": outputs})
        np.savez(tmp / f"{name}.npz", **{("x" if len(feeds) == 1 else k): v.astype("U") if v.dtype == object else v for k, v in feeds.items()})
        raw = next(dir.glob(f"{name}.raw.*"), tmp / f"{name}.npz")
        got = subprocess.run([o.attach, "verify", str(model), str(bundle), "--x", str(raw), "--rows", f":{len(next(iter(feeds.values())))}"], capture_output=True, text=True)
        verified[name] = got
    (tmp / "jobs.json").write_text(json.dumps(jobs))
    others = {}
    for label, script, more in (("Node", "node.mjs", []), ("browser", "browser.mjs", [o.chromium])):
        subprocess.run([o.node, str(here / script), str(tmp / "jobs.json"), str(tmp / f"{label}.json"), *more], check=True)
        others[label] = json.loads((tmp / f"{label}.json").read_text())
    print("| network | rows | Go and Python's runtime: largest difference | flags | Python and Node | the model's own | flags | Python and browser | the model's own | flags |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for job in jobs:
        name = job["name"]
        lines = [l.split() for l in verified[name].stdout.splitlines()]
        numbers = [float(l[5].rstrip(",")) for l in lines if l[0] in NUMBERS]
        differ = [int(l[6]) for l in lines if l[0] in FLAGS]
        go = f"{max(numbers):.1e} | {sum(differ)}" if numbers else verified[name].stderr.strip() + " |"
        cells = []
        for label in others:
            got = others[label][name]
            if "error" in got:
                cells.append(got["error"][:120] + " | |")
                continue
            off, own, flags = 0.0, 0.0, 0
            for key in job["outputs"]:
                want = np.asarray(python[name][key], np.float64).ravel()
                have = np.array([float(v) for v in got[key]])
                if key in FLAGS:
                    flags += int((want != have).sum())
                elif key in NUMBERS or not key.startswith("attach."):
                    same = (want == have) | (np.isnan(want) & np.isnan(have))
                    with np.errstate(invalid="ignore"):
                        d = np.where(same, 0, np.abs(want - have) / np.maximum(np.abs(want), 1))
                    if key in NUMBERS:
                        off = max(off, float(d.max()))
                    else:
                        own = max(own, float(d.max()))
            cells.append(f"{off:.1e} | {own:.1e} | {flags}")
        rows = job["inputs"][0]["dims"][0]
        print(f"| {name} | {rows} | {go} | {' | '.join(cells)} |", flush=True)

FLAGS = {"attach.is_ood", "attach.prediction_set"}
NUMBERS = {"attach.ood_score", "attach.lower", "attach.upper", "attach.quantiles", "attach.probabilities"}
TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(float16)": "float16", "tensor(bool)": "bool", "tensor(string)": "U", "tensor(uint8)": "uint8", "tensor(int8)": "int8"}

def quiet():
    o = ort.SessionOptions()
    o.log_severity_level = 3
    return o

main()

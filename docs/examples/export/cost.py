"""Measures how much longer exported models take than the models that they were made from.

    pip install numpy onnxruntime
    python cost.py --attach ./attach --models MODELS --data DATA DIR

MODELS and DATA are the folders that ATTACH_DATA describes. The program fits six models with the
defaults of `attach fit`, unless DIR holds their .attach files, and exports each one with all
outputs and with one output. The model and its exports run in turns in one thread. A second
session of the export with all outputs is asked only for the model's own outputs.
The program prints the median time of the model, and the median ratio of the runs of one turn.
"""
import argparse, csv, pathlib, subprocess, time
import numpy as np, onnxruntime as ort

KINDS = ["all outputs", "attach.lower,attach.upper", "attach.prediction_set", "attach.p_value", "attach.is_ood"]
OWN = "asked for the model's own"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--attach", required=True)
    p.add_argument("--models", type=pathlib.Path, required=True)
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--turns", type=int, default=300, help="fewer if a model is slow")
    p.add_argument("--seconds", type=float, default=60, help="time for one line of the table, unless it has fewer than ten turns")
    p.add_argument("--only", help="names of models, with commas")
    p.add_argument("dir", type=pathlib.Path)
    o = p.parse_args()
    o.dir.mkdir(exist_ok=True)
    columns = [KINDS[0], OWN, *KINDS[1:]]
    print("| model | rows | model alone | " + " | ".join(k.replace("attach.", "") for k in columns) + " |")
    print("|---" * (3 + len(columns)) + "|", flush=True)
    for name, prepare in CASES.items():
        if o.only and name not in o.only.split(","):
            continue
        model, feeds, flags = prepare(o)
        bundle = o.dir / f"{name}.attach"
        if not bundle.exists():
            run(o.attach, "fit", model, *flags, "-o", bundle)
        files = {}
        for kind in KINDS:
            out = o.dir / f"{name}.{KINDS.index(kind)}.onnx"
            only = [] if kind == KINDS[0] else ["--only", kind]
            if run(o.attach, "export", bundle, "--model", model, *only, "-o", out, may_fail=bool(only)):
                files[kind] = out
        for n in (1, 32):
            alone, ratios = measure(model, files, {k: v[:n] for k, v in feeds.items()}, o)
            cells = [f"{ratios[k]:.3g}" if k in ratios else "" for k in columns]
            print(f"| {name} | {n} | {float(f'{alone:.3g}'):,g} ms | " + " | ".join(cells) + " |", flush=True)


def run(*command, may_fail=False):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode and not may_fail:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.returncode == 0


def measure(model, files, feeds, o):
    sessions = {k: session(f) for k, f in {"": model, **files, OWN: files[KINDS[0]]}.items()}
    own = [v.name for v in sessions[""].get_outputs()]
    took = {k: [] for k in sessions}
    rng = np.random.default_rng(0)
    end = time.monotonic() + o.seconds
    for turn in range(o.turns + 3):
        if turn > 12 and time.monotonic() > end:
            break
        for k in rng.permutation(list(sessions)):
            start = time.perf_counter()
            sessions[k].run(own if k == OWN else None, feeds)
            if turn > 2:
                took[k].append(time.perf_counter() - start)
    bare = np.array(took.pop(""))
    return 1e3 * np.median(bare), {k: np.median(np.array(t) / bare) for k, t in took.items()}


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def california(o):
    with open(o.data / "california.csv") as f:
        header, *lines = csv.reader(f)
    order = np.random.default_rng(0).permutation(len(lines))
    for name, rows in (("fit", order[:12000]), ("cal", order[12000:14000])):
        with open(o.dir / f"california_{name}.csv", "w", newline="") as f:
            csv.writer(f).writerows([header, *(lines[i] for i in rows)])
    x = np.array([lines[i][:8] for i in order[14000:14032]], np.float32)
    return o.models / "california_mlp.onnx", {"input": x}, ["--x", o.dir / "california_fit.csv", "--cal", o.dir / "california_cal.csv", "--target", header[8]]


def batteries(o):
    """The tutorial's rows and model: docs/tutorials/tables.md."""
    def rows(n, seed):
        rng = np.random.default_rng(seed)
        temperature, age, load = rng.normal(20, 8, n), rng.gamma(2, 300, n), rng.uniform(0, 1, n)
        voltage = 12.6 - 0.001 * age - 0.4 * load + rng.normal(0, 0.05, n)
        hours = 30 - 0.2 * np.abs(temperature - 22) - 0.008 * age + 2 * np.sin(6 * load) - 9 * load**2 + rng.normal(0, 0.3 + 2 * load)
        return np.stack([temperature, age, load, voltage, hours], 1).astype(np.float32)
    for name, n, seed in (("fit", 2000, 12), ("cal", 1000, 13)):
        np.savetxt(o.dir / f"battery_{name}.csv", rows(n, seed), "%.9g", ",", header="temperature,age,load,voltage,hours", comments="")
    model = pathlib.Path(__file__).resolve().parents[3] / "testmodels/tables/lightgbm_regressor.onnx"
    return model, {"x": rows(32, 23)[:, :4]}, ["--x", o.dir / "battery_fit.csv", "--cal", o.dir / "battery_cal.csv", "--target", "hours"]


def cifar(o, name, preprocess, classes):
    for part, n in (("train", 2000), ("test", 1000)):
        with np.load(o.data / f"cifar10_{part}.npz") as z:
            kept = np.flatnonzero(np.isin(z["labels"], classes))[:n]
            labels = np.array([classes.index(v) for v in z["labels"][kept]])
            np.savez(o.dir / f"{name}_{part}.npz", images=z["images"][kept], labels=labels)
    x = np.random.default_rng(0).standard_normal((32, 3, 32, 32)).astype(np.float32)
    return o.models / f"{name}.onnx", {"input": x}, ["--x", o.dir / f"{name}_train.npz", "--cal", o.dir / f"{name}_test.npz", "--preprocess", o.models / preprocess]


def mobilenet(o):
    x = np.random.default_rng(0).standard_normal((32, 3, 224, 224)).astype(np.float32)
    name = session(o.models / "imagenet_mobilenetv2_int8.onnx").get_inputs()[0].name
    return o.models / "imagenet_mobilenetv2_int8.onnx", {name: x}, ["--x", o.data / "imagenet_sample", "--preprocess", o.models / "imagenet_mobilenetv2.preprocess.json"]


def bert(o):
    tokens = np.random.default_rng(0).integers(100, 4000, (32, 16))
    feeds = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
    return o.models / "clinc_bert/model.onnx", feeds, ["--x", o.data / "clinc150/val.csv", "--cal", o.data / "clinc150/test.csv"]


CASES = {
    "california_mlp": california,
    "lightgbm_regressor": batteries,
    "cifar10_resnet20": lambda o: cifar(o, "cifar10_resnet20", "cifar10_resnet.preprocess.json", list(range(10))),
    "cifar10_preact18": lambda o: cifar(o, "cifar10_preact18", "five_class_rgb.preprocess.json", [4, 1, 7, 5, 3]),
    "imagenet_mobilenetv2_int8": mobilenet,
    "clinc_bert": bert,
}
main()

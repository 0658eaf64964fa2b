"""Inputs a second of attach audit beside Python: photographs with Pillow, arrays with ONNX Runtime alone, and how memory grows.

    pip install numpy==2.4.6 onnx==1.23.2 onnxruntime==1.30.0 pillow==13.0.0
    python speed.py ATTACH MODEL.onnx IMAGES.npz PHOTOS [TIMES]

ATTACH is the command. MODEL.onnx takes images n×3×32×32, IMAGES.npz has 10 000 as uint8 in images, and PHOTOS is a folder
of .jpg files, which are read TIMES times (default 15) so that starting up weighs little. Each runs in a process of its own from its
start to its end, in turn, three times, and the medians are printed; seconds of processors vary less where others use the
machine too. Python decodes, resizes, normalises and runs 64 photographs at a time in as many processes as there are
cores, and keeps the logits; of arrays it runs 64 at a time in as many threads. attach audit adds detector, p-values,
bounds, tables and the report with its pictures. The runtime is of the version that attach installs.
"""

import glob
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PREPROCESSING = {
    "do_resize": True, "size": {"height": 32, "width": 32}, "resample": 2, "do_rescale": True,
    "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": MEAN, "image_std": STD,
}
session = None


def start(model, threads):
    import onnxruntime

    global session
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def logits(paths):
    import numpy as np
    from PIL import Image

    x = np.empty((len(paths), 3, 32, 32), np.float32)
    for i, path in enumerate(paths):
        with Image.open(path) as image:
            a = np.asarray(image.convert("RGB").resize((32, 32), Image.BILINEAR), np.float32)
        x[i] = ((a / 255 - np.array(MEAN, np.float32)) / np.array(STD, np.float32)).transpose(2, 0, 1)
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def photographs(model, path):
    cores = os.cpu_count()
    files = sorted(glob.glob(path + "/**/*.jpg", recursive=True))
    with multiprocessing.Pool(cores, start, (model, 1)) as pool:
        out = pool.map(logits, [files[i : i + 64] for i in range(0, len(files), 64)], 1)
        pool.close()
        pool.join()
    print(sum(len(block) for block in out))


def arrays(model, path):
    import numpy as np

    x = np.load(path)["x"]
    start(model, os.cpu_count())
    out = [session.run(None, {session.get_inputs()[0].name: x[i : i + 64]})[0] for i in range(0, len(x), 64)]
    print(np.concatenate(out).shape)


def measure(command):
    """Seconds, seconds of processors, and MB of memory at most, of one process and those that it starts."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command} failed")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def table(n, commands, out):
    got = {name: [] for name in commands}
    for _ in range(3):
        for name, command in commands.items():
            shutil.rmtree(out, ignore_errors=True)
            got[name].append(measure(command))
    for name, runs in got.items():
        seconds, busy, memory = (statistics.median(r[i] for r in runs) for i in range(3))
        print(f"{name:32} {n / seconds:9.0f} inputs/s  {1000 * busy / n:7.3f} ms of processors an input  {memory:5.0f} MB")


def normalised(images, path):
    import numpy as np

    x = np.load(images)["images"].astype(np.float32) / 255
    np.savez(path, x=((x - np.array(MEAN, np.float32)) / np.array(STD, np.float32)).transpose(0, 3, 1, 2))


def rows(path, n):
    import numpy as np

    r = np.random.default_rng(int(n))
    x = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(int(n), 64))
    for i in range(0, int(n), 10_000):
        x[i : i + 10_000] = r.normal(size=(10_000, 64))


def small(path):
    """A network of 64 inputs and three layers."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    r = np.random.default_rng(0)
    nodes, stored, x = [], [], "x"
    for i, shape in enumerate([(64, 128), (128, 64), (64, 10)]):
        w = (r.normal(size=shape) * np.sqrt(2 / shape[0])).astype(np.float32)
        stored += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(np.zeros(shape[1], np.float32), f"b{i}")]
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], [f"g{i}"]))
        if i < 2:
            nodes.append(helper.make_node("Relu", [f"g{i}"], [f"r{i}"]))
        x = f"r{i}" if i < 2 else f"g{i}"
    of = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])
    model = helper.make_model(helper.make_graph(nodes, "small", [of("x", 64)], [of("g2", 10)], stored), opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)


def main():
    attach, model, images, photos = sys.argv[1:5]
    times = int(sys.argv[5]) if len(sys.argv) > 5 else 15

    def quietly(*command):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    # This process stays small: those that it starts count its memory as theirs.
    def ours(*command):
        quietly(sys.executable, __file__, "run", *command)

    def fit(model, x, to, *options):
        quietly(attach, "fit", model, "--x", x, "--rows", ":5000", "--cal", x, "--cal-rows", "5000:", "-o", to, *options)

    with tempfile.TemporaryDirectory() as work:
        out = work + "/audit"

        files = sorted(glob.glob(photos + "/**/*.jpg", recursive=True))
        for i in range(times):
            os.makedirs(f"{work}/photos/{i}")
            for k, path in enumerate(files):
                shutil.copy(path, f"{work}/photos/{i}/{k}.jpg")
        with open(work + "/preprocess.json", "w") as f:
            json.dump(PREPROCESSING, f)
        fit(model, images, work + "/p.attach", "--preprocess", work + "/preprocess.json")
        table(times * len(files), {
            "photographs, Python and Pillow": [sys.executable, __file__, "run", "photographs", model, work + "/photos"],
            "photographs, attach audit": [attach, "audit", work + "/p.attach", "--x", work + "/photos", "-o", out],
        }, out)

        ours("normalised", images, work + "/x.npz")
        fit(model, work + "/x.npz", work + "/a.attach")
        table(10_000, {
            "arrays, ONNX Runtime alone": [sys.executable, __file__, "run", "arrays", model, work + "/x.npz"],
            "arrays, attach audit": [attach, "audit", work + "/a.attach", "--x", work + "/x.npz", "-o", out],
        }, out)

        ours("small", work + "/small.onnx")
        ours("rows", work + "/fit.npy", "10000")
        fit(work + "/small.onnx", work + "/fit.npy", work + "/s.attach")
        for n in 10_000, 1_000_000, 5_000_000:
            ours("rows", work + "/rows.npy", str(n))
            table(n, {f"rows of 64, {n}": [attach, "audit", work + "/s.attach", "--x", work + "/rows.npy", "-o", out]}, out)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        globals()[sys.argv[2]](*sys.argv[3:])
    else:
        main()

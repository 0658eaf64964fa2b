"""Sentences a second from a CSV file to what a network makes of them: attach beside Python's tokenizers and ONNX Runtime.

    pip install numpy==2.4.6 onnxruntime==1.31.1 tokenizers==0.23.3
    python speed.py ATTACH FOLDER TRAIN.csv CAL.csv [TIMES]

ATTACH is the command, FOLDER what an exporter wrote, TRAIN.csv has the columns text and intent and is written out TIMES
times (default 4) so that starting up weighs little. Each is timed in a process of its own from its start to its end, in turn,
three times; the best counts. Python tokenizes and runs 64 sentences at a time, in the order of the file and sorted by
length before, and keeps the logits. attach predict adds detector, p-values and sets and writes them as CSV.
"""

import csv
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time


def run(folder, path, order):
    import numpy as np
    import onnxruntime
    import tokenizers

    folder = pathlib.Path(folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(json.loads((folder / "tokenizer_config.json").read_text())["model_max_length"])
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    with open(path, newline="") as f:
        texts = [row["text"] for row in csv.DictReader(f)]
    if order == "sorted":
        texts.sort(key=len)
    logits = []
    for i in range(0, len(texts), 64):
        batch = tokenizer.encode_batch(texts[i : i + 64])
        feed = {
            "input_ids": np.array([e.ids for e in batch], np.int64),
            "attention_mask": np.array([e.attention_mask for e in batch], np.int64),
            "token_type_ids": np.array([e.type_ids for e in batch], np.int64),
        }
        logits.append(session.run(["logits"], {n: feed[n] for n in names})[0])
    print(np.concatenate(logits).shape)


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    attach, folder, train, cal = sys.argv[1:5]
    times = int(sys.argv[5]) if len(sys.argv) > 5 else 4
    with tempfile.TemporaryDirectory() as work:
        rows = list(csv.reader(open(train, newline="")))
        whole = work + "/whole.csv"
        with open(whole, "w", newline="") as f:
            csv.writer(f).writerows(rows[:1] + rows[1:] * times)
        n = times * (len(rows) - 1)
        subprocess.run([attach, "fit", folder, "--x", cal, "--target", "intent", "-o", work + "/m.attach"], check=True, stderr=subprocess.DEVNULL)
        commands = {
            "Python, in order": [sys.executable, __file__, "run", folder, whole, "in order"],
            "Python, sorted by length": [sys.executable, __file__, "run", folder, whole, "sorted"],
            "attach features": [attach, "features", folder, "--x", whole, "--target", "intent", "--layers", "0", "-o", work + "/f.npz"],
            "attach predict": [attach, "predict", work + "/m.attach", "--x", whole, "-o", work + "/p.csv"],
        }
        best = {}
        for _ in range(3):
            for name, command in commands.items():
                start, busy = time.perf_counter(), cpu()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                best[name] = min(best.get(name, (1e9,)), (time.perf_counter() - start, cpu() - busy))
        for name, (seconds, busy) in best.items():
            print(f"{name:26} {n / seconds:8.0f} sentences/s  ({seconds:.2f} s for {n}, {busy:.2f} s of processors)")


if __name__ == "__main__":
    run(*sys.argv[2:5]) if sys.argv[1] == "run" else main()

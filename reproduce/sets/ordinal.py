"""Sets of ordered classes: ordinal ones of attach beside lac and aps.

    python3 ordinal.py ATTACH DIR SPLITS [ocp.py]

ATTACH is the command, and DIR holds uci/wine-quality-red.txt and abalone.csv. Half of the
rows fit a gradient boosting of scikit-learn, a quarter calibrates and a quarter is
measured on. With ocp.py, Temperature/ocp.py of https://github.com/xrty/OCP without what it
imports for its tables, the sets are also held against its ordinal_aps_prediction. Needs
NumPy and scikit-learn: made with 2.4.6 and 1.9.1.
"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

LEVEL = 0.9
command, folder, splits = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
theirs = None
if len(sys.argv) > 4:
    spec = importlib.util.spec_from_file_location("ocp", sys.argv[4])
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)


def read():
    wine = np.loadtxt(folder / "uci" / "wine-quality-red.txt")
    yield "wine: grade", wine[:, :-1], wine[:, -1].astype(int) - 3
    rows = [line.split(",") for line in (folder / "abalone.csv").read_text().split()[1:]]
    x = np.array([["MFI".index(r[0])] + [float(v) for v in r[1:-1]] for r in rows])
    yield "abalone: rings, 4 or fewer to 16 or more", x, np.array([int(r[-1]) for r in rows]).clip(4, 16) - 4


def attach(z, y, cal, test, *flags):
    with tempfile.TemporaryDirectory() as at:
        for name, rows in ("cal", cal), ("test", test):
            np.savez(f"{at}/{name}.npz", features=z[rows], logits=z[rows], labels=y[rows])
        run = lambda *args: subprocess.run([command, *args], check=True, capture_output=True, cwd=at)
        run("fit", "--x", "test.npz", "--cal", "cal.npz", "--task", "classification", "--method", "entropy", "-o", "m.attach")
        run("predict", "m.attach", "--x", "test.npz", "--level", str(LEVEL), "-o", "out.npz", *flags)
        out = np.load(f"{at}/out.npz")
        sets = np.zeros((len(test), z.shape[1]), bool)
        sets[np.repeat(np.arange(len(test)), out["set_size"]), out["set"]] = True
        return sets


def exact(p, y, cal, test):
    """Their sets by the least threshold for which enough calibration rows are covered."""
    enough, of = np.ceil((len(cal) + 1) * LEVEL), np.arange(len(cal))
    covers = lambda q: theirs.ordinal_aps_prediction(p[cal].copy(), q)[of, y[cal]].sum() >= enough
    low, high = 0.0, 1 - 1e-9
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if covers(middle) else (middle, high)
    return theirs.ordinal_aps_prediction(p[test].copy(), high)


for name, x, y in read():
    found, differ, accuracy = {}, 0, []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        half, rest = len(y) // 2, len(y) // 4
        fit, cal, test = order[:half], order[half : half + rest], order[half + rest :]
        m = HistGradientBoostingClassifier(max_iter=50, random_state=seed).fit(x[fit], y[fit])
        z = np.full((len(y), y.max() + 1), -20, np.float32)
        z[:, m.classes_] = np.log(m.predict_proba(x).clip(1e-9))
        accuracy.append((z[test].argmax(1) == y[test]).mean())
        for kind, flags in ("lac", ()), ("aps", ()), ("ordinal", ()), ("ordinal", ("--smoothed",)):
            sets = attach(z, y, cal, test, "--sets", kind, *flags)
            first, last = sets.argmax(1), sets.shape[1] - sets[:, ::-1].argmax(1)
            gaps = (sets.any(1) & (last - first != sets.sum(1))).mean()
            found.setdefault(" ".join((kind, *flags)), []).append((sets[np.arange(len(test)), y[test]].mean(), sets.sum(1).mean(), gaps, (last - first)[sets.any(1)].mean()))
            if theirs and kind == "ordinal" and not flags:
                p = np.exp(z.astype(float))
                p /= p.sum(1, keepdims=True)
                differ += int((sets != exact(p, y, cal, test)).any(1).sum())
    print(f"{name}: {y.max() + 1} classes, accuracy {np.mean(accuracy):.3f}, {len(cal)} rows to calibrate on, {len(test)} to test, {splits} splits")
    for kind, all in found.items():
        print("  {:20} covers {:.3f} with {:.2f} classes, {:.3f} of sets have a gap; from first to last {:.2f}".format(kind, *np.mean(all, axis=0)))
    if theirs:
        print(f"  theirs differ in {differ} of {splits * len(test)} sets")

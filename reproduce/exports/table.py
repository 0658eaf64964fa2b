"""Runs inspect, fit, predict and compare on every export that write.py wrote, and prints a table.

    table.py ZOO ATTACH [BEFORE] [--only NAME,NAME] [--errors FILE]

ATTACH is the command, BEFORE one to compare with. Beyond rows, their target and the columns
of texts no flag is given. A command counts where it ends well and, for predict, where the
model's own framework answers the same of 98 rows in 100, predictions to a thousandth of
their spread: trees whose thresholds are rounded to float32 send some rows elsewhere, and
scikit-learn's SVM may name another class than the one whose probability it says is largest. FILE gets what each failure said.
"""
import argparse
import csv
import glob
import json
import os
import subprocess
import tempfile

import numpy as np


def run(command, *args):
    env = {k: v for k, v in os.environ.items()}
    try:
        p = subprocess.run([command, *args], capture_output=True, text=True, timeout=300, env=env)
    except subprocess.TimeoutExpired:
        return 1, "", "more than 300 s"
    return p.returncode, p.stdout, p.stderr


def agree(path, answers):
    """Says how the answers of predict differ from the framework's, "" where they do not."""
    with open(path) as f:
        rows = list(csv.DictReader(f))
    if not rows:
        return "no rows"
    if any(r["p_value"] in ("", "NaN", "nan") for r in rows if "p_value" in r):
        return "a p-value that is no number"
    if not len(answers):
        return ""
    if len(rows) != len(answers):
        return "%d rows of %d" % (len(rows), len(answers))
    if isinstance(answers[0], str):
        same = np.mean([r.get("class_name") == a for r, a in zip(rows, answers)])
    elif "prediction" in rows[0]:
        got = np.array([float(r["prediction"]) for r in rows])
        same = np.mean(np.abs(got - answers) <= 1e-3 * np.std(answers))
    elif "class" in rows[0]:
        same = np.mean([int(r["class"]) == a for r, a in zip(rows, answers)])
    else:
        return "neither class nor prediction"
    return "" if same >= .98 else "%.1f %% of the answers are the framework's" % (100 * same)


def features(described):
    """What serves as features, of what inspect --json says."""
    d = json.loads(described)
    f = d.get("feature") or {}
    if f.get("of"):
        names = f["of"] if len(f["of"]) < 4 else [f["of"][0], "…", f["of"][-1]]
        what = ", ".join("`%s`" % n for n in names)
    elif d["task"] == "embedding":
        what = "`%s` over the mask" % f["tensor"]
    else:
        what = "what its last layer reads"
    return "%s, %d" % (what, f["width"]) if f.get("width") else ""


def measure(command, e, folder, errors, tmp):
    """Gives what each command came to, by its name, and what serves as features."""
    got, at = {"features": ""}, lambda p: os.path.join(folder, p)
    model, saved, out = at(e["model"]), os.path.join(tmp, "m.attach"), os.path.join(tmp, "p.csv")
    if os.path.isdir(model) and run(command, "inspect", model)[0]:
        model, = glob.glob(os.path.join(glob.escape(model), "*.onnx"))  # a command that takes no folder
    target = e["flags"]
    steps = [("inspect", ["inspect", model, "--json"]),
             ("fit", ["fit", model, "--x", at(e["fit"]), *target, "-o", saved]),
             ("predict", ["predict", saved, "--x", at(e["test"]), "-o", out]),
             ("compare", ["compare", model, "--x", at(e["fit"]), "--test", at(e["test"]), "--ood", at(e["out"]),
                          *[f for f in target if f != "--folder-labels"], "--json", "--bootstrap", "0"])]
    for name, args in steps:
        if name == "predict" and not got["fit"]:
            got[name] = False
            continue
        code, stdout, stderr = run(command, *args)
        wrong = "" if code == 0 else "exit %d: %s" % (code, (stderr.strip() or "nothing").splitlines()[-1])
        if not wrong and name == "predict":
            wrong = agree(out, e["answers"])
        got[name] = not wrong
        if wrong and errors:
            errors.write("%s %s: %s\n    %s\n" % (os.path.basename(folder), name, wrong, " ".join([command, *args])))
            errors.flush()
        if name == "inspect" and not wrong:
            got["features"] = features(stdout)
    return got


def main():
    p = argparse.ArgumentParser()
    p.add_argument("zoo")
    p.add_argument("commands", nargs="+")
    p.add_argument("--only", default="", help="names of folders, with commas between them")
    p.add_argument("--errors", help="where to write what failures said")
    a = p.parse_args()
    errors = a.errors and open(a.errors, "w")
    head = ["exporter", "model", "features, how many"] + ["works", "before"][:len(a.commands)]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    steps = ["inspect", "fit", "predict", "compare"]
    done = []
    for path in sorted(glob.glob(os.path.join(glob.escape(a.zoo), "*", "entry.json"))):
        folder = os.path.dirname(path)
        if a.only and os.path.basename(folder) not in a.only.split(","):
            continue
        with open(path) as f:
            e = json.load(f)
        every = []
        for command in a.commands:
            with tempfile.TemporaryDirectory() as tmp:
                every.append(measure(command, e, folder, errors if not every else None, tmp))
        done.append([[got[s] for s in steps] for got in every])
        cells = [", ".join(s for s in steps if got[s]) if not all(got[s] for s in steps) else "all four" for got in every]
        print("| " + " | ".join([e["exporter"], e["what"], every[0]["features"]] + [c or "none" for c in cells]) + " |", flush=True)
    for command, n in zip(a.commands, np.sum(done, 0)):
        print("%s: inspect %d, fit %d, predict %d, compare %d of %d" % (command, *n, len(done)))


if __name__ == "__main__":
    main()

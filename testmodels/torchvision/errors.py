"""Prints how far input gradients are from PyTorch's in double precision.

    python errors.py OUT

OUT is where export.py wrote the networks and gradients.py their gradients. For
every network it prints the relative error ‖g − g64‖₂/‖g64‖₂ on each input: of
package featurize in single and in double precision, and of PyTorch in single
precision. The bound is max(1e-3, twice PyTorch's error) for every input; a star
marks those beyond it. Needs Go and the runtime library (ORT_LIB), and is run
from this folder.

Written with Python 3.11, PyTorch 1.13.0, torchvision 0.14.1.
"""

import os
import re
import subprocess
import sys

TESTS = {"float32": "TestTorchvisionGradients", "float64": "TestTorchvisionGradientsDouble"}


def measure(test, folder):
    """Runs a test and returns the errors on each input by network, ours and PyTorch's."""
    run = subprocess.run(
        ["go", "test", "../../featurize", "-count=1", "-v", "-run", f"^{test}$"],
        env={**os.environ, "ATTACH_TORCHVISION": os.path.abspath(folder)},
        capture_output=True,
        text=True,
    )
    number = r"\d\.\d+e[-+]\d+"
    lines = re.findall(rf": (\w+)((?: +{number})+) +\n", run.stdout)
    errors = {}
    for name, text in lines:
        values = [float(v) for v in text.split()]
        errors[name] = values[: len(values) // 2], values[len(values) // 2 :]
    if not errors:
        sys.exit(f"{test} measured nothing:\n{run.stdout}{run.stderr}")
    return errors


def main(folder):
    table = {precision: measure(test, folder) for precision, test in TESTS.items()}
    beyond = dict.fromkeys(TESTS, 0)
    total = 0
    print(f"{'network':20} {'attach, float32':32} {'attach, float64':32} PyTorch, float32")
    for name, (_, theirs) in table["float32"].items():
        line = f"{name:20} "
        for precision in TESTS:
            for ours, own in zip(table[precision][name][0], theirs):
                far = ours > max(1e-3, 2 * own)
                beyond[precision] += far
                line += f"{ours:8.1e}{'*' if far else ' '} "
            line += "  "
        total += len(theirs)
        print(line + "  ".join(f"{e:8.1e}" for e in theirs))
    print("within max(1e-3, 2 × PyTorch's): " + ", ".join(f"{p} {total - n} of {total}" for p, n in beyond.items()))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

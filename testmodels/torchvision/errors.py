"""Print how far input gradients differ from PyTorch's in double precision.

    python errors.py OUT

OUT is where export.py wrote the networks and gradients.py their gradients. For
every network it prints the relative error ‖g − g64‖₂/‖g64‖₂ on each input: of
package featurize and of PyTorch, both in single precision. The bound is
max(1e-3, twice PyTorch's error) for every input; a star marks the inputs that exceed it.
Needs Go and the runtime library (ORT_LIB), and is run from this folder.

Written with Python 3.11, PyTorch 1.13.0, torchvision 0.14.1.
"""

import os
import re
import subprocess
import sys


def main(folder):
    run = subprocess.run(
        ["go", "test", "../../featurize", "-count=1", "-v", "-run", "^TestTorchvisionGradients$"],
        env={**os.environ, "ATTACH_TORCHVISION": os.path.abspath(folder)},
        capture_output=True,
        text=True,
    )
    lines = re.findall(r": (\w+)((?: +\d\.\d+e[-+]\d+)+) +\n", run.stdout)
    if not lines:
        sys.exit(f"nothing was measured:\n{run.stdout}{run.stderr}")
    total = beyond = 0
    print(f"{'network':20} {'attach':30} PyTorch")
    for name, text in lines:
        values = [float(v) for v in text.split()]
        line = ""
        for ours, own in zip(values[: len(values) // 2], values[len(values) // 2 :]):
            far = ours > max(1e-3, 2 * own)
            total, beyond = total + 1, beyond + far
            line += f"{ours:8.1e}{'*' if far else ' '} "
        print(f"{name:20} {line:30} " + "  ".join(f"{e:8.1e}" for e in values[len(values) // 2 :]))
    print(f"within max(1e-3, 2 × PyTorch's): {total - beyond} of {total}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

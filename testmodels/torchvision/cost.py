"""Measure the time and memory of an input gradient, in comparison with PyTorch.

    python cost.py OUT

OUT is where export.py wrote the networks. For resnet18 and vgg16_bn at batch 8
it prints the best time of a forward pass and of one with the gradient of
log-softmax of the top class with respect to the input, and their ratio: of
package featurize with 2 threads, and of PyTorch with 1 and 2. For resnet50 it
prints the peak resident set. Each measurement is a process of its own, and the
processes alternate. Needs Go and the runtime library (ORT_LIB), and is run from
this folder.

Written with Python 3.11, PyTorch 1.13.0, torchvision 0.14.1.
"""

import os
import subprocess
import sys
import tempfile
import time

ROUNDS = 3
BATCH = 8


def worker(name, what, threads, repeats):
    """Times PyTorch and prints the best time in milliseconds."""
    import torch

    from export import prepare
    from gradients import gradient

    torch.set_num_threads(threads)
    net, _ = prepare(name)
    for p in net.parameters():
        p.requires_grad_(False)  # only the gradient of the input
    x = torch.randn(BATCH, 3, 224, 224)

    def forward():
        with torch.no_grad():
            net(x)

    step = forward if what == "forward" else lambda: gradient(net, x)
    step()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    print(1000 * best)


def run(command, env=None):
    """Runs a process and returns its output and peak resident set in MiB."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, env={**os.environ, **(env or {})})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            sys.exit(f"failed: {' '.join(command)}")
        out.seek(0)
        return out.read(), usage.ru_maxrss / 1024


def pytorch(name, what, threads, repeats=5):
    text, rss = run([sys.executable, __file__, "--worker", name, what, str(threads), str(repeats)])
    return float(text.split()[-1]), rss


def ours(binary, folder, name, what, repeats=5):
    text, rss = run(
        [binary, "-test.run=^$", f"-test.bench=^BenchmarkGradients$/^{name}$/^{what}$", f"-test.benchtime={repeats}x"],
        {"ATTACH_TORCHVISION": os.path.abspath(folder)},
    )
    words = text.split()
    return float(words[words.index("best-ms") - 1]), rss


def main(folder):
    with tempfile.TemporaryDirectory() as tmp:
        binary = os.path.join(tmp, "featurize.test")
        subprocess.check_call(["go", "test", "-c", "-o", binary, "../../featurize"])
        sides = {
            "attach, 2 threads": lambda *a: ours(binary, folder, *a),
            "PyTorch, 1 thread": lambda n, w: pytorch(n, w, 1),
            "PyTorch, 2 threads": lambda n, w: pytorch(n, w, 2),
        }
        print(f"{'network':10} {'':20} {'forward':>10} {'with gradient':>14} {'ratio':>6}")
        for name in ["resnet18", "vgg16_bn"]:
            best = {}
            for _ in range(ROUNDS):
                for side, measure in sides.items():
                    for what in ["forward", "gradient"]:
                        best[side, what] = min(best.get((side, what), float("inf")), measure(name, what)[0])
            for side in sides:
                f, g = best[side, "forward"], best[side, "gradient"]
                print(f"{name:10} {side:20} {f:7.0f} ms {g:11.0f} ms {g / f:6.2f}", flush=True)
        print(f"{'resnet50':10} {'':20} {'peak resident set':>18}")
        for side, measure in sides.items():
            print(f"{'resnet50':10} {side:20} {measure('resnet50', 'gradient')[1]:14.0f} MiB", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 6 and sys.argv[1] == "--worker":
        worker(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)

"""Peak memory of attach audit for 20 000 and 100 000 pictures, with the search for near copies.

    pip install numpy==2.4.6
    python pictures.py ATTACH DATA MODELS

ATTACH is the command. DATA has mnist_train.npz, mnist_test.npz, fashion_train.npz and fashion_test.npz, and MODELS has
mnist_cnn.onnx. The pictures are all of these, and the same turned by a quarter and a half.
"""

import subprocess
import sys
import tempfile

from speed import measure


def write(data, path, n):
    import numpy as np

    x = np.concatenate([np.load(f"{data}/{name}.npz")["images"] for name in ("mnist_train", "mnist_test", "fashion_train", "fashion_test")])
    np.savez(path, images=np.concatenate([x, np.rot90(x, 1, (1, 2)), np.rot90(x, 2, (1, 2))])[:n])


def main():
    attach, data, models = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as work:
        mnist = f"{data}/mnist_train.npz"
        subprocess.run([attach, "fit", f"{models}/mnist_cnn.onnx", "--x", mnist, "--rows", ":6000", "--cal", f"{data}/mnist_test.npz", "--cal-rows", ":2000",
                        "--preprocess", f"{models}/mnist_cnn.preprocess.json", "-o", f"{work}/m.attach"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for n in 20_000, 100_000:
            # In a process of its own: a child counts the memory of its parent as its own.
            subprocess.run([sys.executable, __file__, "write", data, f"{work}/x.npz", str(n)], check=True)
            seconds, busy, memory = measure([attach, "audit", f"{work}/m.attach", "--x", f"{work}/x.npz", "-o", f"{work}/audit-{n}"])
            print(f"{n:7} pictures {1000 * busy / n:6.3f} ms of processors an input  {memory:5.0f} MB")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()

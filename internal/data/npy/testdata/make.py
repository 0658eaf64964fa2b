"""Writes the golden files of this folder.

Made with Python 3.11.2 and NumPy 1.24.2:  python3 make.py
"""
import numpy as np
from numpy.lib import format as npf

SHAPE = (2, 3, 4)
LIMITS = {"i": lambda t: (np.iinfo(t).min, np.iinfo(t).max),
          "u": lambda t: (0, min(np.iinfo(t).max, 2**63 - 1)),
          "f": lambda t: (-np.inf, np.finfo(t).max),
          "b": lambda t: (False, True)}


def values(code):
    """0, 1, 2 … (halves for floats, from -12 on where there is a sign), then
    the type's limits."""
    t = np.dtype(code)
    n = int(np.prod(SHAPE))
    a = np.arange(n, dtype=np.float64) - (12 if t.kind in "if" else 0)
    if t.kind == "f":
        a /= 2
    if t.kind == "b":
        a = np.arange(n) % 3 == 0
    a = a.astype(t)
    a[-2:] = LIMITS[t.kind](t)
    return a.reshape(SHAPE)


arrays = {}
for code in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]:
    a = values(code)
    name = np.dtype(code).name
    arrays[name + "_c"] = a
    arrays[name + "_fortran"] = np.asfortranarray(a)
    arrays[name + "_big"] = a.astype(">" + code) if a.itemsize > 1 else a
np.savez_compressed("dtypes.npz", **arrays)
np.savez("stored.npz", rows=np.arange(12, dtype="<f4").reshape(6, 2),
         columns=np.asfortranarray(np.arange(12, dtype="<f4").reshape(6, 2)))

for version in [(1, 0), (2, 0), (3, 0)]:
    with open("version%d.npy" % version[0], "wb") as f:
        npf.write_array(f, np.arange(6, dtype="<f4").reshape(2, 3), version=version)
np.save("scalar.npy", np.float64(2.5))
np.save("empty.npy", np.zeros((0, 3), "<f4"))
np.save("vector.npy", np.arange(5, dtype="<i8"))

texts = np.array([["north", "", "Zürich 🏔"], ["north", "a\0b", "x"]])
np.savez_compressed("texts.npz", little=texts, big=texts.astype(texts.dtype.newbyteorder(">")), fortran=np.asfortranarray(texts),
         bytes=np.array([b"north", b"\xff"]), none=np.array([], "<U3"), many=np.array(["abc", "c"] * 60000 + ["d"]))

# What is refused as numbers.
np.save("strings.npy", np.array(["a", "bc"]))
np.save("complex.npy", np.array([1j]))
np.save("objects.npy", np.array([None]), allow_pickle=True)
np.save("structured.npy", np.zeros(2, [("a", "<f4"), ("b", "<i8")]))
np.save("uint64.npy", np.array([1, 2**63], "<u8"))

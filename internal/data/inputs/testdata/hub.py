"""Writes hub.parquet, six rows in two groups, as the package datasets does (5.2
with pyarrow 26 and Pillow 13):

    python hub.py

The image of row i is 6×4 pixels of the levels 10i, 10i+1 and 10i+2.
"""

import numpy as np
from datasets import ClassLabel, Dataset, Features, Image, Value
from PIL import Image as Pillow


def image(i):
    levels = np.empty((4, 6, 3), np.uint8)
    levels[:] = (10 * i, 10 * i + 1, 10 * i + 2)
    return Pillow.fromarray(levels)


Dataset.from_dict({
    "image": [image(i) for i in range(6)],
    "label": [i % 2 for i in range(6)],
    "y": [i / 2 for i in range(6)],
    "place": ["north"] * 3 + ["south"] * 3,
}, Features({"image": Image(), "label": ClassLabel(names=["dog", "cat"]), "y": Value("float32"), "place": Value("string")}),
).to_parquet("hub.parquet", batch_size=4)

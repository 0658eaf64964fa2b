"""Writes shard-000.tar and shard-001.tar, three samples each, as the package
webdataset does (1.0.2, with NumPy 2.4 and Pillow 13):

    python shards.py

The image of sample i is 6×4 pixels of the levels 10i, 10i+1 and 10i+2.
"""

import numpy as np
import webdataset as wds

for shard in range(2):
    with wds.TarWriter(f"shard-{shard:03d}.tar", mtime=0) as w:
        for i in range(3 * shard, 3 * shard + 3):
            image = np.empty((4, 6, 3), np.uint8)
            image[:] = (10 * i, 10 * i + 1, 10 * i + 2)
            w.write({
                "__key__": f"{'cat' if i % 2 else 'dog'}/{i:04d}",
                "png": image,
                "mask.png": image,
                "npy": np.arange(i, i + 4, dtype=np.float64).reshape(2, 2),
                "cls": i % 2,
                "json": {"label": "cat" if i % 2 else "dog", "y": i / 2, "place": "north" if i < 3 else "south"},
                "txt": f"sentence {i}",
            })

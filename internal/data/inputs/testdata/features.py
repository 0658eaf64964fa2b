# Writes the file beside it: python features.py FOLDER, with pyarrow 26.0.1.
import numpy as np, pyarrow as pa, pyarrow.parquet as pq, sys
n = 60
def rows(width): return list(np.arange(n * width, dtype=float).reshape(n, width))
t = pa.table({
 "feat_list": pa.array(rows(3), pa.list_(pa.float32(), 3)),
 "logits": pa.array(rows(2), pa.list_(pa.float64())),
 "layer_0": pa.array([r.astype(np.float16) for r in rows(4)], pa.list_(pa.float16())),
 "label": pa.array([i % 2 for i in range(n)], pa.int32()),
 "y": pa.array(rows(2), pa.list_(pa.float32())),
 "source": ["a", "b", "ü"] * (n // 3),
 "site": pa.array(range(n), pa.int8()),
 "ragged": pa.array([[1.0] * (1 + i // 30) for i in range(n)]),
 "gap": pa.array([[1.0, None if i == 4 else 2.0] for i in range(n)]),
 "halves": pa.array([i / 2 for i in range(n)]),
 "none": pa.array([[]] * n, pa.list_(pa.float32())),
})
pq.write_table(t, f"{sys.argv[1]}/features.parquet", row_group_size=25)

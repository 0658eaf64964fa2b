# Writes the files beside it: python files.py FOLDER, with pyarrow 26.0.1.
from decimal import Decimal
import pyarrow as pa, pyarrow.parquet as pq, numpy as np, sys
out=sys.argv[1]
n=10
t=pa.table({
 "a":pa.array([float(i)/2 for i in range(n)],pa.float32()),
 "b":pa.array(range(n),pa.int64()),
 "u":pa.array([i for i in range(n)],pa.uint32()),
 "flag":pa.array([i%2==0 for i in range(n)]),
 "half":pa.array(np.arange(n).astype(np.float16)),
 "text":pa.array([f"row {i} é" if i!=3 else None for i in range(n)]),
 "raw":pa.array([bytes([i,255]) for i in range(n)]),
 "ids":pa.array([list(range(i)) if i!=5 else None for i in range(n)],pa.list_(pa.int32())),
 "gaps":pa.array([[1.5,None] for i in range(n)],pa.list_(pa.float64())),
 "nested":pa.array([[[1,2],[3,4]] for i in range(n)]),
 "fixed":pa.array([[i,i+1,i+2] for i in range(n)],pa.list_(pa.float32(),3)),
 "image":pa.array([{"bytes":bytes([i]),"path":f"{i}.png"} for i in range(n)]),
 "cash":pa.array([Decimal(i-5)*Decimal("1.25") if i!=7 else None for i in range(n)],pa.decimal128(18,4)),
 "day":pa.array([0]*n,pa.date32()),
 "cat":pa.array(["x" if i%3 else "y" for i in range(n)]).dictionary_encode(),
 "tokens":pa.array([["p","q"][:i%3] for i in range(n)]),
})
t=t.replace_schema_metadata({"huggingface":'{"info": {"features": {"label": {"names": ["no","yes"], "_type": "ClassLabel"}}}}'})
for name,kw in {"plain":dict(compression="none",use_dictionary=False),"snappy":dict(row_group_size=4,store_decimal_as_integer=True),"v2zstd":dict(compression="zstd",data_page_version="2.0",row_group_size=3,data_page_size=64),"gzip":dict(compression="gzip",write_page_index=True,data_page_size=1)}.items():
    pq.write_table(t,f"{out}/{name}.parquet",**kw)
from datetime import date, datetime
at=[datetime(2024,2,29,23,59,59,123456),None,datetime(1969,12,31,0,0,1)]
t=pa.table({
 "day":pa.array([date(2024,2,29),None,date(1969,12,31)],pa.date32()),
 **{unit:pa.array(at,pa.timestamp("us")).cast(pa.timestamp(unit),safe=False) for unit in ("ms","us","ns")},
 "zone":pa.array(at,pa.timestamp("us",tz="Asia/Tokyo")),
 "time":pa.array([1,2,3],pa.time32("s")),
 "number":pa.array([1,2,3]),
})
pq.write_table(t,f"{out}/dates/dates.parquet")

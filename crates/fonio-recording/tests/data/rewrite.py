"""Writes tests/data/rewritten: the tables of tests/data/original as other tools write them.

Needs polars, pandas, pyarrow, pyspark and a Java runtime; made with Polars 2.1.0, pandas 3.1.1 and Spark 4.3.0.
"""
import glob
import os
import shutil
import tempfile

import pandas
import polars
from pyspark.sql import SparkSession

here = os.path.dirname(os.path.abspath(__file__))
source = f"{here}/original"
out = f"{here}/rewritten"
shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)

for codec in ["zstd", "gzip", "brotli", "lz4", "snappy", "uncompressed"]:
    table = polars.read_parquet(f"{source}/requests.parquet")
    rows = 64 if codec in ("zstd", "gzip") else None
    table.write_parquet(f"{out}/polars-{codec}.requests.parquet", compression=codec, row_group_size=rows)

for name in ["requests", "samples", "threads"]:
    table = polars.read_parquet(f"{source}/{name}.parquet")
    categories = [column for column, kind in table.schema.items() if kind in (polars.Categorical, polars.Enum)]
    table = table.with_columns(polars.col(column).cast(polars.String) for column in categories)
    table.write_parquet(f"{out}/polars-strings.{name}.parquet", compression="zstd", statistics=False)

pandas.read_parquet(f"{source}/requests.parquet").to_parquet(f"{out}/pandas.requests.parquet", compression="zstd")

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for codec in ["zstd", "gzip", "snappy"]:
    with tempfile.TemporaryDirectory() as parts:
        table = spark.read.parquet(f"{source}/requests.parquet").coalesce(1)
        table.write.mode("overwrite").option("compression", codec).parquet(parts)
        (part,) = glob.glob(f"{parts}/part-*.parquet")
        shutil.copy(part, f"{out}/spark-{codec}.requests.parquet")

# %% [markdown]
# # A block-trace study from a recording
#
# Courville and Chen describe mobile apps by their block traces: the shares of reads and writes, small requests,
# sequential requests, and the I/O share, which is the sum of all service times divided by the length of the trace. This
# tutorial computes these numbers for a recording, once by hand with Polars and once from the report.

# %%
import pathlib

import polars as pl

import fonio

recording = fonio.open(pathlib.Path(__file__).parents[2] / "docs/sample/webbench-on-ridata")
requests = recording.requests.to_polars().with_columns(pl.col("op").cast(pl.String))
analysis = recording.report().analysis
data = requests.filter(pl.col("op").is_in(["read", "write"]))

# %% [markdown]
# ## Reads and writes

# %%
by_op = data.group_by("op").agg(pl.len().alias("requests"), pl.col("bytes").sum()).sort("op")
print(by_op)
read, write = by_op.rows()
totals = analysis["totals"]
assert read == ("read", totals["reads"], totals["read_bytes"])
assert write == ("write", totals["writes"], totals["write_bytes"])

# %% [markdown]
# ## Small requests

# %%
up_to_4k = (data["bytes"] <= 4096).mean()
print(f"{up_to_4k:.1%} of the requests have at most 4 KiB")
assert abs(up_to_4k - recording.report().figures["sizes.all.up_to_4k_share"].value) < 1e-9

# %% [markdown]
# ## Sequential requests
#
# A request is sequential if it starts where the previous request of the same op ended.

# %%
placed = data.sort("issued_ns", "request_id").with_columns(
    (pl.col("sector") == (pl.col("sector") + pl.col("bytes") // 512).shift(1).over("device", "op")).alias("sequential")
)
for op in ("read", "write"):
    count = placed.filter(pl.col("op") == op)["sequential"].sum()
    print(f"{count} sequential {op}s; the report has {analysis['sequentiality'][op]['sequential_requests']}")
    assert count == analysis["sequentiality"][op]["sequential_requests"]

# %% [markdown]
# ## The I/O share
#
# The sum of the service times counts requests in flight at the same time twice, so it can exceed the length of the
# recording. The report also has the share of time in which at least one request was in flight.

# %%
service = requests.select((pl.col("completed_ns") - pl.col("issued_ns")).sum()).item()
share = service / analysis["span"]["duration_ns"]
print(f"I/O share {share:.3f} by the sum, {analysis['io_share']['all']['busy_union_share']:.3f} by the union")
assert abs(share - analysis["io_share"]["all"]["latency_sum_share"]) < 1e-9

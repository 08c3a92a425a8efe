# %% [markdown]
# # A block-trace study from a recording, figure by figure
#
# Courville and Chen describe thirteen mobile workloads by their block traces. This tutorial draws each of their figures
# and computes each of their tables for one recording, from its table of requests with Polars, and compares the numbers
# with those of the report. Their Figure 1 shows the parts of Android; nothing in it is measured. A figure or table over
# all workloads needs a recording of each; for one recording it has one row.

# %%
import pathlib

import polars as pl
from matplotlib import pyplot as plt

import fonio

# The repository, from a script in it or from a notebook in it.
here = pathlib.Path(globals().get("__file__", "notebook")).resolve()
root = next(folder for folder in here.parents if (folder / "docs/sample").is_dir())
recording = fonio.open(root / "docs/sample/webbench-on-ridata")
report = recording.report()
analysis = report.analysis
requests = recording.requests.to_polars().with_columns(
    pl.col("op").cast(pl.String),
    (pl.col("completed_ns") - pl.col("issued_ns")).alias("service_ns"),
)
data = requests.filter(pl.col("op").is_in(["read", "write"]))
reads, writes = (data.filter(pl.col("op") == op) for op in ("read", "write"))

# %% [markdown]
# ## Table I: reads for each write

# %%
totals = analysis["totals"]
print(f"{reads.height} reads, {writes.height} writes: {reads.height / writes.height:.4f} reads for each write")
assert (reads.height, writes.height) == (totals["reads"], totals["writes"])
assert (reads["bytes"].sum(), writes["bytes"].sum()) == (totals["read_bytes"], totals["write_bytes"])

# %% [markdown]
# ## Figure 2: sizes and latencies
#
# The share of requests with at most this size, and with at most this time from issue to completion.

# %%
figure, (by_size, by_time) = plt.subplots(1, 2, figsize=(9, 3))
for name, frame in (("all", data), ("reads", reads), ("writes", writes)):
    ranks = [(at + 1) / frame.height for at in range(frame.height)]
    by_size.step(frame["bytes"].sort() / 1024, ranks, where="post", label=name)
    by_time.step(frame["service_ns"].sort() / 1e6, ranks, where="post", label=name)
by_size.set(xscale="log", xlabel="size in KiB", ylabel="share of requests")
by_time.set(xscale="log", xlabel="latency in ms")
by_time.legend()
up_to_4k = (data["bytes"] <= 4096).mean()
print(f"{up_to_4k:.1%} of the requests have at most 4 KiB")
assert abs(up_to_4k - report.figures["sizes.all.up_to_4k_share"].value) < 1e-9

# %% [markdown]
# ## Figure 3: latency against size

# %%
figure, axes = plt.subplots(figsize=(6, 3))
for name, frame in (("reads", reads), ("writes", writes)):
    axes.scatter(frame["bytes"] / 1024, frame["service_ns"] / 1e6, s=4, label=name)
axes.set(xscale="log", yscale="log", xlabel="size in KiB", ylabel="latency in ms")
axes.legend()
for name, frame in (("reads", reads), ("writes", writes)):
    print(name, frame.group_by("bytes").agg(pl.len(), pl.col("service_ns").median()).sort("len")[-3:].rows())

# %% [markdown]
# ## Figure 4: addresses over time
#
# Offsets are in sectors, as in the study. A request is sequential if it starts where the previous request of the same
# op on the same device ended.

# %%
figure, axes = plt.subplots(figsize=(6, 3))
for name, frame in (("reads", reads), ("writes", writes)):
    axes.scatter((frame["issued_ns"] - data["issued_ns"].min()) / 1e9, frame["sector"], s=3, label=name)
axes.set(xlabel="time in s", ylabel="offset in sectors")
axes.legend()
placed = data.sort("issued_ns", "request_id").with_columns(
    (pl.col("sector") == (pl.col("sector") + pl.col("bytes") // 512).shift(1).over("device", "op")).alias("sequential")
)
for op in ("read", "write"):
    count = placed.filter(pl.col("op") == op)["sequential"].sum()
    print(f"{count} sequential {op}s; the report has {analysis['sequentiality'][op]['sequential_requests']}")
    assert count == analysis["sequentiality"][op]["sequential_requests"]

# %% [markdown]
# ## Figure 5 and Table II: data between two flushes
#
# A flush makes the writes before it durable. The study counts requests, bytes and time from one flush to the next. The
# card of the sample has no volatile cache, so the kernel sends it no flushes, and the report has no such figure. This
# part reads a trace of biosnoop, of another machine.

# %%
assert analysis["flushes"]["gaps"] is None
traced = fonio.open(root / "crates/fonio-trace/tests/data/biosnoop.txt")
ordered = traced.requests.to_polars().with_columns(pl.col("op").cast(pl.String)).sort("issued_ns", "request_id")
ordered = ordered.with_columns((pl.col("op") == "flush").cum_sum().over("device").alias("flushes"))
flushes = ordered.filter(pl.col("op") == "flush")
gaps = flushes.select(
    "device", "flushes", (pl.col("issued_ns").shift(-1).over("device") - pl.col("issued_ns")).alias("ns")
).drop_nulls()
between = (
    ordered.filter(pl.col("op").is_in(["read", "write"]))
    .group_by("device", "flushes")
    .agg(pl.len().alias("requests"), pl.col("bytes").sum())
)
gaps = gaps.join(between, on=["device", "flushes"], how="left").fill_null(0)
figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), sharey=True)
for axis, column, unit, scale in zip(axes, ("requests", "bytes", "ns"), ("", "KiB", "s"), (1, 1024, 1e9), strict=True):
    axis.step(gaps[column].sort() / scale, [(at + 1) / gaps.height for at in range(gaps.height)], where="post")
    axis.set(xlabel=f"{column} {unit}".replace("ns s", "seconds").replace("bytes KiB", "KiB"))
axes[0].set(ylabel="share of gaps")
for column in ("requests", "bytes", "ns"):
    print(f"90 % of the gaps have at most {gaps[column].quantile(0.9, 'higher')} {column}")
expected = traced.report().analysis["flushes"]["gaps"]
assert (gaps.height, gaps["bytes"].sum()) == (expected["requests"]["count"], expected["bytes"]["sum"])
assert (gaps["requests"].sum(), gaps["ns"].sum()) == (expected["requests"]["sum"], expected["time_ns"]["sum"])

# %% [markdown]
# ## Figure 6: rank of rewritten places
#
# A place has 4 KiB. The study leaves out ranks after 300.

# %%
places = writes.select(
    pl.int_ranges(pl.col("sector") // 8, (pl.col("sector") * 512 + pl.col("bytes") + 4095) // 4096).alias("place")
).explode("place")
ranked = places["place"].value_counts().sort("count", descending=True)
figure, axes = plt.subplots(figsize=(6, 3))
axes.plot(range(1, min(ranked.height, 300) + 1), ranked["count"][:300])
axes.set(xlabel="rank of the place", ylabel="writes")
written = analysis["locality"]["written"]
top = ranked["count"][:10].sum() / places.height
print(f"{ranked.height} places were written, and the 10 most written ones got {top:.1%} of the writes")
assert (ranked.height, places.height) == (written["places"], written["touches"])
assert abs(top - written["top_10_share"]) < 1e-9

# %% [markdown]
# ## Figure 7 and Table III: the I/O share
#
# The study divides the sum of all latencies by the length of the test. The sum counts requests in flight at the same
# time twice, so the share can exceed 100 %. The report also has the share of time in which a request was in flight.

# %%
span = analysis["span"]["duration_ns"]
share = requests["service_ns"].sum() / span
print(f"{reads.height + writes.height} requests in {span / 1e6:.2f} ms")
print(f"I/O share {share:.1%} by the sum, {analysis['io_share']['all']['busy_union_share']:.1%} by the union")
assert abs(share - analysis["io_share"]["all"]["latency_sum_share"]) < 1e-9

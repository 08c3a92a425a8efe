# %% [markdown]
# # Which card for my load?
#
# A recording has the requests of a load. The simulator replays them on models of other devices. Each model says where
# its numbers come from (`fonio.profile(name).sources`).

# %%
import pathlib

import fonio

# The repository, from a script in it or from a notebook in it.
here = pathlib.Path(globals().get("__file__", "notebook")).resolve()
root = next(folder for folder in here.parents if (folder / "docs/sample").is_dir())
recording = fonio.open(root / "docs/sample/webbench-on-ridata")
cards = ["ridata", "transcend", "sd_a1", "sd_a2", "emmc51"]

# %% [markdown]
# Each card runs the recorded requests at their recorded times. The median and the 99th percentile of the response time
# show which card keeps up.

# %%
sweep = fonio.sweep(cards, recording.requests, capacity="16 GB")
rows = sorted(sweep.rows(), key=lambda row: row["write_response_p99_ns"])
for row in rows:
    median, worst = row["write_response_p50_ns"] / 1e6, row["write_response_p99_ns"] / 1e6
    print(f"{row['profile']:>10}: write response {median:8.1f} ms median, {worst:8.1f} ms 99th percentile")

# %% [markdown]
# These requests were recorded on a slow card, with programs that waited for it. On a faster card the programs would
# issue their requests sooner. A replay keeps the waits: a thread continues when its request has completed, after the
# recorded pause. So its length shows how long the same work takes on each card.

# %%
replay = fonio.sweep(cards, fonio.Replay(recording), capacity="16 GB")
spans = {row["profile"]: row["span_ns"] / 1e9 for row in replay.rows()}
for card, span in sorted(spans.items(), key=lambda item: item[1]):
    print(f"{card:>10}: the work takes {span:5.2f} s")

# %%
order = [row["profile"] for row in rows]
print("fastest first:", ", ".join(order))
assert order.index("emmc51") < order.index("ridata")
assert order.index("sd_a2") < order.index("ridata")
assert spans["emmc51"] < spans["sd_a2"] < spans["ridata"]

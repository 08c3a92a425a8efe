# %% [markdown]
# # Does my change help?
#
# One run before and one run after a change cannot show that the change is the cause, because two runs of the same work
# differ too. With at least three recordings on each side, `fonio.compare` gives an interval for each figure, and claims
# a difference only if it is shown.
#
# This tutorial makes its runs in the simulator: a card with more or less spare flash, each with several seeds.

# %%
import fonio

LOAD = [
    fonio.ClosedLoop(4000, reads=0.3, size=4096, depth=2, think_ns=(0, 2_000_000)),
    fonio.ClosedLoop(400, reads=0.0, size=65536, order="sequential", process=2),
]
FILL = [fonio.ClosedLoop(256, size=512 << 10, order="sequential"), fonio.ClosedLoop(40_000)]


def runs(spare, seeds):
    profile = fonio.profile("sd_a1", {"ftl.spare": spare})
    return [fonio.simulate(profile, LOAD, seed=seed, capacity="128 MiB", prepare=FILL).report() for seed in seeds]


before = runs("7 %", range(1, 6))
after = runs("40 %", range(11, 16))

# %% [markdown]
# The comparison names the figures that differ, with the ratio and its interval.

# %%
comparison = fonio.compare(before, after)
for change in comparison.differences:
    low, high = change.details["low"], change.details["high"]
    print(f"{change.label}: {change.values[0]:.4g} to {change.values[1]:.4g} {change.unit}, ratio {low} to {high}")
better = [change for change in comparison.differences if change.answer == change.better]
assert any(change.figure.startswith("latency.") for change in better)

# %% [markdown]
# A comparison of a side with other seeds of the same side must not claim a difference.

# %%
same = fonio.compare(before, runs("7 %", range(21, 26)))
print(len(same.differences), "differences between equal sides")
assert not same.differences

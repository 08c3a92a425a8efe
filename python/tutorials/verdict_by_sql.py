# %% [markdown]
# # Reproduce a verdict by SQL
#
# The report says that storage is the problem, and for which share of the time a program was blocked on it. This
# tutorial computes the share from the tables of the recording, with DuckDB.

# %%
import pathlib

import duckdb

import fonio

# The repository, from a script in it or from a notebook in it.
here = pathlib.Path(globals().get("__file__", "notebook")).resolve()
root = next(folder for folder in here.parents if (folder / "docs/sample").is_dir())
recording = fonio.open(root / "docs/sample/webbench-on-ridata")
report = recording.report()
print(report.verdict)

# %% [markdown]
# The table `waits` has a row for each long wait of a thread. Short waits are only counted, in `blocked_counts`. The two
# tables together are the time for which a thread was blocked. The waits of one thread do not overlap.

# %%
waits, blocked_counts, threads = recording.waits, recording.blocked_counts, recording.threads
blocked = duckdb.sql("""
    WITH blocked AS (
        SELECT tid, ended_ns - began_ns AS ns FROM waits WHERE reason = 'storage' AND ended_ns IS NOT NULL
        UNION ALL
        SELECT tid, total_ns FROM blocked_counts WHERE reason = 'storage'
    )
    SELECT tid, (SELECT max(comm) FROM threads WHERE threads.tid = blocked.tid) AS comm, sum(ns)::BIGINT AS ns
    FROM blocked GROUP BY tid ORDER BY ns DESC
""")
print(blocked)

# %% [markdown]
# The verdict names the program of interest with the longest time.

# %%
program = next(program for program in report.analysis["blocked"]["programs"] if program["role"] == "of_interest")
by_thread = {tid: ns for tid, _, ns in blocked.fetchall()}
share = by_thread[program["worst_tid"]] / report.analysis["span"]["duration_ns"]
print(f"{program['name']}: {share:.1%} by SQL, {program['worst']['share']:.1%} in the report")
assert abs(share - program["worst"]["share"]) < 0.001
assert f"{share * 100:.1f} %" in report.verdict

-- How each device changed from the four weeks before a week to the four weeks after it, as counts of devices in bins
-- (64 bins are a factor of two). A device whose attributes changed in this week is in rows with `to_key` <> `from_key`;
-- a device whose attributes stayed is a control. Only weeks and attributes with a change are listed. The month of manufacture
-- is not among these attributes, but a device whose disk has another month has another disk, and is left out.
WITH framed AS (
    SELECT
        device, week, key_min, key_max,
        min(key_min) OVER before AS before_min,
        max(key_max) OVER before AS before_max,
        count(*) OVER before AS before_weeks,
        min(kind) OVER before AS before_kind,
        min(disk_made) OVER before AS before_made,
        min(key_min) OVER after AS after_min,
        max(key_max) OVER after AS after_max,
        count(*) OVER after AS after_weeks,
        min(kind) OVER after AS after_kind,
        min(disk_made) OVER after AS after_made,
        sum(watched_s) OVER before AS b_watched_s, sum(watched_s) OVER after AS a_watched_s,
        sum(reads) OVER before AS b_reads, sum(reads) OVER after AS a_reads,
        sum(read_us) OVER before AS b_read_us, sum(read_us) OVER after AS a_read_us,
        sum(writes) OVER before AS b_writes, sum(writes) OVER after AS a_writes,
        sum(write_us) OVER before AS b_write_us, sum(write_us) OVER after AS a_write_us,
        sum(flushes) OVER before AS b_flushes, sum(flushes) OVER after AS a_flushes,
        sum(flush_us) OVER before AS b_flush_us, sum(flush_us) OVER after AS a_flush_us,
        sum(written_bytes) OVER before AS b_written_bytes, sum(written_bytes) OVER after AS a_written_bytes,
        sum(stalled_ms) OVER before AS b_stalled_ms, sum(stalled_ms) OVER after AS a_stalled_ms
    FROM weeks
    WHERE is_main
    WINDOW
        before AS (PARTITION BY device ORDER BY week RANGE BETWEEN 4 PRECEDING AND 1 PRECEDING),
        after AS (PARTITION BY device ORDER BY week RANGE BETWEEN 1 FOLLOWING AND 4 FOLLOWING)
),
paired AS (
    SELECT *
    FROM framed
    WHERE before_min = before_max AND after_min = after_max AND before_weeks >= 3 AND after_weeks >= 3
        AND before_made = after_made AND (before_min <> after_min OR key_min = key_max)
),
changed AS (
    SELECT DISTINCT week, before_kind AS from_key FROM paired WHERE before_kind <> after_kind
),
long AS (
    SELECT
        p.week, p.before_kind AS from_key, p.after_kind AS to_key, m.measure,
        CASE m.measure
            WHEN 'read time' THEN CASE WHEN b_reads >= 200 AND a_reads >= 200 AND b_read_us > 0 AND a_read_us > 0
                THEN ln(CAST(a_read_us AS DOUBLE) / a_reads) - ln(CAST(b_read_us AS DOUBLE) / b_reads) END
            WHEN 'write time' THEN CASE WHEN b_writes >= 200 AND a_writes >= 200 AND b_write_us > 0 AND a_write_us > 0
                THEN ln(CAST(a_write_us AS DOUBLE) / a_writes) - ln(CAST(b_write_us AS DOUBLE) / b_writes) END
            WHEN 'flush time' THEN CASE WHEN b_flushes >= 200 AND a_flushes >= 200 AND b_flush_us > 0 AND a_flush_us > 0
                THEN ln(CAST(a_flush_us AS DOUBLE) / a_flushes) - ln(CAST(b_flush_us AS DOUBLE) / b_flushes) END
            WHEN 'stalled time' THEN CASE WHEN b_watched_s > 0 AND a_watched_s > 0
                THEN ln(CAST(a_stalled_ms AS DOUBLE) * 86400 / a_watched_s + 1000)
                    - ln(CAST(b_stalled_ms AS DOUBLE) * 86400 / b_watched_s + 1000) END
            WHEN 'written bytes' THEN CASE WHEN b_watched_s > 0 AND a_watched_s > 0 AND b_written_bytes > 0 AND a_written_bytes > 0
                THEN ln(CAST(a_written_bytes AS DOUBLE) * 86400 / a_watched_s)
                    - ln(CAST(b_written_bytes AS DOUBLE) * 86400 / b_watched_s) END
        END AS delta
    FROM paired AS p
    JOIN changed AS c ON c.week = p.week AND c.from_key = p.before_kind
    CROSS JOIN (
        VALUES ('read time'), ('write time'), ('flush time'), ('stalled time'), ('written bytes')
    ) AS m (measure)
)
SELECT week, from_key, to_key, measure, CAST(floor(delta * 92.33248261893424 + 0.500001) AS INT) AS bin, count(*) AS devices
FROM long
WHERE delta IS NOT NULL
GROUP BY week, from_key, to_key, measure, CAST(floor(delta * 92.33248261893424 + 0.500001) AS INT)
ORDER BY week, from_key, to_key, measure, bin

-- As `changes`, for the bytes that each unit wrote a day, plus a MiB.
WITH framed AS (
    SELECT
        device, unit, week, key_min, key_max,
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
        sum(written_bytes) OVER before AS b_written_bytes, sum(written_bytes) OVER after AS a_written_bytes
    FROM unit_weeks
    WINDOW
        before AS (PARTITION BY device, unit ORDER BY week RANGE BETWEEN 4 PRECEDING AND 1 PRECEDING),
        after AS (PARTITION BY device, unit ORDER BY week RANGE BETWEEN 1 FOLLOWING AND 4 FOLLOWING)
),
paired AS (
    SELECT
        week, unit, before_kind AS from_key, after_kind AS to_key,
        ln(CAST(a_written_bytes AS DOUBLE) * 86400 / a_watched_s + 1048576)
            - ln(CAST(b_written_bytes AS DOUBLE) * 86400 / b_watched_s + 1048576) AS delta
    FROM framed
    WHERE before_min = before_max AND after_min = after_max AND before_weeks >= 3 AND after_weeks >= 3
        AND before_made = after_made AND (before_min <> after_min OR key_min = key_max)
),
changed AS (
    SELECT DISTINCT week, from_key FROM paired WHERE from_key <> to_key
)
SELECT p.week, p.from_key, p.to_key, concat('bytes written by ', p.unit) AS measure,
    CAST(floor(p.delta * 92.33248261893424 + 0.500001) AS INT) AS bin, count(*) AS devices
FROM paired AS p
JOIN changed AS c ON c.week = p.week AND c.from_key = p.from_key
GROUP BY p.week, p.from_key, p.to_key, p.unit, CAST(floor(p.delta * 92.33248261893424 + 0.500001) AS INT)
ORDER BY p.week, p.from_key, p.to_key, measure, bin

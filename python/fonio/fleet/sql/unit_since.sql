-- As `since`, for the bytes written by the unit $unit.
WITH marked AS (
    SELECT
        week, $equal, CASE WHEN $factor = $level THEN 1 ELSE 0 END AS is_level,
        ln(CAST(written_bytes AS DOUBLE) * 86400 / watched_s + 1048576) AS value,
        max(CASE WHEN $factor = $level THEN 1 ELSE 0 END) OVER (PARTITION BY week, $equal) AS has_level
    FROM unit_weeks
    WHERE unit = $unit AND key_min = key_max
)
SELECT week, $equal, is_level, CAST(floor(value * 92.33248261893424 + 0.000001) AS INT) AS bin, count(*) AS devices
FROM marked
WHERE has_level = 1
GROUP BY week, $equal, is_level, CAST(floor(value * 92.33248261893424 + 0.000001) AS INT)
ORDER BY week, $equal, is_level, bin

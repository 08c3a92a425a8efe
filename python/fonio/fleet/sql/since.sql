-- The measure $measure of each week, as counts of devices in bins, for devices with $factor = $level and for the others, by the
-- attributes $equal, which must be equal in a comparison. Weeks and attributes without devices of the level are left out.
WITH long AS (
    SELECT
        week, $equal, CASE WHEN $factor = $level THEN 1 ELSE 0 END AS is_level,
        CASE $measure
            WHEN 'read time' THEN CASE WHEN reads >= 50 AND read_us > 0 THEN ln(CAST(read_us AS DOUBLE) / reads) END
            WHEN 'write time' THEN CASE WHEN writes >= 50 AND write_us > 0 THEN ln(CAST(write_us AS DOUBLE) / writes) END
            WHEN 'flush time' THEN CASE WHEN flushes >= 50 AND flush_us > 0 THEN ln(CAST(flush_us AS DOUBLE) / flushes) END
            WHEN 'stalled time' THEN CASE WHEN watched_s >= 3600 THEN ln(CAST(stalled_ms AS DOUBLE) * 86400 / watched_s + 1000) END
            WHEN 'written bytes' THEN CASE WHEN written_bytes > 0 AND watched_s >= 3600
                THEN ln(CAST(written_bytes AS DOUBLE) * 86400 / watched_s) END
        END AS value
    FROM weeks
    WHERE is_main AND key_min = key_max
),
marked AS (
    SELECT *, max(is_level) OVER (PARTITION BY week, $equal) AS has_level FROM long WHERE value IS NOT NULL
)
SELECT week, $equal, is_level, CAST(floor(value * 92.33248261893424 + 0.000001) AS INT) AS bin, count(*) AS devices
FROM marked
WHERE has_level = 1
GROUP BY week, $equal, is_level, CAST(floor(value * 92.33248261893424 + 0.000001) AS INT)
ORDER BY week, $equal, is_level, bin

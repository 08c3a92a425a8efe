-- One row for each device: its sums in the window (the last $weeks weeks), over the complete weeks in which it had its
-- present attributes. At least a day must have been watched.
WITH present AS (
    SELECT device, disk, key_min AS present_key
    FROM (
        SELECT device, disk, key_min, row_number() OVER (PARTITION BY device ORDER BY week DESC) AS place
        FROM weeks
        WHERE is_main AND key_min = key_max AND week >= -$weeks
    ) AS latest
    WHERE place = 1
)
SELECT
    w.device,
    max(p.present_key) AS present_key,
    max(w.model) AS model,
    max(w.kernel) AS kernel,
    max(w.os) AS os,
    max(w.disk_model) AS disk_model,
    max(w.disk_firmware) AS disk_firmware,
    max(w.disk_made) AS disk_made,
    CAST(sum(w.watched_s) AS BIGINT) AS watched_s,
    CAST(sum(w.reads) AS BIGINT) AS reads,
    CAST(sum(w.read_us) AS BIGINT) AS read_us,
    CAST(sum(w.writes) AS BIGINT) AS writes,
    CAST(sum(w.write_us) AS BIGINT) AS write_us,
    CAST(sum(w.flushes) AS BIGINT) AS flushes,
    CAST(sum(w.flush_us) AS BIGINT) AS flush_us,
    CAST(sum(w.written_bytes) AS BIGINT) AS written_bytes,
    CAST(sum(w.stalls) AS BIGINT) AS stalls,
    CAST(sum(w.stalled_ms) AS BIGINT) AS stalled_ms
FROM weeks AS w
JOIN present AS p ON p.device = w.device AND p.disk = w.disk AND p.present_key = w.key_min
WHERE w.key_min = w.key_max AND w.week >= -$weeks
GROUP BY w.device
HAVING sum(w.watched_s) >= 86400

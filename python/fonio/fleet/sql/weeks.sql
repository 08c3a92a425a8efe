-- The rows of `week_sums`. `is_main` marks the disk of a device with the most written bytes: comparisons use only this disk,
-- so that each device counts once.
WITH totals AS (
    SELECT *, sum(written_bytes) OVER (PARTITION BY device, disk) AS written_in_all FROM week_sums
)
SELECT
    device, disk, week, days, first_day, last_day, key_min, key_max, kind, model, kernel, os, disk_model, disk_firmware,
    disk_made, disk_bytes, life_used_percent, watched_s, reads, read_us, writes, write_us, flushes, flush_us,
    read_bytes, written_bytes, stalls, stalled_ms,
    dense_rank() OVER (PARTITION BY device ORDER BY coalesce(written_in_all, -1) DESC, disk DESC) = 1 AS is_main
FROM totals

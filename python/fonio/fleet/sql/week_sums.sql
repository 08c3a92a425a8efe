-- One row for each device, disk and week: sums, and the attributes if they did not change within the week.
-- Week -1 ends with the last day of the data ($last_day). Of several rows for one device, day and disk, the one with
-- the longest time counts. The engine can compute the weeks from $from_week to before $to_week apart from others, because
-- rows of different weeks do not depend on each other.
WITH numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY device, day_number, disk
            ORDER BY watched_s DESC, written_bytes DESC, writes DESC, reads DESC, write_us DESC, read_us DESC,
                flush_us DESC, stalled_ms DESC, kernel DESC, os DESC, disk_firmware DESC
        ) AS copy
    FROM checked_days
    WHERE refused IS NULL AND day_number <= $last_day
        AND day_number > $last_day + 7 * ($from_week) AND day_number <= $last_day + 7 * ($to_week)
),
named AS (
    SELECT
        *,
        CAST(floor((day_number - $last_day - 1) / 7.0) AS INT) AS week,
        coalesce(replace(model, '|', '/'), '?') AS model_name,
        coalesce(replace(kernel, '|', '/'), '?') AS kernel_name,
        coalesce(replace(os, '|', '/'), '?') AS os_name,
        coalesce(replace(disk_model, '|', '/'), '?') AS disk_model_name,
        coalesce(replace(disk_firmware, '|', '/'), '?') AS disk_firmware_name,
        coalesce(replace(disk_made, '|', '/'), '?') AS disk_made_name
    FROM numbered
    WHERE copy = 1
)
SELECT
    device,
    disk,
    week,
    CAST(count(*) AS INT) AS days,
    min(day_number) AS first_day,
    max(day_number) AS last_day,
    min(concat_ws('|', model_name, disk_model_name, disk_made_name, disk_firmware_name, kernel_name, os_name)) AS key_min,
    max(concat_ws('|', model_name, disk_model_name, disk_made_name, disk_firmware_name, kernel_name, os_name)) AS key_max,
    max(concat_ws('|', model_name, disk_model_name, disk_firmware_name, kernel_name, os_name)) AS kind,
    max(model_name) AS model,
    max(kernel_name) AS kernel,
    max(os_name) AS os,
    max(disk_model_name) AS disk_model,
    max(disk_firmware_name) AS disk_firmware,
    max(disk_made_name) AS disk_made,
    max(disk_bytes) AS disk_bytes,
    max(life_used_percent) AS life_used_percent,
    CAST(sum(watched_s) AS BIGINT) AS watched_s,
    CAST(sum(reads) AS BIGINT) AS reads,
    CAST(sum(read_us) AS BIGINT) AS read_us,
    CAST(sum(writes) AS BIGINT) AS writes,
    CAST(sum(write_us) AS BIGINT) AS write_us,
    CAST(sum(flushes) AS BIGINT) AS flushes,
    CAST(sum(flush_us) AS BIGINT) AS flush_us,
    CAST(sum(read_bytes) AS BIGINT) AS read_bytes,
    CAST(sum(written_bytes) AS BIGINT) AS written_bytes,
    CAST(sum(stalls) AS BIGINT) AS stalls,
    CAST(sum(stalled_ms) AS BIGINT) AS stalled_ms
FROM named
GROUP BY device, disk, week

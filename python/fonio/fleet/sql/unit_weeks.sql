-- One row for each device, week and unit among $units: its written bytes on the main disk, with the attributes of the
-- device. Of several rows for one device, day, disk and unit, the one with the most bytes counts. As in `week_sums`, weeks can
-- be computed apart from others.
WITH once AS (
    SELECT device, day_number, disk, unit, max(written_bytes) AS written_bytes
    FROM units_raw
    WHERE unit IN ($units) AND written_bytes >= 0 AND written_bytes < 90000 * 32000000000 AND day_number <= $last_day
        AND day_number > $last_day + 7 * ($from_week) AND day_number <= $last_day + 7 * ($to_week)
    GROUP BY device, day_number, disk, unit
),
summed AS (
    SELECT device, disk, unit, CAST(floor((day_number - $last_day - 1) / 7.0) AS INT) AS week,
        CAST(sum(written_bytes) AS BIGINT) AS written_bytes
    FROM once
    GROUP BY device, disk, unit, CAST(floor((day_number - $last_day - 1) / 7.0) AS INT)
)
SELECT s.device, s.unit, s.week, w.key_min, w.key_max, w.kind, w.model, w.kernel, w.os, w.disk_model, w.disk_firmware,
    w.disk_made, w.watched_s, s.written_bytes
FROM summed AS s
JOIN weeks AS w ON w.device = s.device AND w.disk = s.disk AND w.week = s.week
WHERE w.is_main AND w.watched_s > 0

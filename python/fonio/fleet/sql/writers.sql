-- The units among $units, with the devices and device-days on which they wrote in the window.
WITH once AS (
    SELECT device, day_number, disk, unit, max(written_bytes) AS written_bytes
    FROM units_raw
    WHERE day_number > $last_day - 7 * $weeks AND day_number <= $last_day AND written_bytes >= 0
        AND written_bytes < 90000 * 32000000000 AND unit IN ($units)
    GROUP BY device, day_number, disk, unit
),
daily AS (
    SELECT unit, device, day_number, sum(written_bytes) AS written_bytes FROM once GROUP BY unit, device, day_number
)
SELECT unit, count(DISTINCT device) AS devices, count(*) AS device_days, CAST(sum(written_bytes) AS BIGINT) AS written_bytes
FROM daily
GROUP BY unit
ORDER BY written_bytes DESC, unit

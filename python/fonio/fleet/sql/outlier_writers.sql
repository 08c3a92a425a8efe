-- For the devices in $devices: the unit that wrote most in the window.
WITH once AS (
    SELECT device, day_number, disk, unit, max(written_bytes) AS written_bytes
    FROM units_raw
    WHERE day_number > $last_day - 7 * $weeks AND day_number <= $last_day AND device IN ($devices) AND written_bytes >= 0
    GROUP BY device, day_number, disk, unit
),
summed AS (
    SELECT device, unit, sum(written_bytes) AS written_bytes
    FROM once
    GROUP BY device, unit
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY device ORDER BY written_bytes DESC, unit DESC) AS place,
        sum(written_bytes) OVER (PARTITION BY device) AS written_in_all
    FROM summed
)
SELECT device, unit, CAST(written_bytes AS BIGINT) AS written_bytes, CAST(written_in_all AS BIGINT) AS written_in_all
FROM ranked
WHERE place = 1
ORDER BY device

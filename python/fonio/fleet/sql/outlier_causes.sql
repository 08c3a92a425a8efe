-- For the devices in $devices: the cause of most of their stalled time in the window.
WITH once AS (
    SELECT device, day_number, disk, unit, cause, culprit, max(stalls) AS stalls, max(stalled_ms) AS stalled_ms
    FROM stalls_raw
    WHERE day_number > $last_day - 7 * $weeks AND day_number <= $last_day AND device IN ($devices)
    GROUP BY device, day_number, disk, unit, cause, culprit
),
summed AS (
    SELECT device, cause, culprit, sum(stalled_ms) AS stalled_ms
    FROM once
    GROUP BY device, cause, culprit
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY device ORDER BY stalled_ms DESC, cause DESC, culprit DESC) AS place,
        sum(stalled_ms) OVER (PARTITION BY device) AS stalled_ms_in_all
    FROM summed
)
SELECT device, cause, culprit, CAST(stalled_ms AS BIGINT) AS stalled_ms, CAST(stalled_ms_in_all AS BIGINT) AS stalled_ms_in_all
FROM ranked
WHERE place = 1
ORDER BY device

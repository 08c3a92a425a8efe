-- The causes of stalls in the window: who was blocked, why, and behind whom.
WITH once AS (
    SELECT device, day_number, disk, unit, cause, culprit, max(stalls) AS stalls, max(stalled_ms) AS stalled_ms
    FROM stalls_raw
    WHERE day_number > $last_day - 7 * $weeks AND day_number <= $last_day AND stalls >= 0 AND stalled_ms >= 0
    GROUP BY device, day_number, disk, unit, cause, culprit
)
SELECT unit, cause, culprit, count(DISTINCT device) AS devices, CAST(sum(stalls) AS BIGINT) AS stalls,
    CAST(sum(stalled_ms) AS BIGINT) AS stalled_ms
FROM once
GROUP BY unit, cause, culprit
ORDER BY stalled_ms DESC, unit, cause, culprit
LIMIT 20

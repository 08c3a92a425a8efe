-- The units that wrote most in the window: candidates for comparisons. A unit must be on at least 20 devices.
WITH counted AS (
    SELECT unit, count(DISTINCT device) AS devices, CAST(sum(written_bytes) AS BIGINT) AS written_bytes
    FROM units_raw
    WHERE unit IS NOT NULL AND written_bytes >= 0 AND day_number > $last_day - 7 * $weeks AND day_number <= $last_day
    GROUP BY unit
)
SELECT unit, devices, written_bytes
FROM counted
ORDER BY written_bytes DESC, unit
LIMIT 40

-- The size of the fleet, in all and in the window (the last $weeks weeks).
SELECT
    count(DISTINCT device) AS devices,
    count(DISTINCT CASE WHEN week >= -$weeks THEN device END) AS devices_now,
    CAST(sum(days) AS BIGINT) AS device_days,
    CAST(sum(CASE WHEN week >= -$weeks THEN days ELSE 0 END) AS BIGINT) AS device_days_now,
    CAST(sum(written_bytes) AS BIGINT) AS written_bytes,
    CAST(sum(CASE WHEN week >= -$weeks THEN written_bytes ELSE 0 END) AS BIGINT) AS written_bytes_now
FROM weeks

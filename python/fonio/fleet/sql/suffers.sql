-- Devices with at least one stall a day on average in the window, by attributes.
SELECT model, kernel, os, disk_model, disk_firmware, disk_made, count(*) AS devices,
    CAST(sum(CASE WHEN CAST(stalls AS DOUBLE) * 86400 >= watched_s THEN 1 ELSE 0 END) AS BIGINT) AS suffering,
    CAST(sum(stalls) AS BIGINT) AS stalls, CAST(sum(stalled_ms) AS BIGINT) AS stalled_ms,
    CAST(sum(watched_s) AS BIGINT) AS watched_s
FROM period
GROUP BY model, kernel, os, disk_model, disk_firmware, disk_made
ORDER BY model, kernel, os, disk_model, disk_firmware, disk_made

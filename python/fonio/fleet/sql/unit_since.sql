-- As `since`, for the bytes written by the unit $unit.
SELECT week, model, kernel, os, disk_model, disk_firmware, disk_made, CASE WHEN $factor = $level THEN 1 ELSE 0 END AS is_level,
    CAST(floor(ln(CAST(written_bytes AS DOUBLE) * 86400 / watched_s + 1048576) * 92.33248261893424 + 0.000001) AS INT) AS bin,
    count(*) AS devices
FROM unit_weeks
WHERE unit = $unit AND key_min = key_max
GROUP BY week, model, kernel, os, disk_model, disk_firmware, disk_made, CASE WHEN $factor = $level THEN 1 ELSE 0 END,
    CAST(floor(ln(CAST(written_bytes AS DOUBLE) * 86400 / watched_s + 1048576) * 92.33248261893424 + 0.000001) AS INT)
ORDER BY week, model, kernel, os, disk_model, disk_firmware, disk_made, is_level, bin

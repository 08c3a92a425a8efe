-- As `values`, for the bytes that each unit wrote a day, plus a MiB, so that small writers do not make large ratios.
WITH summed AS (
    SELECT
        u.device, u.unit, max(u.model) AS model, max(u.kernel) AS kernel, max(u.os) AS os, max(u.disk_model) AS disk_model,
        max(u.disk_firmware) AS disk_firmware, max(u.disk_made) AS disk_made,
        ln(CAST(sum(u.written_bytes) AS DOUBLE) * 86400 / sum(u.watched_s) + 1048576) AS value
    FROM unit_weeks AS u
    JOIN period AS p ON p.device = u.device AND p.present_key = u.key_min
    WHERE u.week >= -$weeks AND u.key_min = u.key_max
    GROUP BY u.device, u.unit
    HAVING sum(u.watched_s) >= 86400
)
SELECT device, model, kernel, os, disk_model, disk_firmware, disk_made, concat('bytes written by ', unit) AS measure,
    CAST(floor(value * 92.33248261893424 + 0.000001) AS INT) AS bin
FROM summed

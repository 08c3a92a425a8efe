-- The measures of each device in the window, as bins: 64 bins are a factor of two. A mean of fewer than 200 requests is
-- unknown. Stalled time is in milliseconds a day, plus a second, so that a device without stalls has a value too.
WITH long AS (
    SELECT
        p.device, p.model, p.kernel, p.os, p.disk_model, p.disk_firmware, p.disk_made, m.measure,
        CASE m.measure
            WHEN 'read time' THEN CASE WHEN p.reads >= 200 AND p.read_us > 0 THEN ln(CAST(p.read_us AS DOUBLE) / p.reads) END
            WHEN 'write time' THEN CASE WHEN p.writes >= 200 AND p.write_us > 0 THEN ln(CAST(p.write_us AS DOUBLE) / p.writes) END
            WHEN 'flush time' THEN CASE WHEN p.flushes >= 200 AND p.flush_us > 0 THEN ln(CAST(p.flush_us AS DOUBLE) / p.flushes) END
            WHEN 'stalled time' THEN ln(CAST(p.stalled_ms AS DOUBLE) * 86400 / p.watched_s + 1000)
            WHEN 'written bytes' THEN CASE WHEN p.written_bytes > 0 THEN ln(CAST(p.written_bytes AS DOUBLE) * 86400 / p.watched_s) END
        END AS value
    FROM period AS p
    CROSS JOIN (
        VALUES ('read time'), ('write time'), ('flush time'), ('stalled time'), ('written bytes')
    ) AS m (measure)
)
SELECT device, model, kernel, os, disk_model, disk_firmware, disk_made, measure,
    CAST(floor(value * 92.33248261893424 + 0.000001) AS INT) AS bin
FROM long
WHERE value IS NOT NULL

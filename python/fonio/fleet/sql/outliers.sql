-- Devices far above all others of their model and disk model: more than four times the distance between the quartiles
-- above the upper quartile. This distance counts as half an octave (32 bins) at least, so an outlier has four times the
-- upper quartile or more. Stalls are rare, so their distribution has a long tail, and the distance counts as three quarters
-- of an octave. Groups of fewer than 20 devices have no outliers.
--   $table  the values of devices: `device_values`, `result_values` or `result_changes`
WITH grouped AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY model, disk_model, measure ORDER BY bin, device) AS place,
        count(*) OVER (PARTITION BY model, disk_model, measure) AS devices
    FROM $table
),
quartiles AS (
    SELECT
        model, disk_model, measure,
        max(CASE WHEN place = CAST(ceil(devices * 0.25) AS BIGINT) THEN bin END) AS lower,
        max(CASE WHEN place = CAST(ceil(devices * 0.5) AS BIGINT) THEN bin END) AS median,
        max(CASE WHEN place = CAST(ceil(devices * 0.75) AS BIGINT) THEN bin END) AS upper,
        max(devices) AS devices
    FROM grouped
    GROUP BY model, disk_model, measure
)
SELECT g.device, g.measure, g.model, g.kernel, g.os, g.disk_model, g.disk_firmware, g.disk_made, g.bin, q.median, q.devices
FROM grouped AS g
JOIN quartiles AS q ON q.model = g.model AND q.disk_model = g.disk_model AND q.measure = g.measure
WHERE q.devices >= 20 AND g.bin > q.upper + 4 * greatest(q.upper - q.lower, CASE WHEN g.measure = 'stalled time' THEN 48 ELSE 32 END)
ORDER BY g.bin - q.median DESC, g.device, g.measure
LIMIT 100

-- The last value of each device and quantity of StoreBench, as bins (64 bins are a factor of two). Only values with the same
-- comparison key are compared, so the key is a part of the measure.
WITH ranked AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY device, comparison, quantity ORDER BY began_s DESC, disk_model DESC) AS place
    FROM checked_results
    WHERE refused IS NULL
)
SELECT device, model, kernel, os, disk_model, disk_firmware, disk_made,
    concat('StoreBench ', quantity, ' (', comparison, ')') AS measure,
    CAST(floor(ln(cost) * 92.33248261893424 + 0.000001) AS INT) AS bin
FROM ranked
WHERE place = 1

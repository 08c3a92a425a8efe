-- How a device changed from its first to its last run of StoreBench with the same disk and the same comparison key, as bins.
WITH ranked AS (
    SELECT
        *,
        row_number() OVER same_disk_last AS from_last,
        row_number() OVER same_disk_first AS from_first,
        max(began_s) OVER (PARTITION BY device, comparison, quantity) AS latest_s
    FROM checked_results
    WHERE refused IS NULL
    WINDOW
        same_disk_last AS (PARTITION BY device, comparison, quantity, disk_model, disk_made ORDER BY began_s DESC),
        same_disk_first AS (PARTITION BY device, comparison, quantity, disk_model, disk_made ORDER BY began_s)
)
SELECT a.device, a.model, a.kernel, a.os, a.disk_model, a.disk_firmware, a.disk_made,
    concat('change of the StoreBench ', a.quantity, ' (', a.comparison, ')') AS measure,
    CAST(floor((ln(a.cost) - ln(b.cost)) * 92.33248261893424 + 0.500001) AS INT) AS bin
FROM ranked AS a
JOIN ranked AS b
    ON b.device = a.device AND b.comparison = a.comparison AND b.quantity = a.quantity AND b.disk_model = a.disk_model
        AND b.disk_made = a.disk_made
WHERE a.from_last = 1 AND b.from_first = 1 AND a.began_s > b.began_s AND a.began_s = a.latest_s

-- The median of the last values of devices, by disk model, comparison key and quantity of StoreBench.
WITH ranked AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY device, comparison, quantity ORDER BY began_s DESC, disk_model DESC) AS place
    FROM checked_results
    WHERE refused IS NULL
),
numbered AS (
    SELECT
        disk_model, comparison, quantity, value,
        row_number() OVER (PARTITION BY disk_model, comparison, quantity ORDER BY value, device) AS place,
        count(*) OVER (PARTITION BY disk_model, comparison, quantity) AS devices
    FROM ranked
    WHERE place = 1
)
SELECT disk_model, comparison, quantity, devices, value AS median
FROM numbered
WHERE place = CAST(ceil(devices * 0.5) AS BIGINT)
ORDER BY devices DESC, disk_model, comparison, quantity

-- The rows of `results_raw` whose figures are compared, each with the reason why it is left out; NULL if it is used. Of several
-- rows for one device, run and figure, one counts. A larger `cost` is worse: a rate counts as the time for a byte.
--   $today        the present day, in days since 1970-01-01
--   $first_valid  the first day that a clock can show if it is set
WITH judged AS (
    SELECT
        *,
        CASE figure
            WHEN 'response.rand_read.4k.mean' THEN 'random read time'
            WHEN 'response.rand_write.4k.mean' THEN 'random write time'
            WHEN 'sync.write.4k.p50' THEN 'synchronous write time'
            WHEN 'sustained.last' THEN 'long write time'
        END AS quantity,
        CASE
            WHEN device IS NULL OR device = '' OR comparison IS NULL OR began_s IS NULL THEN 'no-name'
            WHEN day_number IS NULL OR day_number < $first_valid OR day_number > $today + 1 THEN 'wrong-clock'
            -- No request is shorter than a nanosecond, and no figure is larger than a disk. Not a number is larger than all.
            WHEN value IS NULL OR value < 0.000001 OR value > 10000000000000 THEN 'impossible-figure'
        END AS reason
    FROM results_raw
),
numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY device, began_s, comparison, quantity
            ORDER BY CASE WHEN reason IS NULL THEN 0 ELSE 1 END, value DESC, disk_model DESC, kernel DESC, os DESC
        ) AS copy
    FROM judged
    WHERE quantity IS NOT NULL
)
SELECT
    device,
    began_s,
    day_number,
    comparison,
    coalesce(replace(model, '|', '/'), '?') AS model,
    coalesce(replace(kernel, '|', '/'), '?') AS kernel,
    coalesce(replace(os, '|', '/'), '?') AS os,
    coalesce(replace(disk_model, '|', '/'), '?') AS disk_model,
    coalesce(replace(disk_firmware, '|', '/'), '?') AS disk_firmware,
    coalesce(replace(disk_made, '|', '/'), '?') AS disk_made,
    quantity,
    value,
    CASE WHEN figure <> 'sustained.last' THEN value WHEN value > 0 THEN 1 / value END AS cost,
    CASE WHEN reason IS NULL AND copy > 1 THEN 'duplicate' ELSE reason END AS refused
FROM numbered

-- When each disk will be worn out, by its life time register, as days since 1970 (earliest and latest).
-- The register shows the upper end of a step of 10 %. When it rises to P, P - 10 percent are used. Two rises give the
-- rate between them. One rise, or none, gives a rate since the month of manufacture; without it, the date is unknown.
WITH named AS (
    SELECT
        device, disk, disk_model, disk_made, life_used_percent, first_day, last_day
    FROM weeks
    WHERE life_used_percent IS NOT NULL AND life_used_percent > 0
),
steps AS (
    SELECT device, disk, disk_model, disk_made, life_used_percent, min(first_day) AS began, max(last_day) AS ended
    FROM named
    GROUP BY device, disk, disk_model, disk_made, life_used_percent
),
numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY device, disk, disk_model, disk_made ORDER BY life_used_percent) AS place,
        row_number() OVER (PARTITION BY device, disk, disk_model, disk_made ORDER BY life_used_percent DESC) AS place_from_last
    FROM steps
),
disks AS (
    SELECT
        device, disk, disk_model,
        -- The month of manufacture, MM/YYYY, in days since 1970, in months of 30.4375 days.
        CASE WHEN length(disk_made) = 7 AND substr(disk_made, 3, 1) = '/'
            THEN (CAST(substr(disk_made, 4, 4) AS INT) - 1970) * 365.25 + (CAST(substr(disk_made, 1, 2) AS INT) - 1) * 30.4375 END AS made_day,
        max(CASE WHEN place_from_last = 1 THEN life_used_percent END) AS used,
        max(CASE WHEN place_from_last = 1 THEN began END) AS last_rise,
        max(CASE WHEN place = 2 THEN life_used_percent END) AS first_rise_to,
        max(CASE WHEN place = 2 THEN began END) AS first_rise,
        max(ended) AS ended,
        count(*) AS levels
    FROM numbered
    GROUP BY device, disk, disk_model, disk_made
),
rated AS (
    SELECT
        *,
        CASE
            WHEN levels >= 3 AND last_rise > first_rise THEN CAST(used - first_rise_to AS DOUBLE) / (last_rise - first_rise)
            WHEN levels = 2 AND used > 10 AND last_rise > made_day THEN CAST(used - 10 AS DOUBLE) / CAST(last_rise - made_day AS DOUBLE)
            WHEN levels = 1 AND ended > made_day THEN CAST(used AS DOUBLE) / CAST(ended - made_day AS DOUBLE)
        END AS fast,
        CASE
            WHEN levels >= 3 AND last_rise > first_rise THEN CAST(used - first_rise_to AS DOUBLE) / (last_rise - first_rise)
            WHEN levels = 2 AND used > 10 AND last_rise > made_day THEN CAST(used - 10 AS DOUBLE) / CAST(last_rise - made_day AS DOUBLE)
            WHEN levels = 1 AND ended > made_day THEN CAST(used - 10 AS DOUBLE) / CAST(ended - made_day AS DOUBLE)
        END AS slow
    FROM disks
),
dated AS (
    SELECT
        device, disk, disk_model, used,
        -- From a rise, the used part is known; without one, it is between used - 10 and used.
        CASE WHEN used > 100 THEN ended
            WHEN fast > 0 THEN CAST(floor(CASE WHEN levels >= 2 THEN last_rise + (110 - used) / fast ELSE ended + (100 - used) / fast END) AS INT)
        END AS earliest,
        CASE WHEN used > 100 THEN ended
            WHEN slow > 0 THEN CAST(floor(CASE WHEN levels >= 2 THEN last_rise + (110 - used) / slow ELSE ended + (110 - used) / slow END) AS INT)
        END AS latest
    FROM rated
)
SELECT
    disk_model, earliest, latest, count(*) AS disks, CAST(sum(CASE WHEN used > 100 THEN 1 ELSE 0 END) AS BIGINT) AS worn
FROM dated
GROUP BY disk_model, earliest, latest
ORDER BY earliest, latest, disk_model

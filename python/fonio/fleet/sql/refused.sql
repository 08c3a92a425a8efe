-- How many rows are left out, by reason, with an example; the row without a reason has the bounds of the days in use.
SELECT
    refused,
    count(*) AS row_count,
    count(DISTINCT device) AS devices,
    min(device) AS example,
    min(day_number) AS first_day,
    max(day_number) AS last_day
FROM checked_days
GROUP BY refused
ORDER BY refused

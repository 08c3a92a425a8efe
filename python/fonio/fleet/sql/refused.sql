-- How many rows of each day are used, and how many are left out, by reason, with an example.
SELECT refused, day_number, count(*) AS row_count, min(device) AS example
FROM checked_days
GROUP BY refused, day_number
ORDER BY refused, day_number

-- How many rows of results are left out, by reason, with an example.
SELECT refused, count(*) AS row_count, min(device) AS example
FROM checked_results
WHERE refused IS NOT NULL
GROUP BY refused
ORDER BY refused

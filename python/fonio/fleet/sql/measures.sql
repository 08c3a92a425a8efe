-- The measures, with the number of their values.
SELECT measure, count(*) AS value_count FROM measured GROUP BY measure ORDER BY measure

-- The number of devices in each bin of the measures $measures, by all attributes.
SELECT model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin, count(*) AS devices
FROM measured
WHERE measure IN ($measures)
GROUP BY model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin
ORDER BY model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin

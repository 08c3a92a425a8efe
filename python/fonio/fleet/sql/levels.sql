-- The number of devices in each bin of each measure, by all attributes.
SELECT model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin, count(*) AS devices
FROM device_values
GROUP BY model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin
ORDER BY model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin

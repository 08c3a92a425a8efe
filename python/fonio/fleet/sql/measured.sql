-- All values of devices that are compared between devices.
SELECT model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin FROM device_values
UNION ALL
SELECT model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin FROM unit_values
UNION ALL
SELECT model, kernel, os, disk_model, disk_firmware, disk_made, measure, bin FROM result_values

# Prints the mean time of an order in milliseconds, after waiting for $1 seconds.
from=$(date +%s)
sleep $1
awk -v from="$from" '$1 >= from { sum += $2; count++ } END { if (count) printf "%.1f\n", 1000 * sum / count }' /run/orders.log

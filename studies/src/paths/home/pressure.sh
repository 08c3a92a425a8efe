# Prints for how many milliseconds in a second MariaDB, Mosquitto and Home Assistant waited for storage, by the kernel's
# own measure, in the next $1 seconds.
total() {
    for name in mariadb mosquitto home-assistant; do
        sed -n 's/^some .*total=//p' /sys/fs/cgroup/system.slice/$name.service/io.pressure
    done | awk '{ sum += $1 } END { print sum }'
}
before=$(total)
sleep $1
echo "$before $(total) $1" | awk '{ printf "%.1f\n", ($2 - $1) / 1000 / $3 }'

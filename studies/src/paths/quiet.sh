# Prints the settings and files of a machine that fonio could change. `before` and `after` must be equal.
sort /proc/mounts
losetup --all 2>/dev/null || cat /sys/block/loop*/loop/backing_file 2>/dev/null
for file in /sys/block/*/queue/* /sys/block/*/bdi/* /proc/sys/vm/*; do
    [ -f $file ] && [ -r $file ] || continue
    # Commands, and files whose content follows the free memory or other figures of the moment.
    case $file in */compact_memory|*/drop_caches|*/stat_refresh|*/io_timeout|*/wbt_lat_usec|*/bdi/max_bytes|*/bdi/min_bytes) continue;; esac
    echo "$file $(cat $file 2>/dev/null)"
done
# fonio keeps recordings of checks, which it names.
find /etc /var/lib/fonio -type f ! -path '/var/lib/fonio/checks/*' 2>/dev/null | sort | xargs -r sha256sum
ls -A /sys/kernel/tracing/instances 2>/dev/null
systemctl list-units --all --plain --no-legend --type=service 2>/dev/null | grep -i fonio
true

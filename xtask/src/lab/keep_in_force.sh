grep -q enable=1 /sys/fs/cgroup/io.cost.qos && echo io.cost is on
findmnt -n -o OPTIONS /mnt/card
cat /sys/block/$(basename $(readlink -f $DISK))/queue/scheduler
cat /proc/sys/vm/swappiness /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_background_bytes /proc/sys/vm/dirty_ratio
systemctl is-enabled fstrim.timer
systemctl is-active fstrim.timer
sleep 2
test -e /run/log/journal/$(cat /etc/machine-id)/system.journal && echo the journal is in memory
systemd-analyze cat-config systemd/journald.conf | grep -v '^#' | grep = | sort -u
swapon --show=TYPE,SIZE,PRIO --noheadings | tr -s ' '
of() { findmnt -n -o TARGET,FSTYPE $1 | tr -s ' ' | tr '\n' ' '; shift; systemctl is-active $* | tr '\n' ' '; echo; }
of /srv/logs fonio-folder-in-ram-srv-logs.service fonio-folder-in-ram-srv-logs.timer
of /srv/app
of /srv/hot
of /srv/files fonio-bfuse-srv-files.service
systemctl show --property=IOWeight --property=IOSchedulingClass --property=IOReadBandwidthMax backup.service

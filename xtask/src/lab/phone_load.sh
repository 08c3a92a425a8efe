# The load of two apps: one writes and syncs, one reads.
set -eu
as() { setpriv --reuid "$1" --regid "$1" --clear-groups "$2" --name=load --directory="/data/data/$3" --size=4M --bs=16k "$4" "$5" "$6" --output=/dev/null; }
as 10101 notes com.example.notes --rw=randwrite --number_ios=60 --fsync=1
as 10102 maps com.example.maps --rw=randread --number_ios=200 --direct=1
sync -f /data
sleep 3

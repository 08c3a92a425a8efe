# Publishes two readings a second, which Mosquitto stores and Home Assistant records.
number=0
while :; do
    number=$((number + 1))
    echo $number
    sleep 0.5
done | mosquitto_pub -t home/power -q 1 -r -l

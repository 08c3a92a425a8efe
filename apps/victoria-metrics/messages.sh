# Makes $1 messages of 200 values each. Their times are 30 s apart; the first message is two days old.
mkdir /tmp/messages
awk -v count="$1" -v start="$(($(date +%s) - 172800))" 'BEGIN {
    for (message = 1; message <= count; message++) {
        file = "/tmp/messages/" message
        for (sensor = 0; sensor < 200; sensor++)
            printf "home_value{room=\"room %d\",sensor=\"s%d\"} %.1f %d000\n", sensor / 10, sensor,
                20 + sensor % 7 + 5 * sin(message / 200 + sensor), start + 30 * message >file
        close(file)
    }
}'

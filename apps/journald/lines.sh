# Prints $1 lines as programs do, of about 100 bytes.
awk -v count="$1" 'BEGIN {
    for (i = 1; i <= count; i++)
        printf "request %d of client 192.168.0.%d took %d ms: GET /api/states/sensor.%d HTTP/1.1 200 %d bytes\n", i, i % 250, i * 7 % 90, i % 300, i * 31 % 5000
}'

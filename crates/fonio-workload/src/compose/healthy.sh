# Waits until the service $1 is healthy: $2 seconds at most, with pauses of $3 seconds between checks that take $4 seconds at most.
end=$(($(date +%s) + $2))
until timeout "$4" sh "$FILES/$1.check.sh" >"$RUN/$1.check.log" 2>&1; do
    if test "$(date +%s)" -ge "$end"; then
        echo "$1 was not healthy within $2 s. Its health check said:"
        test -s "$RUN/$1.check.log" || echo "(nothing)"
        tail -n 5 "$RUN/$1.check.log" | cut -c 1-200
        echo "The last lines of $1:"
        tail -n 5 "$RUN/$1.log" | cut -c 1-200
        exit 1
    fi
    sleep "$3"
done

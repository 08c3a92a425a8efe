(while :; do sync -f "$FONIO_MOUNT"; sleep 0.02; done) &
other=$!
i=0
while [ $i -lt $TURNS ]; do
    i=$((i + 1))
    row=$((i * 37 % 740))
    echo "BEGIN;
        UPDATE left_side SET turn = $i, filling = randomblob(1800) WHERE id BETWEEN $row AND $row + 10;
        UPDATE right_side SET turn = $i, filling = randomblob(1800) WHERE id BETWEEN $row AND $row + 10;
        COMMIT;"
done | sqlite3 -bail -cmd "PRAGMA journal_mode=TRUNCATE" -cmd "PRAGMA synchronous=$SYNC" \
    "$FONIO_MOUNT/database" > "$FONIO_MOUNT/said"
kill $other

database="$FONIO_MOUNT/database"
integrity=$(sqlite3 "$database" "PRAGMA integrity_check" 2>&1)
[ "$integrity" = ok ] || { echo "$integrity" >&2; exit 1; }
torn=$(sqlite3 "$database" "SELECT count(*) FROM left_side JOIN right_side USING (id)
    WHERE left_side.turn <> right_side.turn")
[ "$torn" = 0 ] || { echo "$torn rows of half a transaction" >&2; exit 2; }

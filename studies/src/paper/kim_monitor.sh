# Measures what recording costs a program: the time of SQLite's shell without and with fonio's recorder, in turns.
# Usage: sh kim_monitor.sh FONIO FOLDER ROUNDS. Prints `ROUND without|with NANOSECONDS`.
set -e
fonio=$1; out=$2; rounds=$3
cd "$FONIO_MOUNT"
cat >"$out/work.sh" <<'END'
rm -f notes.db notes.db-journal
sync
began=$(date +%s%N)
sqlite3 notes.db <"$1/statements.sql"
echo $(($(date +%s%N) - began)) >"$1/took"
END
{
    echo 'CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);'
    for id in $(seq 150); do echo "INSERT INTO note VALUES ($id, 'note number $id of a user');"; done
} >"$out/statements.sql"
without() {
    sh "$out/work.sh" "$out"
    echo "$1 without $(cat "$out/took")"
}
with() {
    "$fonio" record --overwrite -o "$out/recording" -- sh "$out/work.sh" "$out" >/dev/null 2>"$out/errors" ||
        { cat "$out/errors" >&2; exit 1; }
    echo "$1 with $(cat "$out/took")"
}
sh "$out/work.sh" "$out"
for round in $(seq "$rounds"); do
    if [ $((round % 2)) = 0 ]; then without "$round"; with "$round"; else with "$round"; without "$round"; fi
done

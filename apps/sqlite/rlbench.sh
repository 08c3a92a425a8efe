# Runs one of RLBench's tests in SQLite's shell: rlbench.sh FILES TEST NUMBER
set -e
perl "$1/rlbench.pl" "$2" "$3" >/tmp/statements.sql
exec sqlite3 -bail app.db </tmp/statements.sql >/dev/null

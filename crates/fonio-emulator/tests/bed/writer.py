import sqlite3, sys
path, journal, level, checkpoint = sys.argv[1:5]
db = sqlite3.connect(path, isolation_level=None)
db.execute('PRAGMA journal_mode=' + journal)
db.execute('PRAGMA synchronous=' + level)
db.execute('PRAGMA wal_autocheckpoint=' + checkpoint)
turn = 0
while True:
    turn += 1
    row = turn * 37 % 290
    db.execute('BEGIN IMMEDIATE')
    for side in ('left_side', 'right_side'):
        db.execute('UPDATE %s SET turn=?, filling=randomblob(1800) WHERE id BETWEEN ? AND ?' % side, (turn, row, row + 1))
    db.execute('INSERT INTO done VALUES (?)', (turn,))
    db.execute('COMMIT')
    print(turn, flush=True)
    if not sys.stdin.readline():
        break

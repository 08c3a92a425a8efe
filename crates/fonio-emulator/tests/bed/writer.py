import os, random, sqlite3, sys, time
path, journal, level, checkpoint, plain_sync = sys.argv[1:6]
db = sqlite3.connect(path, isolation_level=None)
db.execute('PRAGMA journal_mode=' + journal)
db.execute('PRAGMA synchronous=' + level)
db.execute('PRAGMA wal_autocheckpoint=' + checkpoint)
folder = os.path.dirname(path)
sync = os.fsync if plain_sync == 'sync' else lambda fd: None

def replace(turn):
    """Replaces a settings file, as editors do."""
    new = os.path.join(folder, 'data.conf.new')
    with open(new, 'w') as file:
        file.write('turn %d\n' % turn * 700)
        file.flush()
        sync(file.fileno())
    os.rename(new, os.path.join(folder, 'data.conf'))
    fd = os.open(folder, os.O_RDONLY)
    sync(fd)
    os.close(fd)

def append(turn):
    """Appends a line to a log file."""
    with open(os.path.join(folder, 'data.log'), 'a') as file:
        file.write('%08d %s\n' % (turn, 'x' * 500))
        file.flush()
        sync(file.fileno())

turn = plain = 0
next_plain = time.monotonic() + 0.02
while True:
    turn += 1
    row = turn * 37 % 290
    db.execute('BEGIN IMMEDIATE')
    for side in ('left_side', 'right_side'):
        db.execute('UPDATE %s SET turn=?, filling=randomblob(1800) WHERE id BETWEEN ? AND ?' % side, (turn, row, row + 1))
    db.execute('INSERT INTO done VALUES (?)', (turn,))
    db.execute('COMMIT')
    if time.monotonic() > next_plain:
        plain += 1
        append(plain)
        replace(plain)
        next_plain = time.monotonic() + random.uniform(0.02, 0.3)
    print(turn, plain, flush=True)
    if not sys.stdin.readline():
        break

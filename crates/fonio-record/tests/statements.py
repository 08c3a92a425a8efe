import os, sqlite3, sys, threading, time
folder = sys.argv[1]
def work(n):
    db = sqlite3.connect(f'{folder}/{n}.db', isolation_level=None)
    db.execute('PRAGMA journal_mode=WAL')
    db.execute(f'CREATE TABLE t{n}(x)')
    insert = f'INSERT INTO t{n} VALUES (?)'
    db.execute(insert, (0,))
    open(f'{folder}/ready{n}', 'w').close()
    while not os.path.exists(f'{folder}/go'):
        time.sleep(0.02)
    for x in range(20):
        db.execute(insert, (x,))
    db.execute('BEGIN IMMEDIATE')
    db.executemany(insert, [(x,) for x in range(100)])
    db.execute(f'UPDATE t{n} SET x = x + 1')
    db.execute('COMMIT')
    db.close()
threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]

import sqlite3, sys, time
rows = int(sys.argv[1])
db = sqlite3.connect(':memory:', isolation_level=None)
db.execute('CREATE TABLE t(x)')
db.execute('BEGIN')
values = [(x,) for x in range(rows)]
db.executemany('INSERT INTO t VALUES (?)', values[:1000])
began = time.perf_counter_ns()
db.executemany('INSERT INTO t VALUES (?)', values)
took = time.perf_counter_ns() - began
db.execute('COMMIT')
open(sys.argv[2], 'w').write(str(took))

import duckdb, json, sys
connection = duckdb.connect()
for number, block in enumerate(json.load(open(sys.argv[1])), 1):
    try:
        rows = connection.execute(block).fetchall()
    except Exception as error:
        sys.exit(f"block {number}: {error}\n{block}")
    print(f"block {number}: {len(rows)} rows")
    if not rows:
        sys.exit(f"block {number} finds nothing\n{block}")
    for row in rows[:2]:
        print("   ", *(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row), sep=" | ")

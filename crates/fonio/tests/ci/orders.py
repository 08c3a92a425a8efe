"""A test suite that places ten orders in a database. With DELETE as its argument, without a write-ahead log."""
import os, sqlite3, sys

mode = sys.argv[1] if len(sys.argv) > 1 else "WAL"
shop = sqlite3.connect("shop.db", isolation_level=None)
shop.execute(f"PRAGMA journal_mode={mode}")
shop.execute("CREATE TABLE orders(item, pieces)")
for order in range(10):
    shop.execute("INSERT INTO orders VALUES (?, ?)", ("apple", order))
    print("order placed")
with open(f"bill-{os.getpid()}.txt", "w") as bill:
    bill.write("ten orders\n")
os.remove(bill.name)
shop.close()
os.remove("shop.db")

"""A small shop: the module that the test suite tests."""

import sqlite3


class Shop:
    def __init__(self, path):
        self.db = sqlite3.connect(path)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, item TEXT, pieces INTEGER)")
        self.db.commit()

    def order(self, basket):
        for item, pieces in basket.items():
            self.db.execute("INSERT INTO orders(item, pieces) VALUES (?, ?)", (item, pieces))
        self.db.commit()

    def pieces(self, item):
        (pieces,) = self.db.execute("SELECT total(pieces) FROM orders WHERE item = ?", (item,)).fetchone()
        return int(pieces)

    def close(self):
        self.db.close()

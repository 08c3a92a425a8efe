"""Imports notes from a text file into a database, and prints the latest ones."""

import os
import sqlite3
import sys
from datetime import datetime, timezone

FOLDER = os.path.dirname(os.path.abspath(__file__))


def open_notes():
    db = sqlite3.connect(os.path.join(FOLDER, "notes.db"))
    db.execute(
        "CREATE TABLE IF NOT EXISTS notes("
        "id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL, added TEXT NOT NULL)"
    )
    db.execute("CREATE INDEX IF NOT EXISTS by_title ON notes(title)")
    db.commit()
    return db


def add(db, title, body):
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    db.execute("INSERT INTO notes(title, body, added) VALUES (?, ?, ?)", (title, body, now))
    db.commit()


def main():
    db = open_notes()
    with open(os.path.join(FOLDER, "inbox.txt"), encoding="utf-8") as inbox:
        for line in inbox:
            title, _, body = line.strip().partition(": ")
            if title:
                add(db, title, body)
    (count,) = db.execute("SELECT count(*) FROM notes").fetchone()
    print(f"{count} notes, the latest:")
    for title, added in db.execute("SELECT title, added FROM notes ORDER BY id DESC LIMIT 3"):
        print(f"  {added}  {title}")
    db.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

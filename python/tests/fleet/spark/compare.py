"""Run by spark-submit: prints the report of Spark over a snapshot, after files were added to the fleet.

Arguments: the location, the endpoint, the day, and the text of a file to add.
"""

import datetime
import sys

from fonio.fleet import document, questions, table
from fonio.fleet.engines.spark import Spark
from fonio.fleet.store import Location

place, endpoint, today, added = sys.argv[1:]
location = Location(place, {"endpoint": endpoint})
snapshot = table.take(location)
location.write("arrived/2025-01-12/added.jsonl", added.encode())
engine = Spark()
print(
    "report:"
    + document.to_json(questions.answer(snapshot, engine, datetime.date.fromisoformat(today))).replace("\n", " ")
)
engine.close()

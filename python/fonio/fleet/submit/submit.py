"""The program for spark-submit: `spark-submit --py-files … submit.py report s3://BUCKET/FOLDER`.

It has a folder of its own, because Python searches the folder of the program first, and the modules of the package have
names of the standard library.
"""

import sys

from fonio.fleet.cli import main

words = sys.argv[1:]
if words[:1] == ["report"] and "--engine" not in words:
    words += ["--engine", "spark"]
raise SystemExit(main(words))

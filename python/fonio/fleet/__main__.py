"""Runs `python3 -m fonio.fleet`."""

from .cli import main

raise SystemExit(main())

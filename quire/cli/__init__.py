"""The `quire` command: thin over the public names.

Commands print results on standard output (tables for people, JSON with `--json`), remarks and
progress on standard error, and end with the exit codes of docs/cli.md.

Read `root.py` (the table of commands), `later.py` (imports the one that is named) and `settings.py`
(what every command shares), then the module of a command's name. `output.py`, `payloads.py` and
`streams.py` print and read, `exits.py` and `ending.py` end.

May import: everything. No other package imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from quire.errors import MissingExtraError
from quire.extras import needed_for

__all__ = ["load", "main"]

USAGE = 2
"""Exit code of requests that cannot work (exits.py, which needs click itself)."""


def load() -> Callable[..., Any]:
    """Return the command. Ends with an error that names the extra if its packages are missing."""
    try:
        with needed_for("the quire command", "cli"):
            from quire.cli.root import main as command
    except MissingExtraError as error:
        sys.stderr.write(f"quire: {error}\n")
        sys.exit(USAGE)
    return command


def main(*arguments: Any, **options: Any) -> None:
    """Run the command. Takes what a command of click takes."""
    load()(*arguments, **options)

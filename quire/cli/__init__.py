"""The `quire` command: thin over the public names.

Commands print results on standard output (tables for people, JSON with `--json`), remarks and
progress on standard error, and end with the exit codes of docs/cli.md.
"""

from quire.cli.root import main

__all__ = ["main"]

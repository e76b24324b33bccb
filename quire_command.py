"""The `quire` command before quire is loaded: Ctrl-C ends it silently from the first moment.

Loading the library takes half a second, and longer on a busy machine. Python's own handler of
Ctrl-C would print a traceback of whatever is imported. This module is outside the package, because
importing a module of the package loads the library first.

Invariant: it imports nothing but the standard library at its head.
"""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130
"""128 + SIGINT, as in quire/cli/exits.py."""


def main() -> None:
    """Load the command with Ctrl-C at the system's default, which ends the process, and run it.

    A signal that the process ignores stays ignored.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from quire.cli import load

    command = load()
    signal.signal(signal.SIGINT, handler)
    try:
        command()
    except KeyboardInterrupt:  # it came before the command's own handling
        sys.exit(INTERRUPTED)

"""How errors become the process's answer: one line on stderr, and an exit code per family.

The codes are documented in docs/cli.md, "Exit codes"; scripts branch on them. Nothing here prints a
traceback: the text of each error that quire raises on purpose names the remedy, or remedies.py adds
it. With --json the line is an object, on stderr all the same: stdout has results only.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn

import click

from quire.cli import streams
from quire.cli.remedies import remedy
from quire.errors import (
    ClosedError,
    ConflictError,
    IntegrityError,
    InvalidRequestError,
    LeadershipLostError,
    NotFoundError,
    OutcomeUnknownError,
    QuireError,
    RetryError,
    SessionExpiredError,
)

EXIT_CODES: Final[tuple[tuple[type[QuireError], int], ...]] = (
    (InvalidRequestError, 2),
    (NotFoundError, 3),
    (RetryError, 4),
    (OutcomeUnknownError, 5),
    (LeadershipLostError, 6),
    (SessionExpiredError, 6),
    (ConflictError, 7),
    (ClosedError, 8),
    (IntegrityError, 9),
    (QuireError, 1),
)
"""Exit code of each family; the first match counts."""

INTERRUPTED: Final = 130
"""128 + SIGINT, as a shell reports it."""

JSON_VARIABLE: Final = "QUIRE_JSON"
"""The variable of `--json`."""

BROKEN_PIPE: Final = 141
"""128 + SIGPIPE: the reader of our output went away."""


def exit_code(error: QuireError) -> int:
    """Return the exit code of an error."""
    return next(code for family, code in EXIT_CODES if isinstance(error, family))


class _ReaderGoneError(Exception):
    """Standard output is closed. Not an OSError, which click would answer by itself."""


@contextmanager
def _noticing_a_reader_gone() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGoneError from error


class RootGroup(click.Group):
    """The `quire` command: runs a command and turns how it ends into an exit code."""

    errors_as_json = False
    """Whether this command line, its environment or its file asks for JSON."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the command line; `--help` and `--version` print meanwhile."""
        with _noticing_a_reader_gone():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, then flush its output."""
        try:
            with _noticing_a_reader_gone():
                returned = super().invoke(ctx)
                sys.stdout.flush()
                return returned
        except KeyboardInterrupt:
            if not sys.stderr.isatty():  # click ends the line of a terminal's ^C
                raise click.Abort from None
            raise

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run and exit. `standalone_mode` is accepted for click's sake and has no effect."""
        streams.prepare()
        code = self._run(args, prog_name or "quire", complete_var, extra)
        streams.settle()
        sys.exit(code)

    def _run(
        self,
        args: Sequence[str] | None,
        prog_name: str,
        complete_var: str | None,
        extra: MutableMapping[str, Any],
    ) -> int:
        # Without a handler Python prints warnings of the library beside our one line.
        logging.getLogger("quire").addHandler(logging.NullHandler())
        self.errors_as_json = _asks_for_json(sys.argv[1:] if args is None else args)
        try:
            returned = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            # click returns the code of ctx.exit() here; commands themselves return None
            return returned if isinstance(returned, int) else 0
        except click.ClickException as error:
            if self.errors_as_json:
                return _tell(error, error.format_message(), error.exit_code, as_json=True)
            with suppress(OSError):  # standard error is closed
                error.show()
            return error.exit_code
        except QuireError as error:
            return _tell(error, str(error), exit_code(error), as_json=self.errors_as_json)
        except OSError as error:  # a file of the user's: a directory that cannot be created
            return _tell(error, str(error), exit_code(QuireError()), as_json=self.errors_as_json)
        except (KeyboardInterrupt, click.Abort):
            return INTERRUPTED
        except _ReaderGoneError:
            return BROKEN_PIPE


def _asks_for_json(args: Sequence[str]) -> bool:
    """Return whether errors are printed as JSON. Known without parsing: parsing may fail."""
    own = args[: args.index("--")] if "--" in args else args
    return "--json" in own or _is_true(os.environ.get(JSON_VARIABLE, ""))


def _is_true(value: str) -> bool:
    """Return whether a variable turns a flag on. The option itself refuses other words."""
    with suppress(click.BadParameter):
        return bool(value) and click.BOOL.convert(value, None, None)
    return False


def _tell(error: Exception, message: str, code: int, *, as_json: bool) -> int:
    """Print an error on one line of standard error, and return its exit code."""
    advice = remedy(error)
    if as_json:
        fields = {
            "error": type(error).__name__,
            "message": message,
            "remedy": advice,
            "exit_code": code,
        }
        streams.complain(json.dumps(fields))
    else:
        streams.complain(f"quire: {message}" + (f"; {advice}" if advice else ""))
    return code

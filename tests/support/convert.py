"""Convert tests that wrap a coroutine into tests that are coroutines (async_tests.py).

    python -m tests.support.convert tests/service/*.py

Only tests on virtual time whose body is `async def main()` and `run(main)` or `virtually(main)`
change. A cluster of the default size becomes the fixture `cluster`. Run `make format` afterwards.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from pathlib import Path
from typing import Final

CALLS: Final = ("run(main)", "virtually(main)")
CLUSTER: Final = "async with LogCluster() as cluster:"


def converted(text: str) -> str:
    """Return the text of a module with its tests converted."""
    lines = text.splitlines(keepends=True)
    for test in reversed(ast.parse(text).body):
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
            found = _body(test)
            if found is not None and not _has_long_text(found[0]):
                start = min([test.lineno, *(each.lineno for each in test.decorator_list)]) - 1
                decorators = lines[start : test.lineno - 1]
                lines[start : test.end_lineno] = [*decorators, _written(test, *found, lines)]
    return "".join(lines)


def _body(test: ast.FunctionDef) -> tuple[list[ast.stmt], bool] | None:
    """Return the statements of a test's coroutine, and whether they had the default cluster."""
    match test.body:
        case [*notes, ast.AsyncFunctionDef(name="main") as main, ast.Expr() as call]:
            if ast.unparse(call) not in CALLS or not all(map(_is_text, notes)):
                return None
        case _:
            return None
    match main.body:
        case [ast.AsyncWith() as whole] if ast.unparse(whole).startswith(f"{CLUSTER}\n"):
            return whole.body, True
    return main.body, False


def _has_long_text(body: list[ast.stmt]) -> bool:
    """Whether a string goes over lines: to indent it otherwise would change it."""
    texts = (each for part in body for each in ast.walk(part) if isinstance(each, ast.Constant))
    return any(
        isinstance(each.value, str) and "\n" in each.value and each.end_lineno != each.lineno
        for each in texts
    )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _written(
    test: ast.FunctionDef, body: list[ast.stmt], is_fixture: bool, lines: list[str]
) -> str:
    arguments = ast.unparse(test.args)
    if is_fixture:
        arguments = ", ".join(filter(None, ["cluster: LogCluster", arguments]))
    first = body[0].lineno - 1
    while lines[first - 1].lstrip().startswith("#"):
        first -= 1
    notes = "".join(
        line for each in test.body[:-2] for line in lines[each.lineno - 1 : each.end_lineno]
    )
    inner = textwrap.indent(textwrap.dedent("".join(lines[first : body[-1].end_lineno])), "    ")
    return f"async def {test.name}({arguments}) -> None:\n{notes}{inner}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(converted(path.read_text(encoding="utf-8")), encoding="utf-8")

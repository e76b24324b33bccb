"""Compiles modules of quire by mypyc, for wheels with `QUIRE_COMPILED=1` (hatch_build.py).

The extensions stand beside their sources in the wheel: Python takes the extension, and the source
where no extension is for it. A compiled class is laid out like one with `__slots__`, and may not
name them: a copy of the sources has them removed. docs/decisions/0068-compiled-wheels.md says which
modules are compiled, and why no others.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

MODULES: Final = (
    # What client and bookie share.
    "quire/aio/answer.py",
    "quire/aio/later.py",
    "quire/requests.py",
    "quire/run.py",
    "quire/wire/adds.py",
    "quire/wire/varint.py",
    # An append, from its call to its answer.
    "quire/ledger/ack_rule.py",
    "quire/ledger/append_steps.py",
    "quire/ledger/backlog.py",
    "quire/ledger/deadlines.py",
    "quire/ledger/ensemble.py",
    "quire/ledger/explicit_lac.py",
    "quire/ledger/forcing.py",
    "quire/ledger/pending_appends.py",
    "quire/ledger/replica_sender.py",
    "quire/ledger/run_account.py",
    "quire/ledger/window.py",
    # A run in a bookie, from its message to its answer.
    "quire/storage/direct_adds.py",
    "quire/storage/disk/blocks.py",
    "quire/storage/disk/direct_io.py",
    "quire/storage/entries/entry_memory.py",
    "quire/storage/entries/extents.py",
    "quire/storage/entries/ledger_state.py",
    "quire/storage/entries/run_path.py",
    "quire/storage/entries/stored_run.py",
    "quire/storage/entries/subjects.py",
    "quire/storage/entries/write_cache.py",
    "quire/storage/journal/queue.py",
    "quire/storage/journal/record.py",
    "quire/storage/serving/offered_run.py",
    "quire/storage/serving/stream_account.py",
    "quire/storage/serving/uses.py",
)
"""The modules that are compiled, together: calls between them are calls of C."""

MYPY: Final = """[mypy]
python_version = {version}
follow_imports = silent
ignore_missing_imports = True
platform = linux

[mypy-quire.wire.bookie_pb2,quire.gateway.rpc.*]
ignore_errors = True
"""


class UnfitModuleError(Exception):
    """A module that would not do the same once it is compiled."""


def without_slots(source: str) -> str:
    """Return a module without the `__slots__` of its classes, its other lines where they were."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        for each in node.body:
            targets = each.targets if isinstance(each, ast.Assign) else []
            if isinstance(each, ast.AnnAssign):
                targets = [each.target]
            if "__slots__" in _names(targets):
                assert each.end_lineno is not None
                first = lines[each.lineno - 1]
                indent = first[: len(first) - len(first.lstrip())]
                lines[each.lineno - 1] = f"{indent}pass\n"
                for number in range(each.lineno, each.end_lineno):
                    lines[number] = "\n"
    return "".join(lines)


def check_modules(sources: dict[str, str], modules: Collection[str] = MODULES) -> None:
    """Refuse modules that would not do the same, or would not load, once they are compiled.

    Each rule is a limit of mypyc 2.4 (docs/decisions/0068-compiled-wheels.md):

      - A module has no coroutine: compiled coroutines lost cancellations.
      - No class outside the list is below a compiled one.
      - A class with `__call__` is not below one without it: the pointer for calls stands before the
        fields of the class above, whose methods then look for each field in the place of another.
      - No protocol is checked at runtime.
      - No `raise … from`: a compiled one leaves `__cause__` out. Set it before the raise.

    Args:
        sources: all modules of quire, by their paths.
        modules: the paths of those that are compiled.

    Raises:
        UnfitModuleError: a module breaks a rule; it names the module, the rule and the remedy.
    """
    trees = {path: ast.parse(source) for path, source in sources.items()}
    for path in modules:
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.AsyncFunctionDef):
                raise UnfitModuleError(
                    f"{path}: {node.name} is a coroutine: move it to a module that is not compiled"
                )
            if isinstance(node, ast.Raise) and node.cause is not None:
                raise UnfitModuleError(
                    f"{path}:{node.lineno} raises from a cause: set __cause__ before the raise"
                )
    classes = [
        (path, node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    compiled = {node.name: node for path, node in classes if path in modules}
    for path, node in classes:
        if path in modules and "runtime_checkable" in _names(node.decorator_list):
            raise UnfitModuleError(f"{path}: {node.name} is checked at runtime: leave it out")
        for base in [compiled[name] for name in _names(node.bases) if name in compiled]:
            if path not in modules:
                raise UnfitModuleError(
                    f"{path}: {node.name} is below {base.name}, which is compiled: compile both or "
                    "neither"
                )
            if _is_callable(node) and not _is_callable(base):
                raise UnfitModuleError(
                    f"{path}: {node.name} has __call__, and {base.name} above it has not: give the "
                    "method another name, or leave the module out"
                )


def _names(nodes: Sequence[ast.expr]) -> list[str]:
    """Return the last parts of dotted names, without what stands in brackets."""
    found = []
    for node in nodes:
        plain = node.value if isinstance(node, ast.Subscript) else node
        if isinstance(plain, ast.Attribute):
            found.append(plain.attr)
        elif isinstance(plain, ast.Name):
            found.append(plain.id)
    return found


def _is_callable(node: ast.ClassDef) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name == "__call__" for each in node.body)


def compile_modules(root: Path, place: Path) -> list[Path]:
    """Compile the modules of a checkout.

    Args:
        root: the checkout; it is not changed.
        place: an empty directory; the extensions are in `made` below it.

    Returns:
        The extensions.

    Raises:
        UnfitModuleError: a module would not do the same.
        SystemExit: mypyc refused a module, and told why; or there is no C compiler.
    """
    check_modules(
        {
            str(path.relative_to(root)): path.read_text(encoding="utf-8")
            for path in sorted((root / "quire").rglob("*.py"))
        }
    )
    # Compiled last: they need what this module's other users may not have.
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext
    from setuptools.errors import CCompilerError

    source = place / "source"
    shutil.copytree(root / "quire", source / "quire", ignore=shutil.ignore_patterns("*.so"))
    for path in (source / "quire").rglob("*.py"):
        path.write_text(without_slots(path.read_text(encoding="utf-8")), encoding="utf-8")
    settings = place / "mypy.ini"
    settings.write_text(MYPY.format(version="{}.{}".format(*sys.version_info)), encoding="utf-8")
    before = Path.cwd()
    os.chdir(source)
    try:
        modules = ["--config-file", str(settings), *MODULES]
        extensions = mypycify(
            modules, opt_level="3", debug_level="0", group_name="quire", target_dir=str(place / "c")
        )
        command = build_ext(Distribution({"name": "quire", "ext_modules": extensions}))
        command.build_lib = str(place / "made")
        command.build_temp = str(place / "objects")
        command.ensure_finalized()
        command.run()
    except CCompilerError as error:
        raise SystemExit(
            f"{error}: compiled modules need a C compiler and Python's headers (python3-dev); "
            "without QUIRE_COMPILED quire needs neither"
        ) from None
    finally:
        os.chdir(before)
    return sorted((place / "made").rglob("*.so"))

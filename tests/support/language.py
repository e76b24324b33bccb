"""Ten constructions that hide the subject of a sentence, counted per 1,000 words of prose.

`python -m tests.support.language [N]` prints the rates and the N files with the most hits.
STYLE.md ("Words") says what to write in their place; tests/test_language.py holds the rates.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

CONSTRUCTIONS: dict[str, str] = {
    "who, whoever": r"\b(who|whom|whose|whoever|whomever)\b",
    "somebody, nobody": r"\b(nobody|somebody|anybody|everybody)\b",
    "he, him": r"\b(he|him|his)\b",
    "is no": r"\b(is|are|was|were|be) (no|none)\b",
    "fronted Of": r"(?:(?<=[.!?:] )|^)(Of|To it|To him|By then|With it|Of it)\b",
    "of which": r"\b(of|in|at|for|by|behind|to|from|with|on) (which|whom)\b",
    "what-clause": (
        r"\bwhat (is|was|it|they|has|comes?|came|a|the|others|follows|would|should|can|cannot"
        r"|could|may|might|must|does|did|this|these|that|waits?)\b"
    ),
    "behind": r"\bbehind\b",
    "one that": r"\b(one that|those that|that of|those of|that is one|another one)\b",
    "for ever": r"\bfor (ever|good)\b",
}

PATTERNS = {
    name: re.compile(text, re.IGNORECASE | re.MULTILINE) for name, text in CONSTRUCTIONS.items()
}
WORD = re.compile(r"[A-Za-z']+")
QUOTED = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)

DOCUMENTS = ("docs/**/*.md", "tutorial/**/*.md", "examples/**/*.md", "spec/*.md", "*.md")
SAID = frozenset({"help", "short_help", "epilog"})
"""Keyword arguments whose text a user of the command reads."""


@dataclass(frozen=True)
class Prose:
    """The text of one file that a person reads, without `code` in back quotes."""

    path: Path
    text: str

    @property
    def words(self) -> int:
        return len(WORD.findall(self.text))

    def hits(self) -> dict[str, int]:
        return {name: len(pattern.findall(self.text)) for name, pattern in PATTERNS.items()}


def rate(files: list[Prose]) -> float:
    """Hits per 1,000 words over all files together."""
    total = sum(file.words for file in files)
    return 1000 * sum(sum(file.hits().values()) for file in files) / max(total, 1)


@cache
def code() -> list[Prose]:
    """Docstrings and comments of the package."""
    return [Prose(path, without_code("\n".join(_prose(path)))) for path in _sources()]


@cache
def messages() -> list[Prose]:
    """What the program says: texts of errors and of `--help`."""
    return [Prose(path, without_code("\n".join(_messages(path)))) for path in _sources()]


@cache
def documents() -> list[Prose]:
    """Every page for readers, the style guide included; the changelog and this list excluded."""
    paths = sorted({path for glob in DOCUMENTS for path in ROOT.glob(glob)})
    texts = [(path, path.read_text(encoding="utf-8")) for path in paths]
    return [Prose(path, without_code(text)) for path, text in texts if path.name != "CHANGELOG.md"]


def _sources() -> list[Path]:
    return [path for path in sorted(ROOT.glob("quire/**/*.py")) if "_pb2" not in path.name]


def _prose(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield from _literals(node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def _messages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                yield "".join(_literals(argument))
        elif isinstance(node, ast.keyword) and node.arg in SAID:
            yield "".join(_literals(node.value))


def _literals(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value


def without_code(text: str) -> str:
    """Return prose without its blocks and spans of code."""
    return QUOTED.sub("", text)


def main(worst: int) -> None:
    for name, files in (("code", code()), ("messages", messages()), ("documents", documents())):
        counts = {key: sum(file.hits()[key] for file in files) for key in PATTERNS}
        print(f"{name}: {rate(files):.1f} per 1,000 of {sum(file.words for file in files)} words")
        print("  " + ", ".join(f"{key} {count}" for key, count in counts.items()))
        ranked = sorted(files, key=lambda file: (-sum(file.hits().values()), str(file.path)))
        for file in ranked[:worst]:
            print(f"  {sum(file.hits().values()):4d} {file.path.relative_to(ROOT)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

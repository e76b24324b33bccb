"""The project's prose names its subjects: the rate of ten constructions only ever falls.

The limits are a ratchet. A change that lowers a rate lowers the limit in the same commit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.language import (
    CONSTRUCTIONS,
    PATTERNS,
    Prose,
    code,
    documents,
    messages,
    rate,
    without_code,
)

LIMITS: dict[Callable[[], list[Prose]], float] = {code: 2.4, messages: 0.5, documents: 1.5}
"""Hits per 1,000 words. The goal is below 4 everywhere."""

SLACK = 2.0

SAMPLES = {
    "who, whoever": "a reader fails for whoever lacks the key",
    "somebody, nobody": "nobody reads it",
    "he, him": "the leader believes what he likes",
    "is no": "this is no position",
    "fronted Of": "It is kept. Of two leaders the later writes",
    "of which": "the file of which a copy exists",
    "what-clause": "the bookie keeps what was written",
    "behind": "the entry behind the last one",
    "one that": "the ledger is one that failed",
    "for ever": "it is fenced for ever",
}


@pytest.mark.parametrize("prose", LIMITS, ids=lambda prose: prose.__name__)
def test_the_rate_never_rises(prose: Callable[[], list[Prose]]) -> None:
    found = rate(prose())
    assert found <= LIMITS[prose], (
        f"{found:.2f} per 1,000 words: name the subject (STYLE.md, Words); "
        "`python -m tests.support.language 20` lists the files with the most hits"
    )


@pytest.mark.parametrize("prose", LIMITS, ids=lambda prose: prose.__name__)
def test_the_limit_follows_the_rate(prose: Callable[[], list[Prose]]) -> None:
    assert rate(prose()) > LIMITS[prose] - SLACK, f"lower the limit of {prose.__name__}"


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_every_construction_is_counted(name: str) -> None:
    assert PATTERNS[name].search(SAMPLES[name])


def test_quoted_code_is_left_out() -> None:
    text = "the word `nobody`\n```\nnobody = 1\n```\nand a reader"
    prose = Prose(Path("x"), without_code(text))
    assert prose.hits()["somebody, nobody"] == 0
    assert prose.words == len(["the", "word", "and", "a", "reader"])

"""A history survives its file, and the kill of the client that writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.history import (
    Journal,
    Kind,
    Operation,
    Outcome,
    from_line,
    load,
    save,
    to_line,
    value_of,
)
from tests.judges.planted import HONEST


def test_a_history_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history.ndjson"
    save(path, HONEST)
    assert load([path]) == sorted(HONEST, key=lambda each: each.called)


def test_an_answer_replaces_the_call(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a", "client")
    process, number = journal.number("writer")
    call = Operation(process=process, number=number, kind=Kind.APPEND, called=1, values=("v",))
    journal.write(call)
    assert load([tmp_path / "a"]) == [call]
    answer = Operation(
        process=process,
        number=number,
        kind=Kind.APPEND,
        called=1,
        returned=2,
        outcome=Outcome.OK,
        values=("v",),
        offset=0,
    )
    journal.write(answer)
    journal.close()
    assert load([tmp_path / "a"]) == [answer]
    assert journal.number("writer") == ("client/writer", 1)


def test_a_line_that_a_kill_cut_short_is_passed_over(tmp_path: Path) -> None:
    whole = to_line(HONEST[0])
    (tmp_path / "a").write_text(f"{whole}\n{whole[:20]}", encoding="utf-8")
    assert load([tmp_path / "a"]) == [HONEST[0]]


@pytest.mark.parametrize("line", ["{}", "[]", '{"kind":"append"}', '{"kind":"x","outcome":"ok"}'])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"not an operation|not a valid"):
        from_line(line)


def test_a_value_names_its_payload() -> None:
    assert value_of(b"a-1").startswith("a-1~")
    assert value_of(b"a-1:" + bytes(5)) != value_of(b"a-1:" + bytes(6))

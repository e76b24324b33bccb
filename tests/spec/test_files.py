"""Event files of real processes: sound ones are accepted, and what is missing or wrong is found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.cluster import LocalCluster
from quire.errors import LedgerClosedError, LedgerFencedError
from quire.event_log import CUT, SUFFIX
from tests.sim.ablations.recovery import read_without_fence
from tests.spec.files import CutError, DamagedError, main, observed, validate

Fields = dict[str, Any]
BOOKIES = 4


async def write_and_recover(data: Path, events: Path) -> None:
    """A ledger whose writer loses a bookie and is then fenced; one that is closed and deleted."""
    with observed(events):
        async with (
            LocalCluster(data, BOOKIES) as cluster,
            quire.connect(cluster.store_uri) as writing,
            quire.connect(cluster.store_uri) as recovering,
        ):
            writer = await writing.create_ledger()
            await writer.append_many([b"before"] * 5)
            cluster.kill(cluster.index_of(writer._metadata.last_fragment.bookies[0]))
            await writer.append_many([b"after"] * 5)
            while len(writer._metadata.fragments) == 1:
                await writer.append(b"until it is replaced")
            reader = await recovering.open_ledger(writer.ledger)
            await reader.close()
            # A bookie refuses the entry, or the writer sees first that the ledger was closed.
            with pytest.raises((LedgerFencedError, LedgerClosedError)):
                await writer.append(b"too late")
            other = await writing.create_ledger()
            await other.append(b"whole")
            await other.close()
            await recovering.delete_ledger(other.ledger)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    events = tmp_path_factory.mktemp("events")
    asyncio.run(write_and_recover(tmp_path_factory.mktemp("data"), events))
    return events


def copied(recorded: Path, to: Path, change: Callable[[str, Fields], Fields | None]) -> Path:
    """Copy event files; `change` may change a line or leave it out. Lines are numbered anew."""
    to.mkdir()
    for path in sorted(recorded.glob("*" + SUFFIX)):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kept = [after for line in lines if (after := change(path.name, line)) is not None]
        text = "".join(json.dumps({**line, "n": n}) + "\n" for n, line in enumerate(kept, 1))
        (to / path.name).write_text(text)
    return to


def test_real_processes_behave_as_specified(recorded: Path) -> None:
    verdict = validate(recorded)
    assert verdict.refusals == []
    assert (verdict.files, verdict.ledgers, verdict.recoveries) == (BOOKIES + 2, 2, 1)


def without(kind: str) -> Callable[[str, Fields], Fields | None]:
    return lambda name, line: None if line["kind"] == kind else line


def with_field(kind: str, /, **fields: object) -> Callable[[str, Fields], Fields | None]:
    return lambda name, line: {**line, **fields} if line["kind"] == kind else line


PLANTED: dict[str, tuple[Callable[[str, Fields], Fields | None], str]] = {
    "entries that no bookie held": (without("held"), "W2"),
    "fences that are not durable": (without("fenced"), "recovery 2"),
    "denials that no bookie gave": (without("denied"), "did not deny"),
    "denials that no recovery counted": (without("counted"), "recovery 4"),
    "an end that no recovery decided": (without("closing"), "recovery 7"),
    "another end": (with_field("closing", last=3), "recovery 3"),
    "a start above LAC": (with_field("started", lac=99), "W2"),
    "LAC above what is held": (with_field("confirmed", lac=99), "L1"),
    "a change that no record names": (with_field("thawed", first=1), "W4"),
    "a drop of what was not deleted": (with_field("fenced", kind="retired"), "deletion"),
}


@pytest.mark.parametrize(("change", "rule"), PLANTED.values(), ids=PLANTED)
def test_a_planted_wrong_step_is_refused(
    recorded: Path, tmp_path: Path, change: Callable[[str, Fields], Fields | None], rule: str
) -> None:
    refusals = validate(copied(recorded, tmp_path / "events", change)).refusals
    assert any(rule in refusal for refusal in refusals), refusals


def test_two_records_under_one_version_are_refused(recorded: Path, tmp_path: Path) -> None:
    told: set[int] = set()

    def change(name: str, line: Fields) -> Fields:
        if line["kind"] != "recorded" or line["version"] not in told:
            told.add(line.get("version", -1))
            return line
        return {**line, "last": 77}

    refusals = validate(copied(recorded, tmp_path / "events", change)).refusals
    assert any("M1" in refusal for refusal in refusals)


def test_a_client_without_a_safeguard_is_refused(tmp_path: Path) -> None:
    """Recovery reads without fencing: nothing is lost here, and the step is wrong all the same."""
    ((owner, name, unfenced),) = read_without_fence()
    whole = getattr(owner, name)
    setattr(owner, name, unfenced)
    try:
        asyncio.run(write_and_recover(tmp_path / "data", tmp_path / "events"))
    finally:
        setattr(owner, name, whole)
    refusals = validate(tmp_path / "events").refusals
    assert any("in answer to a fencing read" in refusal for refusal in refusals), refusals


def first_file(directory: Path) -> Path:
    return min(directory.glob("client-*" + SUFFIX))


def spoiled(recorded: Path, to: Path, change: Callable[[bytes], bytes]) -> Path:
    copied(recorded, to, lambda name, line: line)
    path = first_file(to)
    path.write_bytes(change(path.read_bytes()))
    return to


def test_a_line_that_is_missing_is_found(recorded: Path, tmp_path: Path) -> None:
    def change(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join([*lines[:2], *lines[3:]])

    with pytest.raises(DamagedError, match="lines are missing"):
        validate(spoiled(recorded, tmp_path / "events", change))


def test_a_line_that_was_changed_is_found(recorded: Path, tmp_path: Path) -> None:
    directory = spoiled(recorded, tmp_path / "events", lambda data: data.replace(b"{", b"[", 1))
    with pytest.raises(DamagedError, match="is not JSON"):
        validate(directory)


def test_a_killed_process_leaves_half_a_line(recorded: Path, tmp_path: Path) -> None:
    directory = spoiled(recorded, tmp_path / "events", lambda data: data + b'{"n":')
    assert validate(directory).refusals == []


def test_a_ledger_of_which_no_record_is_known_is_refused(recorded: Path, tmp_path: Path) -> None:
    directory = copied(recorded, tmp_path / "events", without("recorded"))
    assert any("record" in refusal for refusal in validate(directory).refusals)


def in_parts(recorded: Path, to: Path) -> Path:
    """Copy event files as processes with a small bound write them."""
    copied(recorded, to, lambda name, line: line)
    for path in sorted(to.glob("*" + SUFFIX)):
        lines = path.read_text().splitlines(keepends=True)
        if len(lines) < 4:
            continue
        title = {**json.loads(lines[0]), "kind": "continues", "part": 2, "n": 4}
        rest = [json.loads(line) for line in lines[3:]]
        later = [title, *({**line, "n": line["n"] + 1} for line in rest)]
        path.write_text("".join(lines[:3]))
        second = path.with_name(f"{path.stem}.2{SUFFIX}")
        second.write_text("".join(json.dumps(line) + "\n" for line in later))
    return to


def test_parts_are_one_trace(recorded: Path, tmp_path: Path) -> None:
    parts = in_parts(recorded, tmp_path / "parts")
    assert len(list(parts.iterdir())) > len(list(recorded.iterdir()))
    assert str(validate(parts)) == str(validate(recorded))


def test_a_part_that_is_missing_is_found(recorded: Path, tmp_path: Path) -> None:
    parts = in_parts(recorded, tmp_path / "parts")
    second = first_file(parts)
    assert second.stem.endswith(".2")
    second.with_name(second.name.replace(".2", "")).unlink()
    with pytest.raises(DamagedError, match="lines are missing"):
        validate(parts)


def test_a_trace_that_was_cut_is_not_judged(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copied(recorded, tmp_path / "events", lambda name, line: line)
    (directory / CUT).touch()
    with pytest.raises(CutError, match="was cut"):
        validate(directory)
    assert main([str(directory)]) == 2
    assert "not judged" in capsys.readouterr().out

"""Ledgers that are compared with their bookies: by outlines where they suffice, else by lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from quire.errors import BookieUnavailableError
from quire.healing import holes, survey
from quire.healing.audit import ROUND_SECONDS
from quire.ledger.quorum import Replication
from tests.healing.auditing import ENTRIES, Scene, scene
from tests.support.virtual import virtually

STRIPED = Replication(4, 2, 2)


def count_calls(made: Scene, refused: tuple[str, ...] = ()) -> Counter[str]:
    """Count the calls that bookies get, lists by ledger as well, and have them refuse some."""
    calls: Counter[str] = Counter()
    for name, bookie in made.cluster.bookies.items():

        async def before(method: str, ledger: int, name: str = name) -> None:
            calls[method] += 1
            calls[f"list {ledger}"] += method == "list_entries"
            if method in refused:
                raise BookieUnavailableError(name, "unimplemented: Method not found!")

        bookie.before = before
    return calls


def lose_entry(made: Scene, ledger: int, entry: int) -> str:
    """Take an entry of a ledger from one bookie that holds it, and return the bookie."""
    bookie = made.cluster.holders(ledger, entry)[0]
    del made.cluster.bookies[bookie].look(ledger).frames[entry]
    return bookie


@pytest.fixture
def no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "DRIFT_PER_SECOND", 0.0)


@pytest.mark.slow
def test_ledgers_that_closed_in_good_order_need_no_list() -> None:
    async def main() -> None:
        async with scene(5, 10) as (made, audit):
            await made.work(audit, ROUND_SECONDS)
            await made.fill(200)
            calls = count_calls(made)
            reads = audit.survey.reads
            await made.work(audit, ROUND_SECONDS)
            assert audit.tally.ledgers_outlined >= 210
            assert calls["list_entries"] == 0
            assert calls["outlines"] <= 2 * 2 * len(made.cluster.bookies)
            assert audit.survey.reads - reads < 300, "a record of a closed ledger is read once"
            assert await made.requests() == []

    virtually(main)


@pytest.mark.parametrize("entry", range(ENTRIES))
@pytest.mark.usefixtures("no_drift")
def test_a_sweep_finds_any_entry_that_is_missing(entry: int) -> None:
    """The first, the last, or one between: BookKeeper's check asks for first and last only."""

    async def main() -> None:
        async with scene(5, 20) as (made, audit):
            await made.work(audit, ROUND_SECONDS)
            lose_entry(made, 7, entry)
            calls = count_calls(made)
            reads = audit.survey.reads
            seconds = await made.until(audit, lambda it: it.totals["requests_ended"] == 1)
            assert seconds <= 3 * ROUND_SECONDS
            assert await made.short() == []
            assert calls["list_entries"] == 2 * 3, "only of the ledger with the hole"
            assert audit.survey.reads - reads < 10, "a sweep reads no record"

    virtually(main)


@pytest.mark.parametrize("is_filled", [True, False])
@pytest.mark.usefixtures("no_drift")
def test_a_sweep_looks_again_at_a_hole_without_a_request(is_filled: bool) -> None:
    """The end of its request was not seen: the simulator's healing 103."""

    async def main() -> None:
        async with scene(5, 20) as (made, audit):
            await made.work(audit, ROUND_SECONDS)
            if not is_filled:
                lose_entry(made, 7, 3)
            audit.holes.ledgers.add(7)
            await made.work(audit, holes.TURN_SECONDS + 3 * ROUND_SECONDS)
            assert audit.holes.ledgers == set()
            assert await made.short() == []
            assert audit.tally.requests_ended == (0 if is_filled else 1)

    virtually(main)


@pytest.mark.usefixtures("no_drift")
def test_a_sweep_counts_the_entries_of_striped_ledgers() -> None:
    async def main() -> None:
        async with scene(5, 0) as (made, audit):
            ledgers = await made.fill(6, STRIPED)
            await made.work(audit, 2 * ROUND_SECONDS)
            assert audit.tally.ledgers_listed == len(ledgers), "a new one is looked at whole"
            lose_entry(made, ledgers[3], 2)
            await made.until(audit, lambda it: it.totals["requests_ended"] == 1)
            assert await made.short() == []
            assert audit.tally.ledgers_listed <= len(ledgers) + 2

    virtually(main)


def test_entries_that_hide_a_missing_one_from_the_count_are_listed_in_turn() -> None:
    async def main() -> None:
        async with scene(5, 0) as (made, audit):
            (ledger,) = await made.fill(1, STRIPED)
            await made.work(audit, 2 * ROUND_SECONDS)
            metadata = await made.metadata(ledger)
            ours = [each for each in range(ENTRIES) if "b0" in metadata.write_set(each)]
            if len(ours) < 3:
                return
            frames = made.cluster.bookies["b0"].look(ledger).frames
            stray = next(each for each in range(ours[0], ours[-1]) if each not in ours)
            frames[stray] = frames.pop(ours[1])
            await made.until(audit, lambda it: it.totals["requests_ended"] == 1)
            assert await made.short() == []

    virtually(main)


def refuse(made: Scene) -> Counter[str]:
    return count_calls(made, ("outlines",))


@pytest.mark.parametrize(("prepare", "lists"), [(count_calls, 1), (refuse, 20)])
def test_bookies_of_an_older_program_are_asked_for_lists(
    prepare: Callable[[Scene], Counter[str]], lists: int
) -> None:
    async def main() -> None:
        async with scene(5, 0) as (made, audit):
            await made.work(audit, ROUND_SECONDS)
            await made.fill(20)
            calls = prepare(made)
            lose_entry(made, 7, 3)
            await made.until(audit, lambda it: it.totals["requests_ended"] == 1)
            assert await made.short() == []
            assert sum(many > 0 for call, many in calls.items() if call[:5] == "list ") == lists

    virtually(main)


@pytest.mark.usefixtures("no_drift")
def test_a_sweep_leaves_bookies_that_tell_nothing_alone() -> None:
    """All ledgers of a bookie of an older program would be listed in three hours."""

    async def main() -> None:
        async with scene(5, 20) as (made, audit):
            await made.work(audit, ROUND_SECONDS)
            calls = refuse(made)
            await made.work(audit, 10 * ROUND_SECONDS)
            assert calls["outlines"] == len(made.cluster.bookies)
            assert calls["list_entries"] == 0
            await made.work(audit, holes.TURN_SECONDS)
            assert calls["outlines"] == 2 * len(made.cluster.bookies), "once in ten minutes"

    virtually(main)


def test_a_sweep_is_paced_and_waits_for_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "SWEPT_PER_SECOND", 0.5)
    monkeypatch.setattr(survey, "DRIFT_PER_SECOND", 0.0)

    async def main() -> None:
        async with scene(5, 40) as (made, audit):
            await made.work(audit, ROUND_SECONDS)
            before = audit.tally.ledgers_outlined
            await made.work(audit, 8 * ROUND_SECONDS)
            swept = audit.tally.ledgers_outlined - before
            assert 30 <= swept <= 40
            up = set(made.cluster.bookies)
            monkeypatch.setattr(holes, "CHECKED_MAX", 1)
            audit.holes.check([3])
            await audit.holes.sweep(1000.0, up)
            assert audit.tally.ledgers_outlined - before == swept

    virtually(main)

"""The judge of `make interop`'s rounds, with clients and servers that tests make up."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from quire.entry import DigestKind, LedgerId
from tests.interop.parties import BURST, UnansweredError, WriterEndedError
from tests.interop.plan import BLOCK, Plan, plan_of
from tests.interop.rounds import Round, Told, summary

NAMES = ("b0", "b1", "b2", "b3")


def _digest(entries: list[str]) -> str:
    whole = hashlib.sha256("".join(f"{each}\n" for each in entries).encode())
    return f"{len(entries)} {whole.hexdigest()}"


@dataclass
class _Ledger:
    """A ledger and its servers, and what a test does to them."""

    writer: str
    entries: list[str] = field(default_factory=list)
    fenced: bool = False
    calls: list[str] = field(default_factory=list)
    silent: int = 0
    """Calls that are left unanswered."""
    loses: int = 0
    """Entries that the recovery loses."""
    replaces: bool = False
    """Whether the recovery replaces the last entry."""
    differs: bool = False
    """Whether Java reads one entry less than quire."""
    ledger: LedgerId = 7
    acknowledged: int = 0

    # The writer's end.

    async def burst(self) -> None:
        await asyncio.sleep(0)
        if self.fenced:
            raise WriterEndedError("fenced")
        first = len(self.entries)
        self.entries += [f"{self.writer}-{number}" for number in range(first, first + BURST)]
        self.acknowledged += BURST

    async def leave(self) -> None:
        self.calls.append("leave")

    # A client.

    async def create(self, digest: DigestKind) -> _Ledger:
        self._answer("create")
        return self

    async def recover(self, ledger: LedgerId, digest: DigestKind, *, patiently: bool) -> int:
        self._answer("rescue" if patiently else "recover")
        self.fenced = True
        del self.entries[len(self.entries) - self.loses :]
        if self.replaces:
            self.entries[-1] = "other"
        return len(self.entries) - 1

    def _answer(self, name: str) -> None:
        self.calls.append(name)
        if self.silent:
            self.silent -= 1
            raise UnansweredError(name)

    # The servers, and quire's client that looks at them.

    bookies: Any = None

    def kill(self, bookie: str) -> None:
        self.calls.append(f"kill {bookie}")

    def stop(self, bookie: str) -> None:
        self.calls.append(f"stop {bookie}")

    def ensure(self, bookie: str) -> None:
        self.calls.append(f"ensure {bookie}")

    def go_on(self, bookie: str) -> None:
        self.calls.append(f"go on {bookie}")

    async def ledger_info(self, ledger: LedgerId) -> Any:
        struck = [call for call in self.calls if call.startswith(("kill", "stop"))]
        later = [[each for each in NAMES if each not in call] for call in struck]
        ensembles = [list(NAMES[:3]), *later]
        fragments = [SimpleNamespace(bookies=each) for each in ensembles]
        return SimpleNamespace(
            fragments=fragments,
            is_closed=self.fenced,
            state="open",
            last_entry=len(self.entries) - 1,
        )


@dataclass
class _Judge:
    ledger: _Ledger
    behind: int = 0

    async def read(self, ledger: LedgerId, digest: DigestKind) -> str:
        self.ledger._answer("read")
        return _digest(self.ledger.entries[: len(self.ledger.entries) - self.behind])


class _Crew:
    def __init__(self, ledger: _Ledger) -> None:
        self.servers = SimpleNamespace(
            bookies=dict.fromkeys(NAMES),
            kill=ledger.kill,
            stop=ledger.stop,
            ensure=ledger.ensure,
            go_on=ledger.go_on,
        )
        writable = [SimpleNamespace(bookie=each, writable=True) for each in NAMES]
        self.patient = SimpleNamespace(bookies=lambda: writable, ledger_info=ledger.ledger_info)
        self._ledger = ledger

    def writer(self, plan: Plan) -> _Ledger:
        return self._ledger

    def taker(self, plan: Plan) -> _Ledger:
        return self._ledger

    def judges(self, plan: Plan) -> tuple[_Judge, _Judge]:
        return _Judge(self._ledger), _Judge(self._ledger, behind=int(self._ledger.differs))


async def _played(plan: Plan, **more: Any) -> tuple[Told, _Ledger]:
    ledger = _Ledger(plan.writer, **more)
    playing = Round(_Crew(ledger), plan, "made up")  # type: ignore[arg-type]
    await playing.play()
    return playing.told, ledger


@pytest.fixture(autouse=True)
def _without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(call: Callable[..., Any], *arguments: Any) -> Any:
        return call(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


def test_a_block_of_rounds_has_every_combination_and_can_be_repeated() -> None:
    plans = [plan_of(3, number) for number in range(2 * len(BLOCK))]
    for block in (plans[: len(BLOCK)], plans[len(BLOCK) :]):
        met = {(each.writer, each.taker, each.failure, each.protocol) for each in block}
        assert met == set(BLOCK)
    assert plans == [plan_of(3, number) for number in range(2 * len(BLOCK))]
    assert plans != [plan_of(4, number) for number in range(2 * len(BLOCK))]


async def test_a_round_strikes_takes_over_mends_and_reads_by_both() -> None:
    for number in range(len(BLOCK)):
        plan = plan_of(0, number)
        told, ledger = await _played(plan)
        struck = ledger.calls[1].split()[0] if ledger.calls[1] != "recover" else ""
        wanted = "kill" if plan.failure.kills else "stop" if plan.failure.stops else ""
        assert struck in (wanted, "leave"), (plan, ledger.calls)
        mended = [each for each in ledger.calls if each.startswith(("ensure", "go on"))]
        assert len(mended) == bool(wanted)
        assert ("leave" in ledger.calls) is not plan.failure.fences
        assert ledger.calls[-2:] == ["read", "read"]
        assert told.found == told.acknowledged == len(ledger.entries) >= plan.burst * BURST


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"loses": 1}, "lost entries"),
        ({"replaces": True}, "other entries"),
        ({"differs": True}, "quire and Java read"),
    ],
)
async def test_the_judge_finds_lost_replaced_and_different_entries(
    fault: dict[str, Any], said: str
) -> None:
    for number in range(len(BLOCK)):
        with pytest.raises(AssertionError, match=said):
            await _played(plan_of(0, number), **fault)


async def test_silence_is_no_verdict() -> None:
    """A creation is repeated; so is a recovery, with the bookie back and more patience."""
    told, _ = await _played(plan_of(0, 0), silent=3)
    assert told.repeated == ["create"] * 3
    assert told.found == told.acknowledged
    silent = _Ledger("java", fenced=False)
    told_of = Round(_Crew(silent), plan_of(0, 0), "made up")  # type: ignore[arg-type]
    silent.silent = 2
    await told_of._take_over(silent)
    assert silent.calls == ["recover", "rescue", "rescue"]
    assert told_of.told.repeated == ["recover", "rescue"]


async def test_other_errors_fail_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: _Ledger) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(_Ledger, "burst", broken)
    with pytest.raises(ValueError, match="a defect"):
        await _played(plan_of(0, 0))


def test_a_summary_counts_rounds_that_failed() -> None:
    plan = plan_of(0, 0)
    told = [Told(plan, "db", seconds=1.0), Told(plan, "db", seconds=3.0, failed="lost")]
    assert summary(told).startswith("db: 1 of 2 rounds true")
    assert "FAILED" in str(told[1])
    assert told[0].as_dict()["storage"] == "db"

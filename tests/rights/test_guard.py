"""What a server knows about rights: the watch, the logs of ledgers, remembered decisions."""

from __future__ import annotations

import asyncio
import logging

import pytest

from quire.errors import (
    BookieUnavailableError,
    ConfigurationError,
    CorruptRecordError,
    LedgerRetiredError,
    MissingRightsError,
    NotPermittedError,
    StoreUnavailableError,
)
from quire.metastore.cluster import read_cluster
from quire.metastore.layout import RIGHTS, ledger_path
from quire.metastore.store import Versioned
from quire.rights import guard as guards
from quire.rights.guard import LOG_SECONDS, Guard, guarding
from quire.rights.roles import Action, Role
from quire.rights.scopes import Reach
from quire.rights.stored import change_rights, read_rights, replace_rights
from quire.rights.table import AccessRule, Effect, RightsTable
from quire.rights.watch import RightsWatch
from quire.wire.identity import ANONYMOUS
from tests.rights.scene import APP, OTHER, scene
from tests.support.virtual import virtually

READS = AccessRule("quire://client/app", Role.READER)
ROOT = AccessRule("quire://client/root", Role.ADMIN)
ORDERS = AccessRule("quire://client/app", Role.WRITER, Reach(log="orders"))


async def test_without_a_table_nothing_is_looked_up() -> None:
    async with scene() as it:
        assert it.guard.admits(ANONYMOUS, Action.APPEND, 7)
        await it.guard.check(ANONYMOUS, Action.APPEND, 7)
        assert it.looks == []


async def test_a_denial_names_peer_right_and_remedy() -> None:
    async with scene() as it:
        await it.set(READS)
        with pytest.raises(NotPermittedError) as caught:
            await it.guard.check(APP, Action.APPEND, 7)
        assert (caught.value.identity, caught.value.action) == (APP.name, "append")
        for part in (APP.name, "append", "ledger 7", "quire rights grant", "quire rights check"):
            assert part in str(caught.value)


async def test_a_ledger_is_looked_up_once_and_only_when_it_matters() -> None:
    async with scene() as it:
        await it.make_ledger(7, "orders")
        await it.make_ledger(8, "bills")
        await it.make_ledger(9, None)
        await it.set(READS, ORDERS)
        await it.guard.check(APP, Action.OBSERVE, 7)  # everywhere: no matter which log
        assert it.looks == []
        for _ in range(3):
            await it.guard.check(APP, Action.APPEND, 7)
            for ledger in (8, 9):
                with pytest.raises(NotPermittedError, match=r"log 'bills'|ledger 9"):
                    await it.guard.check(APP, Action.APPEND, ledger)
        assert it.looks == [7, 8, 9]
        assert it.guard.admits(APP, Action.APPEND, 7)
        assert not it.guard.admits(OTHER, Action.APPEND, 7)


async def test_a_right_that_is_taken_away_is_gone_at_once() -> None:
    async with scene() as it:
        await it.make_ledger(7, "orders")
        await it.set(ORDERS)
        await it.guard.check(APP, Action.APPEND, 7)
        await it.set(ORDERS, AccessRule("*", Role.WRITER, Reach(prefix="ord"), Effect.DENY))
        assert not it.guard.admits(APP, Action.APPEND, 7)
        with pytest.raises(NotPermittedError):
            await it.guard.check(APP, Action.APPEND, 7)


async def test_a_table_that_changes_during_a_look_is_not_outlived() -> None:
    async with scene() as it:
        await it.make_ledger(7, "orders")
        await it.set(ORDERS)
        denial = RightsTable((ROOT,))

        async def slow(ledger: int) -> str | None:
            await it.put(denial.encode())
            await it.watch.look()
            return "orders"

        guard = Guard(it.watch, slow)
        await guard.check(APP, Action.APPEND, 7)  # it was permitted when it was asked
        assert not guard.admits(APP, Action.APPEND, 7)
        with pytest.raises(NotPermittedError):
            await guard.check(APP, Action.APPEND, 7)


async def test_a_deleted_ledger_is_no_denied_ledger() -> None:
    async with scene() as it:
        await it.set(ORDERS)
        with pytest.raises(LedgerRetiredError):
            await it.guard.check(APP, Action.READ, 7)
        with pytest.raises(NotPermittedError):
            await it.guard.check(APP, Action.APPEND, 7)
        with pytest.raises(NotPermittedError):
            await it.guard.check(APP, Action.APPEND, -1)
        await it.make_ledger(7, "orders")  # it was asked about before it was created
        await it.guard.check(APP, Action.APPEND, 7)


async def test_without_the_store_no_right_is_guessed() -> None:
    async with scene() as it:
        await it.set(ORDERS)

        async def away(ledger: int) -> str | None:
            raise StoreUnavailableError("zk://", "it is away")

        guard = Guard(it.watch, away, "b1")
        with pytest.raises(BookieUnavailableError, match="the log of ledger 7"):
            await guard.check(APP, Action.APPEND, 7)


def test_a_look_has_a_limit_of_time() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.set(ORDERS)

            async def silent(ledger: int) -> str | None:
                await asyncio.Event().wait()
                return None

            began = asyncio.get_running_loop().time()
            with pytest.raises(BookieUnavailableError):
                await Guard(it.watch, silent).check(APP, Action.APPEND, 7)
            took = asyncio.get_running_loop().time() - began
            assert took == pytest.approx(guards.LOOK_UP_SECONDS)

    virtually(main)


async def test_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "DECISIONS_MAX", 10)
    async with scene() as it:
        await it.set(READS)
        for ledger in range(100):
            await it.guard.check(APP, Action.READ, ledger)
        assert len(it.guard._decided) <= 10


def test_the_watch_follows_and_never_goes_back_to_none() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.watch.look()
            it.watch.start()
            assert not it.watch.table
            await it.put(RightsTable((READS,)).encode())
            await asyncio.sleep(1)
            assert it.watch.table == RightsTable((READS,))
            await it.put(b"garbage")
            await asyncio.sleep(1)
            assert it.watch.table == RightsTable((READS,))
            await it.store.delete(RIGHTS)
            await asyncio.sleep(60)
            assert it.watch.table == RightsTable((READS,))
            await it.put(RightsTable((ROOT,)).encode())
            await asyncio.sleep(1)
            assert it.watch.table == RightsTable((ROOT,))

    virtually(main)


async def test_nothing_is_served_with_a_table_that_cannot_be_read() -> None:
    async with scene() as it:
        await it.put(b"garbage")
        with pytest.raises(CorruptRecordError):
            await RightsWatch(it.store).look()
        with pytest.raises(CorruptRecordError):
            async with guarding(it.store, "b1"):
                pass


async def test_the_cluster_remembers_that_there_was_a_table() -> None:
    async with scene() as it:
        await it.begin()
        assert not (await read_cluster(it.store)).ruled
        await change_rights(it.store, lambda _: RightsTable((ROOT,)))
        assert (await read_cluster(it.store)).ruled


async def test_a_table_from_before_the_note_is_noted_with_the_next_change() -> None:
    async with scene() as it:
        await it.begin()
        await it.set(ROOT)
        await change_rights(it.store, lambda table: table or RightsTable())
        assert (await read_cluster(it.store)).ruled, "though no rule changed"
        assert await read_rights(it.store) == RightsTable((ROOT,))


async def test_a_server_that_starts_after_a_loss_denies_each_call_until_the_table_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene() as it:
        await it.begin()
        await change_rights(it.store, lambda _: RightsTable((READS,)))
        await it.store.delete(RIGHTS)
        await it.watch.look()
        assert not it.guard.admits(APP, Action.READ, 7)
        with pytest.raises(NotPermittedError):
            await it.guard.check(APP, Action.READ, 7)
        await it.watch.look()
        assert len([each for each in caplog.records if "each call is denied" in each.message]) == 1
        await replace_rights(it.store, lambda _: RightsTable((READS,)))
        await it.watch.look()
        await it.guard.check(APP, Action.READ, 7)


async def test_a_first_table_that_comes_between_two_looks_is_no_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server finds no table, then the note about the one that was made meanwhile."""
    async with scene() as it:
        await it.begin()
        get = it.store.get

        async def slow(path: str) -> Versioned:
            monkeypatch.setattr(it.store, "get", get)
            try:
                return await get(path)
            finally:
                await change_rights(it.store, lambda _: RightsTable((READS,)))

        monkeypatch.setattr(it.store, "get", slow)
        await it.watch.look()
        assert it.watch.table == RightsTable((READS,))


async def test_a_lost_table_is_not_begun_anew_rule_by_rule() -> None:
    async with scene() as it:
        await it.begin()
        await change_rights(it.store, lambda _: RightsTable((ROOT,)))
        await it.store.delete(RIGHTS)
        with pytest.raises(MissingRightsError, match="quire rights apply"):
            await read_rights(it.store)
        with pytest.raises(MissingRightsError, match="quire rights apply"):
            await change_rights(it.store, lambda _: RightsTable((ROOT,)))
        assert await replace_rights(it.store, lambda _: RightsTable((ROOT,))) == RightsTable(
            (ROOT,)
        )
        assert await read_rights(it.store) == RightsTable((ROOT,))


def test_denials_are_counted_and_logged_at_a_bounded_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with scene() as it:
            await it.set(READS)

            async def try_twice() -> None:
                for _ in range(2):
                    with pytest.raises(NotPermittedError):
                        await it.guard.check(APP, Action.APPEND, 7)

            await try_twice()
            with pytest.raises(NotPermittedError):
                it.guard.check_log(OTHER, Action.READ, "orders")
            assert len(caplog.records) == 2
            await asyncio.sleep(LOG_SECONDS)
            await try_twice()
            assert it.guard.denials.counts == {Action.APPEND: 4, Action.READ: 1}

    with caplog.at_level(logging.WARNING, "quire.audit"):
        virtually(main)
    assert len(caplog.records) == 3
    first, _, last = caplog.records
    assert (first.audit, first.identity, first.action, first.scope) == (  # type: ignore[attr-defined]
        *(1, APP.name, "append", "ledger 7"),
    )
    assert last.denied == 2  # type: ignore[attr-defined]


async def test_strangers_cannot_fill_the_memory_of_denials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "LOGGED_MAX", 10)
    async with scene() as it:
        await it.set(READS)
        for n in range(50):
            stranger = type(APP)(f"quire://client/{n}", APP.kind)
            with pytest.raises(NotPermittedError):
                await it.guard.check(stranger, Action.READ, 7)
        assert len(it.guard.denials._said) <= 10


async def test_the_table_is_changed_by_compare_and_set() -> None:
    async with scene() as it:
        await it.begin()
        calls = 0

        def decide(current: RightsTable | None) -> RightsTable:
            nonlocal calls
            calls += 1
            return (current or RightsTable()).having([READS])

        assert await read_rights(it.store) is None
        await change_rights(it.store, lambda _: RightsTable((ROOT,)))
        version = (await it.store.get(RIGHTS)).version
        found = await change_rights(it.store, decide)
        assert found.rules == (ROOT, READS)
        assert await read_rights(it.store) == found
        assert (await it.store.get(RIGHTS)).version > version
        again = (await it.store.get(RIGHTS)).version
        await change_rights(it.store, decide)
        assert (await it.store.get(RIGHTS)).version == again, "nothing to change"
        assert calls == 2


async def test_two_administrators_lose_no_rule() -> None:
    async with scene() as it:
        await it.begin()

        async def add(n: int) -> None:
            rule = AccessRule(f"quire://client/{n}", Role.READER)
            await change_rights(it.store, lambda table: (table or RightsTable()).having([rule]))

        await asyncio.gather(*map(add, range(10)))
        found = await read_rights(it.store)
        assert found is not None
        assert len(found.rules) == 10


async def test_a_damaged_table_is_not_replaced() -> None:
    async with scene() as it:
        await it.begin()
        await it.put(b"garbage")
        with pytest.raises(CorruptRecordError):
            await change_rights(it.store, lambda _: RightsTable((ROOT,)))
        assert (await it.store.get(RIGHTS)).value == b"garbage"


async def test_older_bookies_would_not_obey() -> None:
    async with scene() as it:
        await it.begin(level=1)
        with pytest.raises(ConfigurationError, match="quire cluster upgrade --finish"):
            await change_rights(it.store, lambda _: RightsTable((ROOT,)))
        with pytest.raises(Exception, match="does not exist"):
            await it.store.get(RIGHTS)


async def test_a_ledger_keeps_the_log_it_was_made_for() -> None:
    async with scene() as it:
        await it.make_ledger(7, "orders")
        assert await it.logs.log_of(7) == "orders"
        await it.store.delete(ledger_path(7))
        assert await it.logs.log_of(7) == "orders"

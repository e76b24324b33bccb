"""The price of healing in the metadata store: writes as ledgers that move (H10), records as
bookies (H11).
"""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

from quire.metastore.layout import HEALING_SUMMARY, LEDGERS, MOVES, ledger_path
from tests.healing.auditing import scene
from tests.support.virtual import virtually

BOOKIES = 6
LEDGERS_MADE = 200
WRITES_PER_MOVE = 3.0
"""The ledger's record, the end of the request, and a share of the write that asked for it."""


def test_a_move_takes_few_writes_and_records_grow_with_bookies_only() -> None:
    async def main() -> None:
        async with scene(BOOKIES, LEDGERS_MADE) as (made, audit):
            hurt = [
                ledger
                for ledger in range(LEDGERS_MADE)
                if "b0" in (await made.metadata(ledger)).fragments[0].bookies
            ]
            assert len(hurt) > BOOKIES * 10
            await made.lose("b0")
            tree = made.cluster.store.tree
            with (
                patch.object(tree, "put", wraps=tree.put) as put,
                patch.object(tree, "create", wraps=tree.create) as create,
            ):
                await made.until(audit, lambda it: it.lost == ("b0",) and not it.open)
            assert await made.short() == []
            assert made.copied == len(hurt)
            written = Counter(str(call.args[0]) for call in [*put.mock_calls, *create.mock_calls])
            ledgers = {each: many for each, many in written.items() if each.startswith(LEDGERS)}
            moves = {each: many for each, many in written.items() if each.startswith(MOVES)}
            assert set(ledgers) == {ledger_path(each) for each in hurt}
            assert set(ledgers.values()) == {1}
            assert len(hurt) + sum(moves.values()) <= WRITES_PER_MOVE * len(hurt)
            assert len(moves) < BOOKIES
            assert set(written) - {*ledgers, *moves} == {HEALING_SUMMARY}

    virtually(main)

"""What `quire log append` refuses before it fences anybody off."""

from __future__ import annotations

import asyncio

import pytest

from quire.cli.log import _check_txid, _print_appended
from quire.cli.output import flush
from quire.cli.settings import Settings
from quire.errors import TxidOrderError
from quire.log.manifest.options import LogOptions
from quire.log.records.position import LATEST, Appended, Position
from tests.support.log_cluster import NAME, LogCluster, run, whole_client


def test_an_id_below_one_that_was_trimmed_is_refused_and_the_largest_is_not() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = whole_client(cluster)

            async def check(txid: int) -> None:
                await _check_txid(client, NAME, txid, LogOptions())

            await check(2**63 - 1)  # there is no log yet
            leader = await cluster.new_client().open()
            await leader.append(b"a", txid=100)
            await asyncio.sleep(1)  # until it is announced
            await client.trim_log(NAME, LATEST)
            with pytest.raises(TxidOrderError, match="5 cannot follow txid 100"):
                await check(5)
            await check(100)
            await check(2**63 - 1)
            await leader.append(b"b", txid=2**63 - 1)
            await asyncio.sleep(1)
            await check(2**63 - 1)
            await leader.close()

    run(main)


def test_json_has_the_position_and_the_offset(capsys: pytest.CaptureFixture[str]) -> None:
    appended = Appended(Position(3, 17, 0), 42)
    for json in (False, True):
        _print_appended(Settings(store=None, json=json), appended)
    flush()
    assert capsys.readouterr().out == '3.17.0\n{"position": "3.17.0", "offset": 42}\n'

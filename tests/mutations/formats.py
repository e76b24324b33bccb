"""Edits of formats: unknown fields, feature levels, the hello of two programs."""

from __future__ import annotations

from typing import Final

from tests.mutations.edit import Edit

UNKNOWN: Final = ("tests/test_unknown_fields.py",)
UPGRADE: Final = ("tests/metadata/test_upgrade.py",)
HELLO: Final = ("tests/wire/test_hello.py",)

EDITS: Final = (
    Edit(
        "a fragment that is replaced loses the fields of a later program",
        "quire/ledger/metadata.py",
        "        fragment = replace(fragment, unknown=last.unknown)\n",
        "",
        UNKNOWN,
    ),
    Edit(
        "a recovery closes with a last fragment without the fields of a later program",
        "quire/ledger/recovery_plan.py",
        "    last = replace(last, unknown=current.last_fragment.unknown)\n",
        "",
        UNKNOWN,
    ),
    Edit(
        "a job that is repeated loses the fields of a later program",
        "quire/log/manifest/jobs.py",
        "        work = work._replace(unknown=earlier.unknown)\n",
        "",
        UNKNOWN,
    ),
    Edit(
        "a finish looks at the registrations before it writes anything",
        "quire/metadata/upgrade.py",
        "    raising = replace(cluster, raising=found.newest)\n",
        "    raising = cluster\n",
        UPGRADE,
    ),
    Edit(
        "a bookie does not read the level after it registered",
        "quire/storage/identity/registration.py",
        "            await read_cluster(self._store)\n",
        "            pass\n",
        UPGRADE,
    ),
    Edit(
        "a refused finish keeps programs from joining",
        "quire/metadata/upgrade.py",
        "        await store.put(CLUSTER, replace(cluster, raising=0).encode(), version)\n",
        "",
        UPGRADE,
    ),
    Edit(
        "a refused client counts its bookie as failed",
        "quire/ledger/run_stream.py",
        "    return ClientRefusedError(bookie, refusal.reason)\n",
        "    return BookieUnavailableError(bookie, refusal.reason)\n",
        HELLO,
    ),
    Edit(
        "a bookie closes at once after a refusal",
        "quire/storage/serving/run_listener.py",
        "            while await connection.read() is not None:\n"
        "                await self._reception.messages.wait(connection.owner)\n",
        "            pass\n",
        HELLO,
    ),
)

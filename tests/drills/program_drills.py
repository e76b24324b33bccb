"""Drills of programs: two versions side by side, probes and request ids, and a console at work."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from quire import connect
from quire.cluster import LocalCluster
from tests.drills.auditor_drills import worked
from tests.drills.scene import Proof, Scene, check
from tests.support.command import started
from tests.support.http import Answer, fetch
from tests.support.request_logs import logs_of_both
from tests.support.two_programs import LOG, ROLLS, Rolling

PAGES: Final = ("/", "/bookies", "/logs", "/healing", "/ledgers", "/growth", "/connections")
LEDGERS: Final = 1_000
BOOKIES: Final = 3
TRIES: Final = 3
PAGE_SECONDS_MAX: Final = 1.0
LINK: Final = re.compile(r'(?:src|href|action)="([a-z]+:)?//')
SHOWN: Final = re.compile(r"are at (http://127\.0\.0\.1:\d+)/metrics")


async def upgraded() -> Proof:
    """The program before and this one serve and lead in turn, under load, until the finish."""
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as directory:
        rolling = Rolling(Path(directory))
        await rolling.roll()
        confirmed = rolling.confirmed
        return Proof(
            f"{len(ROLLS)} bookies replaced under load, each leader of the other program; "
            f"{len(confirmed)} records of log {LOG} confirmed, both programs read all in order; "
            "the finish was refused before the last, and done after it",
            sum(map(len, confirmed)),
        )


async def probed() -> Proof:
    """Probes answer on paths of their own, and one id finds a request in both JSON logs."""
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as directory:
        await _check_probes(Path(directory) / "probes")
        (Path(directory) / "logs").mkdir()
        logs = await logs_of_both(Path(directory) / "logs", "json")
        found = {}
        for kind, ledger in (("add", logs.fenced), ("Read", logs.fenced)):
            check(bool(logs.shared(kind, ledger)), f"no {kind} has one id in both logs: {logs}")
            found[kind] = logs.shared(kind, ledger)[0][1].request
        shared = logs.shared("subscription", logs.followed)
        check(bool(shared), f"no subscription has one id in both logs: {logs}")
        return Proof(
            "/livez, /readyz, /metrics and nothing else; every line of both logs is JSON; the add "
            f"{found['add']}, the read {found['Read']} and the subscription "
            f"{shared[0][0].request} are in both",
            *(0, ""),
        )


async def _check_probes(directory: Path) -> None:
    _configure(directory)
    with patch.dict(os.environ, {"QUIRE_CONFIG": str(directory / "quire.toml")}):
        async with LocalCluster(directory / "data", 1) as cluster:
            log = cluster.bookie_log(0).read_text(encoding="utf-8")
            address = SHOWN.findall(log)[-1]
            for path, says in (("/livez", "alive"), ("/readyz", "ready")):
                answer = await fetch(address + path)
                check(answer.status == 200 and says in answer.text, f"{path}: {answer}")
            figures = await fetch(address + "/metrics")
            check("quire_bookie_up 1.0" in figures.text, figures.text[:200])
            for path in ("/", "/healthz", "/metrics/", "/readyz/x"):
                answer = await fetch(address + path)
                check(answer.status == 404, f"{path} answers {answer.status}, by accident")


def _configure(directory: Path) -> None:
    directory.mkdir()
    (directory / "quire.toml").write_text('[bookie.serve]\nmetrics = "127.0.0.1:0"\n')


async def looked(ledgers: int = LEDGERS) -> Proof:
    """A console with many ledgers, and without a bookie: quick, live, closed, and read-only."""
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as name:
        directory = Path(name) / "data"
        async with (
            LocalCluster(directory, BOOKIES) as cluster,
            connect(cluster.store_uri) as client,
        ):
            scene = Scene(cluster, client)
            await scene.closed_ledgers(ledgers, entries=1)
            async with await client.open_log("orders") as log:
                await log.append(b"the first")
                async with _console(cluster.store_uri) as page:
                    await page.ready()
                    slowest = await page.look_at_all()
                    tail = asyncio.create_task(page.tail("orders", "the first", "arrived live"))
                    await page.tailing.wait()
                    await log.append(b"arrived live")
                    await tail
                    await page.try_to_write()
        async with _console(f"sqlite://{directory}/metadata.db") as page:
            await page.ready()
            alone = await page.look_at_all()
        return Proof(
            f"{ledgers} ledgers on {BOOKIES} bookies: the slowest page took {slowest[1]:.2f} s "
            f"({slowest[0]}, {slowest[2]:,} bytes); without a bookie {alone[1]:.2f} s",
            scene.written,
        )


class _Page:
    """A console, as a browser sees it."""

    def __init__(self, address: str, token: str, pid: int) -> None:
        self._address = address
        self._pid = pid
        self._headers = {"Authorization": f"Bearer {token}"}
        self.tailing = asyncio.Event()

    async def get(self, path: str, method: str = "GET") -> Answer:
        return await fetch(self._address + path, self._headers, method)

    async def ready(self) -> None:
        """Return when the console has looked at the cluster once."""
        while (await self.get("/readyz")).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    async def look_at_all(self) -> tuple[str, float, int]:
        """Return the slowest page, its seconds and its bytes. A busy machine makes a page slow, and
        does not fail the drill: the time of a processor is judged.
        """
        found, before = [], worked(self._pid)
        for path in PAGES:
            await self.get(path)  # the first time a template is compiled
            answer = min(
                [await self.get(path) for _ in range(TRIES)], key=lambda each: each.seconds
            )
            check(answer.status == 200, f"{path} answers {answer.status}: {answer.text[:200]}")
            check(not LINK.search(answer.text), f"{path} asks another host for something")
            policy = answer.headers["content-security-policy"]
            is_closed = "default-src 'none'" in policy and "//" not in policy
            check(is_closed, f"{path} has the policy {policy}")
            found.append((path, answer.seconds, len(answer.body)))
        taken = (worked(self._pid) - before) / (len(PAGES) * (1 + TRIES))
        check(taken < PAGE_SECONDS_MAX, f"a page took {taken:.1f} s of a processor")
        return max(found, key=lambda each: each[1])

    async def tail(self, log: str, there: str, text: str) -> None:
        """Return when a live tail shows a text. `tailing` tells that it shows what was there."""
        _, _, rest = self._address.partition("//")
        host, _, port = rest.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = [f"GET /tail?log={log}&from=beginning HTTP/1.1", f"Host: {rest}"]
        lines += [f"{key}: {value}" for key, value in self._headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await reader.readuntil(there.encode())
        self.tailing.set()
        await reader.readuntil(text.encode())
        writer.close()

    async def try_to_write(self) -> None:
        """Check that no page and no call of the console changes anything."""
        calls = json.loads((await self.get("/api/v1/openapi.json")).body)["paths"]
        for path in (*PAGES, *calls):
            check(set(calls.get(path, ("get",))) == {"get"}, f"{path} offers {calls.get(path)}")
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                status = (await self.get(path, method)).status
                check(status == 405, f"{method} {path} answers {status}")


@asynccontextmanager
async def _console(store: str) -> AsyncIterator[_Page]:
    with started("console", "--listen", "127.0.0.1:0", "--json", store=store) as process:
        said = await asyncio.to_thread(_first_line, process)
        yield _Page(said["console"], said["token"], process.pid)


def _first_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    check(bool(line), "the console ended")
    return dict(json.loads(line))

"""A console in memory, and reading its pages: parsed HTML, roles, names, contrast."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser

import httpx

import quire
from quire.console.access import TokenGuard
from quire.console.app import Console
from quire.console.calls import ConsoleSource
from quire.console.looks import ClusterLook
from quire.console.sampler import Sampler
from quire.gateway.tokens import Token
from quire.rights.guard import Guard
from quire.testing.cluster import MemoryCluster
from quire.wire.identity import ANONYMOUS, Identity
from tests.console.scene import NOW

TOKEN = "a-token"
ADDRESS = "http://127.0.0.1:8190"

ANNOUNCED = 1.0
"""Virtual seconds after which every reader has learned of an appended record."""

VOID = frozenset({"meta", "link", "input", "br", "img"})


class Shown:
    """A console of this process, without sockets."""

    def __init__(self, console: Console, source: ConsoleSource, token: str = TOKEN) -> None:
        self.console = console
        self.source = source
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=console.app),
            base_url=ADDRESS,
            headers={"Authorization": f"Bearer {token}"} if token else {},
        )

    def show(self, snapshot: ClusterLook) -> None:
        """Let pages be about a cluster that the test made up."""
        self.source.sampler.snapshot = snapshot

    async def page(self, path: str, **query: str) -> Element:
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return parse(answer.text)


@asynccontextmanager
async def console_of(
    cluster: MemoryCluster,
    token: str = TOKEN,
    *,
    shows_records: bool = True,
    holder: Identity = ANONYMOUS,
    rights: Guard | None = None,
) -> AsyncIterator[Shown]:
    async with quire.connect(cluster.store_uri) as client:
        sampler = Sampler(client, lambda: NOW / 1000)
        source = ConsoleSource(client, sampler, lambda: NOW, shows_records)
        guard = TokenGuard([Token(TOKEN, holder)], on_loopback=True, port=8190)
        shown = Shown(Console(source, guard, rights), source, token)
        try:
            yield shown
        finally:
            await shown.console.end()
            await sampler.close()
            await shown.http.aclose()


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)
    parent: Element | None = None

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str, **attributes: str) -> list[Element]:
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            each
            for each in self.walk()
            if each.tag == tag
            and all(each.attributes.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        (found,) = self.all(tag, **attributes)
        return found

    @property
    def text(self) -> str:
        """The text, and the labels of pictures."""
        parts = [child if isinstance(child, str) else child._said() for child in self.children]
        return " ".join(" ".join(parts).split())

    def _said(self) -> str:
        return self.attributes["aria-label"] if self.tag == "svg" else self.text

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("document")
        self.at = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        made = Element(tag, {name: value or "" for name, value in attrs}, parent=self.at)
        self.at.children.append(made)
        if tag not in VOID:
            self.at = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def parse(text: str) -> Element:
    """Return a page as a tree. Elements that are not closed, or closed in another order, fail."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    assert builder.at is builder.root, f"<{builder.at.tag}> is not closed"
    return builder.root


async def fill(shown: Shown, records: Sequence[bytes] = (b"a", b"b", b"c")) -> None:
    async with shown.source.client.lead_log("orders") as log:
        for record in records:
            await log.append(record)
        await asyncio.sleep(ANNOUNCED)
        await shown.source.sampler.look()

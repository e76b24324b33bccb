"""Store URIs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from quire.errors import ConfigurationError, NodeExistsError
from quire.metastore import create_store, open_store


def test_a_memory_store_is_a_tree_of_its_own() -> None:
    async def main() -> None:
        one, other = await open_store("memory:"), await open_store("memory:")
        await one.create("/a", b"")
        assert (one.uri, await other.children("/")) == ("memory:", [])
        await one.close()
        await other.close()

    asyncio.run(main())


def test_a_store_names_itself_as_it_was_opened(tmp_path: Path) -> None:
    async def main() -> None:
        uri = f"sqlite://{tmp_path}/metadata.db"
        store = await create_store(uri)
        assert store.uri == uri
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "memory",
        "memory://",
        "sqlite:",
        "sqlite://relative.db",
        "sqlite:///",
        "sqlite:///directory/",
        "sqlite:///no\0file",
        "zk:",
        "zk://",
        "zk:///root",
        "zk://a b:2181",
        "zk://host:port",
        "zk://h1,,h2",
        "zk://host/root//double",
        "zk://host/../up",
        "etcd://host",
        "/a/path",
    ],
)
def test_other_uris_are_refused_with_the_forms_that_are_not(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="zk://"):
        asyncio.run(open_store(uri))


def test_a_mistyped_path_is_not_made_a_store(tmp_path: Path) -> None:
    """An empty cluster at the wrong place looked like one that had lost its logs."""
    for path in (tmp_path / "typo.db", tmp_path / "no" / "directory.db", tmp_path / "a%3Fb#.db"):
        with pytest.raises(ConfigurationError, match="quire cluster up") as raised:
            asyncio.run(open_store(f"sqlite://{path}"))
        assert str(path) in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_store_is_not_made_one(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(ConfigurationError, match="no metadata store"):
        asyncio.run(open_store(f"sqlite://{tmp_path}/empty.db"))


@pytest.mark.parametrize("name", ["a b.db", "q?mode=ro#.db", "100%41.db", "ä.db"])
def test_a_file_has_any_name(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        uri = f"sqlite://{tmp_path}/{name}"
        for opener in (create_store, create_store, open_store):
            store = await opener(uri)
            with suppress(NodeExistsError):
                await store.create("/a", b"kept")
            await store.close()
        assert (tmp_path / name).is_file()
        store = await open_store(uri)
        assert (await store.get("/a")).value == b"kept"
        await store.close()

    asyncio.run(main())

"""Store URIs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quire.errors import ConfigurationError
from quire.metastore import open_store


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
        store = await open_store(uri)
        assert store.uri == uri
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "memory",
        "memory://x",
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

"""Where a cluster's metadata store is: named by its URI, or by the directory of a local cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quire.errors import ConfigurationError

METADATA_FILE: Final = "metadata.db"
"""The SQLite store in the directory of a local cluster."""

STORE_FILE: Final = "store"
"""In such a directory: the URI of its store, if the store is elsewhere."""


def resolve_store(store: str) -> str:
    """Return the URI of a store that was named by URI or by a local cluster's directory.

    Raises `ConfigurationError` when a directory holds no cluster or cannot be looked at.
    """
    if "://" in store or store == "memory:":
        return store
    directory = place_of(store)
    try:
        if (directory / STORE_FILE).is_file():
            return (directory / STORE_FILE).read_text(encoding="utf-8-sig").strip()
        if (directory / METADATA_FILE).is_file():
            return cluster_store(directory)
    except (OSError, ValueError) as error:  # no access, no text
        raise ConfigurationError(f"the directory {store!r} cannot be used: {error}") from error
    raise ConfigurationError(
        f"{store!r} is neither a store's URI (sqlite:///path, zk://host:port/root) nor the "
        f"directory of a local cluster: `quire cluster up --data {store}` would make it one"
    )


def place_of(directory: str | Path) -> Path:
    """Return the directory that a name means to every process, wherever the process runs.

    Raises `ConfigurationError` for a home that does not exist, a loop of links and a name that is
    none.
    """
    try:
        return Path(directory).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"the directory {str(directory)!r} cannot be used: {error}"
        ) from error


def remember_store(directory: Path, store: str) -> None:
    """Note the URI of a store in the directory of its cluster; a reader finds the whole URI, or the
    whole previous one. Raises `ConfigurationError` when it cannot be written.
    """
    note = directory / STORE_FILE
    whole = note.with_name(f"{STORE_FILE}.new")
    try:
        whole.write_text(f"{store}\n", encoding="utf-8")
        whole.replace(note)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the store cannot be noted in {note}: {error}") from error


def cluster_store(directory: Path) -> str:
    """Return the URI of the SQLite store in the directory of a local cluster."""
    return f"sqlite://{directory / METADATA_FILE}"

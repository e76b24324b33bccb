"""`quire dump`: the contents of a bookie's file, or of a record of the metadata store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from quire.cli.output import print_fields, print_json
from quire.cli.settings import Settings, run, with_settings
from quire.errors import ConfigurationError, NoSuchNodeError
from quire.metastore.place import resolve_store


@click.command(short_help="Print the contents of a bookie's file or a metadata record.")
@click.argument("path", metavar="PATH")
@with_settings
def dump(settings: Settings, path: str) -> None:
    """Print the contents of a bookie's file, or of a metadata record.

    PATH is a cookie, checkpoint, journal segment or entry log (the bookie may be running), or the
    path of a record in the metadata store, which begins with /quire. Payloads are not shown.

    \b
    Example:
      quire dump /var/lib/quire/journal/0000000000000007.journal
      quire dump /quire/ledgers --store zk://zoo:2181/quire
    """
    file = Path(path)
    if file.is_file():
        run(lambda: _dump_file(settings, file))
    elif path.startswith("/quire"):
        run(lambda: _dump_record(settings, path))
    else:
        raise ConfigurationError(
            f"{path} is neither a file nor the path of a metadata record (/quire/…)"
        )


async def _dump_file(settings: Settings, file: Path) -> None:
    from quire.storage.offline.dump import describe

    async for row in describe(str(file), _content(file)):
        if settings.json:
            print_json(row)
        else:
            click.echo(" ".join(f"{name}={value}" for name, value in row.items()))


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:  # a disk that fails in the middle of a file names none
        raise OSError(error.errno, error.strerror, str(file)) from error


async def _dump_record(settings: Settings, path: str) -> None:
    from quire.metastore import open_store

    store = await open_store(resolve_store(settings.store_uri()))
    try:
        children = await store.children(path)
        try:
            found = await store.get(path)
            value, version = found.value, found.version
        except NoSuchNodeError:
            if not children:
                raise
            value, version = b"", 0
    finally:
        await store.close()
    _print_record(settings, path, version, _parts(path, value), children)


def _parts(path: str, value: bytes) -> dict[str, object]:
    """Return title and body of a record; nothing for the parents that stores make."""
    from quire.metastore.record import decode_record

    if not value:
        return {}
    kind = (*value[:64].split(b" "), b"")[1].decode("ascii", "replace")
    version, body = decode_record(path, kind, value)
    return {"kind": kind, "format": version, "body": body}


def _print_record(
    settings: Settings, path: str, version: int, parts: Mapping[str, object], children: list[str]
) -> None:
    fields: dict[str, object] = {"path": path, "version": version, **parts, "children": children}
    if settings.json:
        print_json(fields)
        return
    body = fields.pop("body", {})
    assert isinstance(body, dict)
    shown = {name: json.dumps(value, ensure_ascii=False) for name, value in body.items()}
    print_fields({**fields, "children": ", ".join(children) or None, **shown})

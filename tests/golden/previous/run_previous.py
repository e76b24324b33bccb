"""Run the command `quire` of the program before: `python run_previous.py DIRECTORY ARGUMENTS`.

The directory holds the content of the wheel beside this file, as `unpack` puts it there.
"""

from __future__ import annotations

import runpy
import sys
import zipfile
from pathlib import Path


def unpack(directory: Path) -> tuple[str, str]:
    """Unpack the wheel; return what runs its command after `python`."""
    (wheel,) = Path(__file__).resolve().parent.glob("quire-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return str(Path(__file__).resolve()), str(directory)


if __name__ == "__main__":
    home = sys.argv.pop(1)
    sys.path.insert(0, home)
    sys.argv[0] = "quire"
    import quire

    assert str(quire.__file__).startswith(home), f"{quire.__file__} is not the program before"
    runpy.run_module("quire", run_name="__main__")

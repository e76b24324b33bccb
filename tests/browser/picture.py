"""Draw the picture of the README: `make picture`. The cluster in it is planted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.browser.stage import WIDE, browser, stage
from tests.console import scene
from tests.console.pages import TOKEN

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "console.png"


def main() -> None:
    """Take the picture of the first page with a slow bookie and a lagging reader."""
    with stage() as shown, browser() as window:
        shown.show(scene.all_troubles(scene.healthy()))
        window.driver.get(f"{shown.address}/open?token={TOKEN}")
        window.window(WIDE)
        window.driver.get(shown.address)
        taken = window.shoot("console")
        PICTURE.write_bytes(taken.read_bytes())
    print(f"{PICTURE} has {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()

"""A console on a socket of this machine, and a headless Chromium to look at it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import quire
from quire.aio.tasks import first_of
from quire.client import Client
from quire.console.access import TokenGuard
from quire.console.app import Console
from quire.console.calls import ConsoleSource
from quire.console.looks import ClusterLook
from quire.console.sampler import Sampler
from quire.gateway.tokens import Token
from quire.http_server import bind, serve_application
from quire.testing.cluster import MemoryCluster
from tests.console.pages import TOKEN
from tests.console.scene import NOW

BROWSERS: Final = ("chromium", "google-chrome", "chrome")
WIDE, NARROW = (1280, 800), (400, 800)
SHOTS: Final = Path(__file__).resolve().parents[2] / "build" / "browser"


class Stage:
    """A console in a thread of its own. Its snapshot is planted, its logs are real."""

    def __init__(
        self, address: str, source: ConsoleSource, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.address = address
        self.source = source
        self._loop = loop

    def show(self, snapshot: ClusterLook) -> None:
        """Let the pages be about a cluster that the test made up."""
        self.source.sampler.snapshot = snapshot

    def do(self, work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
        """Do something with the client of the console's cluster."""
        return asyncio.run_coroutine_threadsafe(work(self.source.client), self._loop).result(30)


@contextmanager
def stage() -> Iterator[Stage]:
    """Serve a console over a cluster in memory."""
    made: list[Stage] = []
    ready, ending = threading.Event(), asyncio.Event()

    async def serve() -> None:
        cluster = MemoryCluster()
        with contextlib.closing(bind("127.0.0.1:0")) as listening:
            port = listening.getsockname()[1]
            async with quire.connect(cluster.store_uri) as client:
                sampler = Sampler(client, lambda: NOW / 1000)
                source = ConsoleSource(client, sampler, lambda: NOW)
                console = Console(source, TokenGuard([Token(TOKEN)], on_loopback=True, port=port))
                address = f"http://127.0.0.1:{port}"
                made.append(Stage(address, source, asyncio.get_running_loop()))
                serving = serve_application(
                    console.app, listening, ready=ready.set, ending=console.end
                )
                await first_of(serving, ending.wait())

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(30), "the console does not start"
        yield made[0]
    finally:
        made[0]._loop.call_soon_threadsafe(ending.set)
        thread.join(30)


class Browser:
    """A headless Chromium with its window, theme and a record of its requests."""

    def __init__(self, driver: Any) -> None:
        """`driver` is selenium's, which linters do without."""
        self.driver = driver

    def window(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Set the size of the page and the theme that its user prefers."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def run(self, script: str, *given: object) -> Any:
        """Run a script in the page and return its result."""
        return self.driver.execute_script(script, *given)

    def shoot(self, name: str) -> Path:
        """Take a picture of the window."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        path = SHOTS / f"{name}.png"
        assert self.driver.save_screenshot(str(path))
        return path

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def complaints(self) -> list[str]:
        """Return what the browser complained of since the last call: errors, refused styles."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a Chromium. Without one the tests fail: `make browser` installs it."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver_program = shutil.which("chromedriver")
    missing = "Chromium or its driver is missing: `make browser` installs both"
    assert program is not None, missing
    assert driver_program is not None, missing
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for each in (
        *("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars", "disable-extensions"),
        *("disable-background-networking", "disable-component-update", "no-first-run"),
        *("disable-default-apps", "disable-sync", "disable-dev-shm-usage"),
    ):
        options.add_argument(f"--{each}")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="quire-browser-", ignore_cleanup_errors=True) as home:
        # A browser writes where its user's settings are; here that would be the repository.
        service = Service(driver_program, env={**os.environ, "XDG_CONFIG_HOME": home})
        driver = webdriver.Chrome(options, service)
        try:
            driver.set_page_load_timeout(30)
            yield Browser(driver)
        finally:
            driver.quit()

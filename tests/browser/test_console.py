"""The console in a real browser: what is seen without scrolling, in both themes and two widths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from quire.client import Client
from quire.console.calls import CALLS
from quire.console.looks import ClusterLook
from tests.browser.stage import NARROW, WIDE, Browser, Stage, browser, stage
from tests.console import scene
from tests.console.pages import TOKEN

SECONDS_MAX: Final = 20.0
"""A deadline that is there to fail, not to time."""

PAGE_SECONDS: Final = 1.0
"""Every page is shown within so long, also of a large cluster."""

GIVEN: Final = {
    "log": "?name=orders",
    "records": "?log=orders&from=beginning",
    "ledger": "?id=0",
}

SIZES: Final = {"wide": WIDE, "narrow": NARROW}


async def fill(client: Client) -> None:
    async with await client.open_log("orders") as log:
        for number in range(120):
            await log.append(b'{"order": %d}' % number)


@pytest.fixture(scope="module")
def shown() -> Iterator[Stage]:
    with stage() as made:
        made.do(fill)
        yield made


@pytest.fixture(scope="module")
def window(shown: Stage) -> Iterator[Browser]:
    with browser() as made:
        made.driver.get(f"{shown.address}/open?token={TOKEN}")
        yield made


def until(window: Browser, condition: Callable[[], Any]) -> Any:
    """Wait until a condition holds, and return its value."""
    return WebDriverWait(window.driver, SECONDS_MAX, 0.05).until(lambda _: condition())


def seen(window: Browser) -> str:
    """Return the text in the window, without scrolling."""
    text = window.run(
        """
        const found = [];
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
          const range = document.createRange();
          range.selectNodeContents(walker.currentNode);
          const box = range.getBoundingClientRect();
          if (box.width && box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth)
            found.push(walker.currentNode.textContent);
        }
        return found.join(" ");
        """
    )
    return " ".join(str(text).split())


TROUBLES: Final[dict[str, tuple[Callable[[ClusterLook], ClusterLook], tuple[str, ...]]]] = {
    "slow bookie": (scene.slow_bookie, ("Look at this", "Which bookie is slow?", "b03", "950 ms")),
    "waiting appends": (
        scene.waiting_appends,
        ("Act now", "Appends wait", "needs 3 writable bookies", "b02 is silent"),
    ),
    "growing log": (
        scene.growing_log,
        ("All is well", "Which log grows fastest?", "payments", "4,711/s"),
    ),
    "lagging reader": (
        scene.lagging_reader,
        ("Look at this", "Which reader lags?", "fraud-check", "1.2 M records", "orders"),
    ),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_planted_trouble_is_seen_without_scrolling(
    trouble: str, dark: bool, size: str, shown: Stage, window: Browser
) -> None:
    plant, texts = TROUBLES[trouble]
    shown.show(plant(scene.healthy()))
    window.window(SIZES[size], dark=dark)
    window.driver.get(shown.address)
    text = seen(window)
    for each in texts:
        assert each in text, f"{each!r} is not seen: {text}"
    window.shoot(f"{trouble.replace(' ', '-')}-{size}-{'dark' if dark else 'light'}")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bookies", [0, 3, 50])
def test_every_page_is_quick_and_fits_its_window(
    bookies: int, size: str, shown: Stage, window: Browser
) -> None:
    """No page scrolls sideways, none asks another host, none has a script or style refused."""
    value = scene.healthy(bookies, 20 * bookies)
    shown.show(scene.all_troubles(value) if bookies == 50 else value)
    window.window(SIZES[size])
    window.requests()
    for call in CALLS:
        window.driver.get(shown.address + call.page + GIVEN.get(call.name, ""))
        timing = window.run(
            "const e = performance.getEntriesByType('navigation')[0]; return e.duration / 1000"
        )
        assert timing < PAGE_SECONDS, f"{call.page} took {timing:.2f} s"
        width, inner = window.run(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert width <= inner, f"{call.page} is {width} wide in a window of {inner}"
        window.shoot(f"{call.name}-{bookies}-{size}")
    assert window.complaints() == []
    hosts = {urlsplit(each).netloc for each in window.requests()} - {""}
    assert hosts == {urlsplit(shown.address).netloc}, "no request leaves the host"


CONTRAST: Final = """
const parse = text => text.match(/[\\d.]+/g).map(Number);
const channel = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const back = node => {
  for (let at = node; at; at = at.parentElement) {
    const color = parse(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
const bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
  if (!text || !node.getClientRects().length) continue;
  const style = getComputedStyle(node);
  if (node.closest("svg")) continue;
  const [high, low] = [light(parse(style.color)), light(back(node))].sort((a, b) => b - a);
  const ratio = (high + 0.05) / (low + 0.05);
  const large = parseFloat(style.fontSize) >= 24;
  if (ratio < (large ? 3 : 4.5)) bad.push(`${text}: ${ratio.toFixed(2)}`);
}
return bad;
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_rendered_text_stands_out_from_its_ground(
    dark: bool, shown: Stage, window: Browser
) -> None:
    shown.show(scene.healing_work(scene.all_troubles(scene.healthy())))
    window.window(WIDE, dark=dark)
    for call in CALLS:
        window.driver.get(shown.address + call.page + GIVEN.get(call.name, ""))
        assert window.run(CONTRAST) == [], call.page
        window.shoot(f"{call.name}-{'dark' if dark else 'light'}")


def test_every_link_is_reached_by_the_keyboard_and_seen(shown: Stage, window: Browser) -> None:
    shown.show(scene.all_troubles(scene.healthy()))
    window.window(WIDE)
    window.driver.get(shown.address)
    reached: list[str] = []
    for _ in range(40):
        window.driver.switch_to.active_element.send_keys(Keys.TAB)
        text, outline = window.run(
            "const at = document.activeElement, style = getComputedStyle(at);"
            "return [at.textContent.trim().split('\\n')[0], style.outlineStyle]"
        )
        if text in reached or window.run("return document.activeElement === document.body"):
            break
        assert outline != "none", f"the focus on {text!r} cannot be seen"
        reached.append(text)
    assert reached[0] == "Skip to the content"
    for name in ("Overview", "Bookies", "Logs", "Which reader lags?"):
        assert any(each.startswith(name) for each in reached), reached


def test_a_live_page_shows_the_next_look_without_a_reload(shown: Stage, window: Browser) -> None:
    shown.show(scene.healthy())
    window.window(WIDE)
    window.driver.get(shown.address)
    window.run("window.isTheSame = true")
    assert "All is well" in seen(window)
    shown.show(scene.waiting_appends(scene.healthy()))
    until(window, lambda: "Act now" in seen(window))
    assert window.run("return window.isTheSame"), "the page was not loaded anew"
    assert window.run("return document.querySelectorAll('#live').length") == 1
    assert window.complaints() == []


def test_the_tail_of_a_log_is_live_and_can_be_paused(shown: Stage, window: Browser) -> None:
    window.window(WIDE)
    window.driver.get(f"{shown.address}/log?name=orders")
    button = window.driver.find_element(By.ID, "tail-button")
    button.click()
    state = window.driver.find_element(By.ID, "tail-state")
    until(window, lambda: "following" in state.text)

    async def more(client: Client) -> None:
        async with await client.open_log("orders") as log:
            for number in range(130):
                await log.append(b"<i>live %d</i>" % number)

    shown.do(more)
    rows = "#tail-rows tr"
    first = until(
        window,
        lambda: [
            each.text
            for each in window.driver.find_elements(By.CSS_SELECTOR, rows)[:1]
            if "live 129" in each.text
        ],
    )
    assert "<i>live 129</i>" in first[0], "a payload is text"
    assert len(window.driver.find_elements(By.CSS_SELECTOR, rows)) == 100
    window.shoot("tail")
    button.click()
    assert (button.text, state.text) == ("Follow", "paused")
    assert window.complaints() == []


def test_records_are_found_from_the_page_of_a_log(shown: Stage, window: Browser) -> None:
    window.window(NARROW)
    window.driver.get(f"{shown.address}/log?name=orders")
    field = window.driver.find_element(By.ID, "from")
    field.clear()
    field.send_keys("42", Keys.ENTER)
    until(window, lambda: "/records" in window.driver.current_url)
    assert '{"order": 42}' in window.driver.find_element(By.TAG_NAME, "tbody").text
    window.shoot("records-narrow")


def test_without_a_token_the_page_asks_for_it(shown: Stage, window: Browser) -> None:
    window.window(WIDE)
    window.driver.delete_all_cookies()
    window.driver.get(f"{shown.address}/logs")
    field = window.driver.find_element(By.ID, "token")
    field.send_keys("wrong", Keys.ENTER)
    until(window, lambda: "This token is wrong" in window.driver.page_source)
    window.shoot("token")
    window.driver.find_element(By.ID, "token").send_keys(TOKEN, Keys.ENTER)
    until(window, lambda: window.driver.find_elements(By.CSS_SELECTOR, ".tiles"))
    window.complaints()  # of the refused requests


def test_pages_work_without_scripts(shown: Stage, window: Browser) -> None:
    shown.show(scene.all_troubles(scene.healthy(3, 300)))
    window.window(WIDE)
    window.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        window.driver.get(f"{shown.address}/logs?order=growth")
        window.driver.find_element(By.LINK_TEXT, "Next 100").click()
        until(window, lambda: "page=2" in window.driver.current_url)
        assert "order=growth" in window.driver.current_url
        assert re.search(r"page 2 of \d", window.driver.page_source)
    finally:
        window.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

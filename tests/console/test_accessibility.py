"""Pages for all readers: names, labels, headings, tables, and the contrast of both themes.

The rules are those of WCAG 2.1 AA as far as the HTML and the style sheet tell; the browser's tests
compute them again on rendered pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from quire.console.calls import CALLS
from quire.console.looks import ClusterLook
from quire.console.rendering import STATIC
from quire.testing.cluster import MemoryCluster
from tests.console import scene
from tests.console.pages import Element, Shown, console_of, fill, parse
from tests.console.test_app import GIVEN

STYLE = (STATIC / "console.css").read_text(encoding="utf-8")

SCENES: dict[str, Callable[[ClusterLook], ClusterLook]] = {
    "healthy": lambda value: value,
    "troubles": lambda value: scene.healing_work(scene.all_troubles(value)),
    "empty": lambda value: scene.healthy(0, 0),
}


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.mark.parametrize("name", SCENES)
async def test_every_page_has_names_labels_and_headings(name: str, cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        await fill(shown)
        shown.show(SCENES[name](scene.healthy()))
        for call in CALLS:
            page = await shown.page(call.page, **GIVEN.get(call.name, {}))
            look_at(page, call.page)
        await look_at_messages(shown)


async def look_at_messages(shown: Shown) -> None:
    look_at(parse((await shown.http.get("/log?name=gone")).text), "/log?name=gone")
    shown.http.headers.pop("authorization")
    look_at(parse((await shown.http.get("/")).text), "the page that asks for a token")


def look_at(page: Element, where: str) -> None:
    for rule in RULES:
        problem = rule(page)
        assert not problem, f"{where}: {rule.__doc__} {problem}"


def landmarks(page: Element) -> object:
    """A page has its language, title, one main part, and a link to it."""
    html, main = page.one("html"), page.one("main")
    skip = page.all("a", class_="skip")
    is_fine = (
        html.attributes.get("lang") == "en"
        and page.one("head").one("title").text
        and skip
        and skip[0].attributes["href"] == f"#{main.attributes['id']}"
        and "user-scalable" not in str(page.one("meta", name="viewport").attributes)
    )
    return not is_fine


def headings(page: Element) -> object:
    """One first heading, and no level is left out."""
    levels = [int(each.tag[1]) for each in page.walk() if re.fullmatch("h[1-6]", each.tag)]
    jumps = [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1]
    return jumps or levels.count(1) != 1 or levels[0] != 1


def identities(page: Element) -> object:
    """Ids are there once, and what names them exists."""
    ids = [each.attributes["id"] for each in page.walk() if "id" in each.attributes]
    twice = {each for each in ids if ids.count(each) > 1}
    named = {
        part
        for each in page.walk()
        for key in ("aria-labelledby", "aria-describedby", "for")
        for part in each.attributes.get(key, "").split()
    }
    return twice or named - set(ids)


def fields(page: Element) -> object:
    """Every field has a label, every button and link a text."""
    labels = {each.attributes.get("for") for each in page.all("label") if each.text}
    bare = [
        each.attributes
        for each in page.all("input")
        if each.attributes.get("type") != "hidden" and each.attributes.get("id") not in labels
    ]
    mute = [each.attributes for tag in ("a", "button") for each in page.all(tag) if not each.text]
    return bare or mute


def pictures(page: Element) -> object:
    """Every picture says what it shows, or is hidden from readers."""
    return [
        each.attributes
        for each in page.all("svg")
        if each.attributes.get("role") != "img" or not each.attributes.get("aria-label")
    ]


def tables(page: Element) -> object:
    """Heads of columns and rows say so; a row has as many cells as the table has columns."""
    for table in page.all("table"):
        columns = table.one("thead").all("th")
        if any(each.attributes.get("scope") != "col" for each in columns):
            return "a head without scope"
        for row in table.one("tbody").all("tr"):
            cells = [
                each
                for each in row.children
                if isinstance(each, Element) and each.tag in ("th", "td")
            ]
            width = sum(int(each.attributes.get("colspan", "1")) for each in cells)
            if width != len(columns) or cells[0].tag != "th" or "scope" not in cells[0].attributes:
                return row.text
    return ""


def regions(page: Element) -> object:
    """What scrolls can be reached by keys and has a name; so has every part of a page."""
    for each in page.walk():
        if "scroll" in each.classes and (
            each.attributes.get("tabindex") != "0"
            or each.attributes.get("role") != "region"
            or not each.attributes.get("aria-label")
        ):
            return each.attributes
        if each.tag in ("section", "nav") and not (
            {"aria-label", "aria-labelledby"} & each.attributes.keys()
        ):
            return each.attributes
    return ""


def order(page: Element) -> object:
    """No element is put before others in the order of keys."""
    return [each for each in page.walk() if int(each.attributes.get("tabindex", "0")) > 0]


RULES = (landmarks, headings, identities, fields, pictures, tables, regions, order)


def variables(dark: bool) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(blocks) == 2, "light and dark"
    found: dict[str, str] = {}
    for block in blocks[: 1 + dark]:
        found.update(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    return found


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


BACKS = ("back", "panel", "ok-back", "warning-back", "critical-back", "unknown-back")
TEXTS = [
    *((text, back) for text in ("text", "link", "muted") for back in BACKS),
    *((each, f"{each}-back") for each in ("ok", "warning", "critical", "unknown")),
    *((each, "panel") for each in ("ok", "warning", "critical", "unknown")),
    ("panel", "link"),
    ("text", "area"),
]
"""Text on its back."""

SHAPES = [
    *(("curve", "panel"), ("edge", "panel"), ("edge", "back"), ("focus", "panel")),
    *(("focus", "back"), ("ok", "panel"), ("warning", "bar-back"), ("curve", "bar-back")),
]
"""Lines and bars that tell something."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_and_shapes_stand_out_in_both_themes(dark: bool) -> None:
    colors = variables(dark)
    for pairs, least in ((TEXTS, 4.5), (SHAPES, 3.0)):
        for front, back in pairs:
            found = contrast(colors[front], colors[back])
            assert found >= least, f"{front} on {back}: {found:.2f}, {least} is needed"


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_both_themes_have_all_colors_and_no_rule_has_its_own() -> None:
    assert variables(False).keys() == variables(True).keys()
    rules = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert not re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(", rules)
    used = set(re.findall(r"var\(--([\w-]+)\)", rules))
    assert used <= variables(False).keys()


def test_every_class_of_a_page_is_styled_or_used() -> None:
    known = set(re.findall(r"\.([a-z][\w-]*)", STYLE))
    plain = {"icon", "reason-code"}
    for path in sorted(Path(STATIC.parent, "templates").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        for classes in re.findall(r'class="([^"{]*)"', text):
            assert set(classes.split()) <= known | plain, f"{path.name}: {classes}"


def test_color_is_never_the_only_sign() -> None:
    """Each severity has a picture of its own shape, with its name."""
    parts = (STATIC.parent / "templates" / "parts.html").read_text(encoding="utf-8")
    shapes = re.findall(r"<(?:circle|path)[^>]*/><path d=\"[^\"]+\"/>", parts)
    assert len(shapes) == len(set(shapes)) == 4


def test_what_has_the_focus_is_seen_and_nothing_moves_against_a_wish() -> None:
    assert ":focus-visible" in STYLE
    assert "prefers-reduced-motion: reduce" in STYLE
    assert not re.search(r"outline:\s*(none|0)", STYLE.replace("main:focus { outline: none; }", ""))

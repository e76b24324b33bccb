"""Templates: from views to pages. Every text is escaped, but for charts, which escape theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from quire.console import charts, words
from quire.console.views.logs import SegmentPiece
from quire.extras import needed_for
from quire.version import __version__

with needed_for("quire console", "console"):
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

HERE: Final = Path(__file__).resolve().parent
STATIC: Final = HERE / "static"

_CODE: Final = re.compile(r"`([^`]+)`")


def code(text: str) -> Markup:
    """Return a text with `commands` in their own type."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _markup(draw: Callable[..., str]) -> Callable[..., Markup]:
    return lambda *given: Markup(draw(*given))


def _strip(pieces: Sequence[SegmentPiece], label: str) -> Markup:
    drawn = charts.strip([(each.share, each.kind, each.text) for each in pieces], label)
    return Markup(drawn)


def log_link(name: str) -> str:
    """Return the address of a log's page."""
    return f"/log?name={quote(name, safe='')}"


def records_link(log: str, start: str) -> str:
    """Return the address of a page of records."""
    return f"/records?{urlencode({'log': log, 'from': start})}"


def link_with(path: str, given: Mapping[str, str], name: str, value: object) -> str:
    """Return the address of the same page with another parameter."""
    kept = {key: text for key, text in given.items() if key != name}
    if name != "page":
        kept.pop("page", None)
    return f"{path}?{urlencode({**kept, name: str(value)})}"


def environment() -> Environment:
    """Return the templates with everything that they use."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "code": code,
        "moment": words.moment,
        "number": words.number,
        "plural": words.plural,
        "rate": words.rate,
        "seconds": words.seconds,
        "share": words.share,
        "short": words.short,
        "size": words.size,
    }
    made.globals |= {
        "bar": _markup(charts.bar),
        "curve": _markup(charts.curve),
        "spark": _markup(charts.spark),
        "strip": _strip,
        "log_link": log_link,
        "records_link": records_link,
        "version": f"quire {__version__}",
    }
    return made


class PageRenderer:
    """Renders views by the names of their templates."""

    def __init__(self, links: Sequence[Mapping[str, str]]) -> None:
        """`links` are the pages of the navigation: their paths and titles."""
        self._environment = environment()
        self._links = links

    def page(
        self, name: str, title: str, path: str, given: Mapping[str, str], **values: Any
    ) -> str:
        """Return a page. `path` and the parameters `given` are where it is."""
        query = urlencode(dict(given))
        return self._environment.get_template(f"{name}.html").render(
            title=title,
            here=path,
            url=f"{path}?{query}" if query else path,
            pages=self._links,
            page_link=partial(link_with, path, given, "page"),
            order_link=partial(link_with, path, given, "order"),
            **values,
        )

    def message(self, title: str, message: str, severity: str, *, login: bool = False) -> str:
        """Return a page with a message; with `login`, it asks for a token."""
        return self._environment.get_template("message.html").render(
            title=title,
            message=message,
            severity=severity,
            login=login,
            here="",
            url="",
            pages=() if login else self._links,
            snapshot=None,
            refreshes=None,
        )

    def record(self, row: object) -> str:
        """Return the row of a record on one line, as an event of a stream needs it."""
        rendered = self._environment.get_template("record_row.html").render(each=row)
        return rendered.replace("\r", "&#13;").replace("\n", "&#10;")

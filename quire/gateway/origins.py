"""Pages of other origins that may use a gateway from a browser (CORS).

No page may by default: a gateway without tokens would be open to each page that a user of its
machine looks at. `--allow-origin` names the origins of the pages that may. A browser asks first
(a preflight, without a token), and lets a page read the headers that are named here only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from quire.errors import ConfigurationError
from quire.extras import needed_for

with needed_for("quire gateway", "gateway"):
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware

ANY_ORIGIN: Final = "*"

EXPOSED: Final = (
    "ETag", "Location", "Retry-After",
    "Quire-Next", "Quire-Offset", "Quire-Position",
    "Stream-Next-Offset", "Stream-Cursor", "Stream-Up-To-Date", "Stream-Closed", "Stream-TTL",
    "Stream-Expires-At", "Stream-SSE-Data-Encoding",
    "Producer-Epoch", "Producer-Seq", "Producer-Expected-Seq", "Producer-Received-Seq",
)  # fmt: skip
"""Headers of answers that a client needs and a browser hides from pages of other origins."""

_HOST: Final = re.compile(r"[a-z0-9._:-]+")
"""Of an origin as browsers send it: a pattern or letters beyond ASCII would equal none."""

PREFLIGHT_SECONDS: Final = 600
"""A browser asks again after so long."""


def check_origins(origins: Iterable[str], *, has_tokens: bool) -> tuple[str, ...]:
    """Return the origins as browsers send them.

    Raises `ConfigurationError` for text that cannot be an origin, and for all origins
    without tokens.
    """
    found = tuple(dict.fromkeys(_origin(each) for each in origins))
    if ANY_ORIGIN in found and not has_tokens:
        raise ConfigurationError(
            "--allow-origin '*' would let each page in a browser of this machine use the logs: "
            "name the origins, or pass --token-file"
        )
    return found


def _origin(text: str) -> str:
    if text == ANY_ORIGIN:
        return text
    wrong = ConfigurationError(
        f"--allow-origin {text!r} is not an origin: write it as https://app.example.com or "
        "http://localhost:5173, without a path or a pattern, other letters as xn--"
    )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise wrong from None
    rest = parts.path.rstrip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme not in ("http", "https") or not parts.hostname or rest:
        raise wrong
    if not _HOST.fullmatch(parts.hostname):
        raise wrong
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_usual = port in (None, {"http": 80, "https": 443}[parts.scheme])
    return f"{parts.scheme}://{host}" + ("" if is_usual else f":{port}")


def cross_origin(origins: Sequence[str], methods: Iterable[str]) -> list[Middleware]:
    """Return what tells browsers about calls with these methods: nothing without origins."""
    if not origins:
        return []
    options: dict[str, Any] = {
        "allow_origins": list(origins),
        "allow_methods": sorted({*methods, "HEAD"}),
        "allow_headers": [ANY_ORIGIN],
        "expose_headers": EXPOSED,
        "max_age": PREFLIGHT_SECONDS,
    }
    return [Middleware(CORSMiddleware, **options)]

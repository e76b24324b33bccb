"""`pytest tests/scenarios --rewrite` writes what really happened into the transcripts."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="replace the expected output in tests/scenarios/transcripts; read the diff",
    )

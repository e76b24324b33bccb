"""All golden files."""

from __future__ import annotations

from typing import Final

from tests.golden.golden import Golden
from tests.golden.metadata import METADATA
from tests.golden.others import OTHERS
from tests.golden.records import RECORD_FILES
from tests.golden.storage import STORAGE
from tests.golden.wire import WIRE

GOLDEN: Final[tuple[Golden, ...]] = (*METADATA, *STORAGE, *RECORD_FILES, *WIRE, *OTHERS)

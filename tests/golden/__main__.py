"""Write the golden files that are missing, with the code of today. Never replaces one."""

from __future__ import annotations

from tests.golden.golden import FILES
from tests.golden.table import GOLDEN

for each in GOLDEN:
    if not (FILES / each.name).exists():
        (FILES / each.name).write_bytes(each.write())
        print(f"wrote {each.name}")

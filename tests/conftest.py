"""What holds for all tests: no example of hypothesis is judged by how long it took."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("quire", deadline=None, print_blob=True)
settings.load_profile("quire")

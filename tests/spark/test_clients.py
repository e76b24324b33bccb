"""What worker processes keep from task to task, and when it is looked at again."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.errors import ConfigurationError
from quire.spark.clients import worker_keyring


def test_a_key_that_was_added_to_the_file_is_known_to_the_next_task(tmp_path: Path) -> None:
    """Workers live as long as their session, and a stream's planner as its query: for months."""
    path = tmp_path / "keys"
    path.write_text(f"2026-11 {'11' * 32}\n")
    before = worker_keyring(str(path))
    assert before is not None
    assert worker_keyring(str(path)) is before
    path.write_text(f"2026-12 {'12' * 32}\n2026-11 {'11' * 32}\n")
    after = worker_keyring(str(path))
    assert after is not None
    assert (after.current, after.key("2026-11")) == ("2026-12", b"\x11" * 32)
    path.unlink()
    with pytest.raises(ConfigurationError, match="keys cannot be read"):
        worker_keyring(str(path))
    assert worker_keyring(None) is None

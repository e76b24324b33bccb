"""Values made from files: made again after the files were replaced, at a measured pace."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from quire.errors import ConfigurationError
from quire.tls_files import RETRY_SECONDS, RenewedFiles, stamp_of

LOG = logging.getLogger(__name__)


class Text:
    """The text of a file, which must not be empty; counts how often the file was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds = 0.0
        self.reads = 0
        self.shortage = ""
        path.write_text("first")
        self.files = RenewedFiles([path, None], self._read, LOG, clock=lambda: self.seconds)

    def _read(self) -> str:
        self.reads += 1
        found = self.path.read_text()
        if self.shortage or not found:
            raise ConfigurationError(f"{self.path.name} {self.shortage or 'is empty'}")
        return found


@pytest.fixture
def text(tmp_path: Path) -> Text:
    return Text(tmp_path / "file")


def test_a_file_is_read_again_once_it_was_replaced(text: Text) -> None:
    assert [text.files.newest() for _ in range(3)] == ["first"] * 3
    assert text.reads == 1
    text.path.write_text("the second")
    assert [text.files.newest() for _ in range(3)] == ["the second"] * 3
    assert text.reads == 2


def test_a_file_that_cannot_be_used_is_read_and_told_once(
    text: Text, caplog: pytest.LogCaptureFixture
) -> None:
    text.path.write_text("")
    assert [text.files.newest() for _ in range(9)] == ["first"] * 9
    assert text.reads == 2
    assert caplog.messages == ["certificates are not read again: file is empty"]
    text.path.write_text("another")
    assert text.files.newest() == "another"


def test_a_file_that_was_refused_is_tried_again_in_time(
    text: Text, caplog: pytest.LogCaptureFixture
) -> None:
    text.path.write_text("the second")
    text.shortage = "needs a descriptor"
    assert text.files.newest() == "first"
    text.seconds += RETRY_SECONDS
    assert text.files.newest() == "first"
    assert text.reads == 3
    assert len(caplog.messages) == 1
    text.shortage = "needs memory"
    text.seconds += RETRY_SECONDS
    assert text.files.newest() == "first"
    assert len(caplog.messages) == 2, "another reason is told"
    text.shortage = ""
    assert text.files.newest() == "first"
    text.seconds -= RETRY_SECONDS
    assert text.files.newest() == "the second", "the clock was set"


def test_a_file_that_cannot_be_used_at_the_start_is_an_error(tmp_path: Path) -> None:
    def read() -> str:
        raise ConfigurationError("file is empty")

    with pytest.raises(ConfigurationError, match="file is empty"):
        RenewedFiles([tmp_path / "file"], read, LOG, clock=lambda: 0.0)


def test_a_name_that_no_file_can_have_has_the_stamp_of_a_missing_file(tmp_path: Path) -> None:
    assert stamp_of(["a\0b"]) == stamp_of([tmp_path / "missing"])

"""What a local cluster leaves behind when something is wrong: nothing."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from quire.cluster import LocalCluster
from quire.cluster.process import BookieProcess
from quire.errors import ConfigurationError


def test_a_cluster_that_cannot_be_made_leaves_no_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigurationError):
        LocalCluster(zookeeper=2)
    assert list(tmp_path.iterdir()) == []


def test_a_bookie_whose_log_is_gone_still_has_last_words(tmp_path: Path) -> None:
    """Otherwise nobody hears of its death, and stopping the cluster stops halfway."""
    transport = Mock(spec=asyncio.SubprocessTransport)
    transport.get_returncode.return_value = 74
    process = BookieProcess(transport, Mock(), "bookie-0", tmp_path / "gone.log")
    assert "code 74" in process.last_words()

"""What a local cluster leaves behind when something is wrong: nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from quire.cluster import LocalCluster
from quire.errors import ConfigurationError


def test_a_cluster_that_cannot_be_made_leaves_no_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigurationError):
        LocalCluster(zookeeper=2)
    assert list(tmp_path.iterdir()) == []

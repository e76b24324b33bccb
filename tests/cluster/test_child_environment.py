"""A bookie process finds this very package, and no module of Python is shadowed by one of ours."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import quire
from quire.cluster.process import child_environment


def test_the_path_of_a_child_has_the_package_and_not_its_inside() -> None:
    home = Path(str(quire.__file__)).resolve().parent
    paths = child_environment().get("PYTHONPATH", "").split(os.pathsep)
    assert str(home) not in paths
    assert str(home.parent) in (*paths, sysconfig.get_path("purelib"))

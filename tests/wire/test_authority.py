"""What an authority of quire's takes for its own: pairs, files, and certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.errors import CertificateError
from quire.wire.issuing import CA, DAY, Authority, Pair
from tests.wire.certificates import authority

ONE = authority("one")
OTHER = authority("another")


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (Pair(ONE.pair.certificate, OTHER.pair.key), "is the key of another certificate"),
        (ONE.client("orders"), "of a bookie or client, which signs nothing"),
    ],
)
def test_a_pair_that_signs_nothing_is_no_authority(pair: Pair, why: str) -> None:
    with pytest.raises(CertificateError, match=why):
        Authority(pair)


def test_an_authority_that_has_ended_issues_nothing(tmp_path: Path) -> None:
    Authority.make(seconds=-DAY).pair.write(tmp_path, CA)
    with pytest.raises(CertificateError, match=r"ca\.pem ended at"):
        Authority.load(tmp_path)


def test_an_authority_knows_what_it_has_issued() -> None:
    namesake = Authority.make("one")
    assert ONE.has_issued(ONE.client("orders").certificate)
    for stranger in (OTHER, namesake):
        assert not ONE.has_issued(stranger.client("orders").certificate)

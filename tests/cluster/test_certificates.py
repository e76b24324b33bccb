"""Which certificates of a local cluster are issued again at its start."""

from __future__ import annotations

import time
from pathlib import Path

from quire.cluster.certificates import LocalCertificates
from quire.wire.certificates import Credentials, read_credentials
from quire.wire.identity import bookie_identity
from quire.wire.issuing import CA, Authority


def issued(directory: Path, bookie: str) -> Credentials:
    """The certificate of bookie 0 after a start."""
    now = time.time()
    return read_credentials(LocalCertificates(directory, now).issue(0, bookie), now)


def test_a_certificate_that_is_usable_stays(tmp_path: Path) -> None:
    assert issued(tmp_path, "a") == issued(tmp_path, "a")


def test_a_bookie_that_was_formatted_anew_gets_a_certificate_of_its_own(tmp_path: Path) -> None:
    issued(tmp_path, "a")
    assert issued(tmp_path, "b").identity == bookie_identity("b")


def test_a_new_authority_issues_all_certificates_again(tmp_path: Path) -> None:
    before = LocalCertificates(tmp_path, time.time())
    issued(tmp_path, "a")
    place = Path(before.client.ca).parent
    new = Authority.make("quire local cluster")
    new.pair.write(place, CA)
    assert new.has_issued(issued(tmp_path, "a").certificate)
    assert new.has_issued(read_credentials(before.client, time.time()).certificate)

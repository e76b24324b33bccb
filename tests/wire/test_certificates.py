"""Files of certificates: each wrong one is named with its remedy, and a changed one is read."""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quire.errors import CertificateError, ConfigurationError
from quire.tls_files import RETRY_SECONDS
from quire.wire.certificates import (
    FILE_BYTES_MAX,
    Certificates,
    TlsMode,
    TlsOptions,
    read_credentials,
)
from quire.wire.identity import client_identity, server_name
from quire.wire.issuing import DAY, Authority
from quire.wire.tls import HTTP2, Contexts, TlsError, serving_context
from tests.wire.certificates import Directory, contexts, locked


@pytest.fixture
def files(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def test_the_files_say_what_a_process_is(files: Directory) -> None:
    found = read_credentials(files.client("orders"), time.time())
    assert found.identity == client_identity("orders")
    assert 0 < found.validity.end - time.time() <= DAY
    assert found.ca_end > found.validity.end
    assert b"PRIVATE" not in repr(found).encode()


def missing(options: TlsOptions) -> TlsOptions:
    return replace(options, key=Path(options.key).with_name("no-such-key.pem"))


def a_directory(options: TlsOptions) -> TlsOptions:
    return replace(options, ca=Path(options.ca).parent)


def too_large(options: TlsOptions) -> TlsOptions:
    Path(options.ca).with_name("large.pem").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    return replace(options, ca=Path(options.ca).with_name("large.pem"))


def not_pem(options: TlsOptions) -> TlsOptions:
    Path(options.certificate).write_text("hello")
    return options


def not_a_key(options: TlsOptions) -> TlsOptions:
    Path(options.key).write_bytes(Path(options.certificate).read_bytes())
    return options


def open_to_all(options: TlsOptions) -> TlsOptions:
    Path(options.key).chmod(0o644)
    return options


def of_another(options: TlsOptions) -> TlsOptions:
    other = Directory(Path(options.key).parent / "other").client("other")
    return replace(options, key=other.key)


def nameless(options: TlsOptions) -> TlsOptions:
    return Directory(Path(options.key).parent).other(None)


def of_two_names(options: TlsOptions) -> TlsOptions:
    return Directory(Path(options.key).parent).other(None, ["a.example", "b.example"])


def ended(options: TlsOptions) -> TlsOptions:
    name = Path(options.key).stem.removeprefix("client-").removesuffix("-key")
    return Directory(Path(options.key).parent).client(name, seconds=-1.0)


def authority_ended(options: TlsOptions) -> TlsOptions:
    old = Authority.make("old", seconds=-1.0).pair.write(Path(options.ca).parent, "old")
    return replace(options, ca=old[0])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (missing, "no-such-key.pem does not exist: `quire certificates issue`"),
        (a_directory, "cannot be read: Is a directory"),
        (too_large, "it is another file"),
        (not_pem, "has no certificate in PEM"),
        (not_a_key, "has no private key in PEM"),
        (locked, "has a password: `openssl pkey`"),
        (open_to_all, r"is open to other users \(mode 0644\): run `chmod 0600 "),
        (of_another, "is the key of another certificate"),
        (nameless, "no alternative name"),
        (of_two_names, "several names"),
        (ended, "ended at .* UTC: renew it"),
        (authority_ended, "only authorities that have ended"),
    ],
)
def test_a_wrong_file_is_named_with_its_remedy(
    files: Directory, spoil: Callable[[TlsOptions], TlsOptions], reason: str
) -> None:
    options = spoil(files.client())
    with pytest.raises(CertificateError, match=reason) as raised:
        read_credentials(options, time.time())
    assert str(raised.value).startswith(raised.value.path)


def test_a_certificate_of_the_future_names_the_clock(files: Directory) -> None:
    with pytest.raises(CertificateError, match=r"not valid before .* clock"):
        read_credentials(files.client(), time.time() - DAY)


def test_a_mode_is_required_or_optional(files: Directory) -> None:
    assert TlsOptions("c", "k", "a", "optional").mode is TlsMode.OPTIONAL  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'perhaps' is not one of"):
        TlsOptions("c", "k", "a", "perhaps")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["a\0b", "~no-such-user/pair.pem", 5])
def test_a_file_is_a_path(path: Any) -> None:
    with pytest.raises(ConfigurationError, match="key "):
        TlsOptions("c", path, "a")


def test_changed_files_are_read_again(files: Directory) -> None:
    certificates = Certificates(files.client("orders"), clock=time.time)
    assert certificates.current() == certificates.current()
    version, before = certificates.current()
    replace_pair(files, "renewed")
    newer, after = certificates.current()
    assert (newer, after.identity) == (version + 1, client_identity("renewed"))
    assert before.identity == client_identity("orders")


def replace_pair(files: Directory, name: str) -> None:
    files.authority.client(name).write(files.path, "client-orders")


def test_files_touched_without_change_are_no_new_version(files: Directory) -> None:
    options = files.client("orders")
    certificates = Certificates(options, clock=time.time)
    version, _ = certificates.current()
    for path in options.files:
        os.utime(path, ns=(1, 1))
    assert certificates.current()[0] == version


def test_an_unusable_change_is_said_once_and_changes_nothing(
    files: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    options = files.client("orders")
    certificates = Certificates(options, clock=time.time)
    before = certificates.current()
    Path(options.certificate).write_text("half of a f")
    with caplog.at_level(logging.WARNING):
        assert certificates.current() == before
        assert certificates.current() == before
    assert [record.message for record in caplog.records] == [
        f"certificates are not read again: {options.certificate} has no certificate in PEM "
        "(-----BEGIN CERTIFICATE-----)"
    ]
    replace_pair(files, "renewed")
    assert certificates.current()[1].identity == client_identity("renewed")


def test_contexts_follow_the_files(files: Directory) -> None:
    made = contexts(files.client("orders"))
    version = made.version
    replace_pair(files, "renewed")
    assert made.version == version + 1


def test_a_bookie_s_certificate_has_both_of_its_names(files: Directory) -> None:
    found = read_credentials(files.bookie("b7"), time.time())
    assert found.identity.bookie == "b7"
    assert server_name("b7") in found.names


def test_an_authority_is_read_from_its_files(files: Directory, tmp_path: Path) -> None:
    files.authority.pair.write(tmp_path, "ca")
    options = files.options("more", Authority.load(tmp_path).client("more"))
    assert read_credentials(options, time.time()).identity == client_identity("more")
    assert Path(options.key).stat().st_mode & 0o777 == 0o600


def test_a_name_that_cannot_be_in_a_certificate_is_refused(files: Directory) -> None:
    with pytest.raises(CertificateError, match="is not made"):
        files.authority.bookie("b1", hosts=["bücher.example"])


def test_a_certificate_that_begins_later_is_used_once_it_has_begun(
    files: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    """Its authority's clock was ahead. The files stay as they are, and need no further change."""
    now = began = time.time()
    certificates = Certificates(files.client("orders"), clock=lambda: now)
    before = certificates.current()
    replace_pair(files, "renewed")
    now = began - DAY
    with caplog.at_level(logging.WARNING):
        assert certificates.current() == before
        now += RETRY_SECONDS
        assert certificates.current() == before
    assert len(caplog.records) == 1
    now = began
    assert certificates.current()[1].identity == client_identity("renewed")
    assert certificates.current()[0] == before[0] + 1


def short_of_descriptors(*_: object) -> None:
    raise CertificateError("client-orders.pem", "too many open files")


def test_files_that_could_not_be_loaded_are_loaded_for_a_later_connection(
    files: Directory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = contexts(files.client("orders"))
    version = made.version
    replace_pair(files, "renewed")
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(Contexts, "_context", short_of_descriptors)
        assert made.version == version
        assert made.version == version
    assert len(caplog.records) == 1
    assert made.version == version + 1


def spoiling_first_load(
    monkeypatch: pytest.MonkeyPatch, options: TlsOptions, spoil: Callable[[TlsOptions], object]
) -> None:
    """Have the files change after they were judged, and before OpenSSL loads them."""
    load, left = Contexts._context, [spoil]

    def context(made: Contexts, protocol: int) -> ssl.SSLContext:
        if left:
            left.pop()(options)
        return load(made, protocol)

    monkeypatch.setattr(Contexts, "_context", context)


def presented(made: Contexts) -> str:
    """Return the name that a server with these contexts shows."""
    server, client = made.accept(), made.open("b1")
    client.begin()
    with suppress(TlsError):  # the client wants the certificate of a bookie
        for _ in range(2):
            list(server.receive(client.outgoing()))
            list(client.receive(server.outgoing()))
    return client.peer.identity.name


@pytest.mark.parametrize("spoil", [open_to_all, locked, ended])
def test_files_that_were_refused_are_not_loaded_after_a_load_that_failed(
    files: Directory, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[TlsOptions], TlsOptions]
) -> None:
    options = files.client("orders")
    made = contexts(options)
    replace_pair(files, "renewed")
    with monkeypatch.context() as patched:
        spoiling_first_load(patched, options, short_of_descriptors)
        made.open("b1")
    replace_pair(files, "refused")
    spoil(options)
    assert presented(made) == client_identity("orders").name
    replace_pair(files, "again")
    assert presented(made) == client_identity("again").name


@pytest.mark.parametrize("spoil", [open_to_all, locked, ended])
def test_files_that_are_replaced_while_they_are_loaded_are_judged_first(
    files: Directory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[TlsOptions], TlsOptions],
) -> None:
    options = files.client("orders")
    made = contexts(options)
    replace_pair(files, "renewed")

    def refused(options: TlsOptions) -> None:
        replace_pair(files, "refused")
        spoil(options)

    spoiling_first_load(monkeypatch, options, refused)
    for _ in range(3):
        assert presented(made) == client_identity("orders").name
    assert len(caplog.records) == 2, "one is about the files judged, one about those refused"


def test_a_key_that_gets_a_password_while_it_is_loaded_is_not_asked_for(
    files: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = files.client("orders")
    certificates = Certificates(options, clock=time.time)
    spoiling_first_load(monkeypatch, options, locked)
    with pytest.raises(CertificateError, match=r"client-orders-key\.pem has a password"):
        Contexts(certificates)


@pytest.mark.parametrize("protocol", [None, HTTP2])
def test_an_unusable_file_keeps_no_connection_from_being_opened(
    files: Directory, protocol: str | None
) -> None:
    options = files.client("orders")
    made = contexts(options)
    Path(options.certificate).write_text("half of a f")
    made.open("b1", protocol).begin()


def test_a_pair_shows_no_key(files: Directory) -> None:
    assert "PRIVATE" not in repr(files.authority.pair)


def test_an_authority_s_key_that_others_can_read_is_refused(
    files: Directory, tmp_path: Path
) -> None:
    _, key = files.authority.pair.write(tmp_path, "ca")
    key.chmod(0o644)
    with pytest.raises(CertificateError, match=r"ca-key\.pem is open to other users"):
        Authority.load(tmp_path)


def test_a_key_is_written_into_no_file_that_is_there(files: Directory, tmp_path: Path) -> None:
    """Another user may have made it, in a directory that both may write to."""
    planted = tmp_path / f"ca-key.pem.{os.getpid()}.new"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(0o666)
    planted.symlink_to(elsewhere)
    _, key = files.authority.pair.write(tmp_path, "ca")
    assert elsewhere.read_bytes() == b""
    assert key.stat().st_mode & 0o777 == 0o600
    assert not key.is_symlink()


def test_a_key_is_written_into_no_file_that_comes_at_that_moment(
    files: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user may make it again after it was removed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(0o666)
    unlink = Path.unlink

    def plant(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        path.symlink_to(elsewhere)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", plant)
        with pytest.raises(CertificateError, match="File exists"):
            files.authority.pair.write(tmp_path, "ca")
    assert elsewhere.read_bytes() == b""


def test_a_port_s_key_with_a_password_is_refused_and_not_asked_for(files: Directory) -> None:
    options = locked(files.client("orders"))
    with pytest.raises(ConfigurationError, match=r"client-orders-key\.pem has a password"):
        serving_context(Path(options.certificate), Path(options.key))

"""TLS contexts: what is refused and how it is told, and contexts that follow their files."""

import os
import ssl
from pathlib import Path

import pytest

from tests.wire.certificates import Authority
from wire.tls import BadTls, ClientTls, ServerTls, client_context, kept_server, server_context


def test_a_pair_is_taken_and_only_http_1_1_is_offered(tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).sign("gw.test")
    context = server_context(ServerTls(cert, key, min_version="1.3"))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3 and context.verify_mode is ssl.CERT_NONE


def test_what_cannot_be_used_is_told_with_its_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("a")
    _, other = authority.sign("b", as_file="other")
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("-----BEGIN CERTIFICATE-----\nnot one\n")
    missing = str(tmp_path / "missing")
    for spec, said in (
        (ServerTls(missing, key), "missing cannot be read: No such file"),
        (ServerTls(cert, missing), "missing cannot be read: No such file"),
        (ServerTls(cert, other), "other.key is not the key of the certificate in"),
        (ServerTls(str(nonsense), key), "no certificate in PEM form"),
        (ServerTls(cert, cert), "no certificate in PEM form with its unencrypted key"),
        (ServerTls(cert, key, client_ca=str(nonsense)), "nonsense holds no certificates"),
        (ServerTls(cert, key, client_ca=missing), "missing cannot be read"),
    ):
        with pytest.raises(BadTls, match=said):
            server_context(spec)
    for client, said in (
        (ClientTls(ca=missing), "missing cannot be read"),
        (ClientTls(ca=str(nonsense)), "holds no certificates"),
        (ClientTls(cert=cert, key=other), "is not the key"),
    ):
        with pytest.raises(BadTls, match=said):
            client_context(client)


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s

    cert, key = Authority(tmp_path).sign("a")
    plain = s.load_pem_private_key(Path(key).read_bytes(), None)
    Path(key).write_bytes(
        plain.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"secret"))
    )
    with pytest.raises(BadTls, match="unencrypted key"):
        server_context(ServerTls(cert, key))


def test_engines_are_verified_unless_that_is_switched_off() -> None:
    context = client_context(ClientTls())
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert client_context(ClientTls(verify=False)).verify_mode is ssl.CERT_NONE


def test_a_context_follows_its_files_and_nothing_else(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("one")
    kept = kept_server(ServerTls(cert, key))
    first = kept.context
    os.utime(cert)
    assert not kept.look() and kept.context is first
    authority.sign("two")
    assert kept.look() and kept.context is not first
    assert not kept.look()


def test_a_bad_new_pair_is_refused_once_and_the_old_one_kept(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("one")
    kept = kept_server(ServerTls(cert, key))
    first = kept.context
    good = Path(cert).read_bytes()
    for bad in (b"", good[: len(good) // 2], b"\xff" * 100):
        Path(cert).write_bytes(bad)
        with pytest.raises(BadTls):
            kept.look()
        assert not kept.look() and kept.context is first
    Path(cert).unlink()
    with pytest.raises(BadTls, match="cannot be read"):
        kept.look()
    Path(cert).write_bytes(good)
    assert kept.look() and kept.context is not first


def test_a_pair_changed_file_by_file_is_taken_when_it_fits_again(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("one")
    kept = kept_server(ServerTls(cert, key))
    new_cert, new_key = authority.sign("two", as_file="new")
    os.replace(new_cert, cert)
    with pytest.raises(BadTls, match="is not the key"):
        kept.look()
    os.replace(new_key, key)
    assert kept.look()


def test_a_swapped_symlink_is_a_change(tmp_path: Path) -> None:
    """As Kubernetes does it: the folder the files are seen through is swapped in one step."""
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        Authority(tmp_path / name).sign(name)
    (tmp_path / "now").symlink_to("v1")
    kept = kept_server(ServerTls(str(tmp_path / "now/server.crt"), str(tmp_path / "now/server.key")))
    (tmp_path / "next").symlink_to("v2")
    os.replace(tmp_path / "next", tmp_path / "now")
    assert kept.look()

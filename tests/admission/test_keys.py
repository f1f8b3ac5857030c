"""API keys: known by hash alone, found whatever else is known, told from what only looks like one."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.keys import Key, KeyRing, digest_of, hashed, new_key

SECRETS = st.lists(
    st.binary(min_size=1, max_size=40).filter(lambda s: s == s.strip()), unique=True, max_size=8
)


def ring(secrets: list[bytes], anonymous: Key | None = None) -> KeyRing:
    keys = [(hashlib.sha256(secret).digest(), Key(str(at), at)) for at, secret in enumerate(secrets)]
    return KeyRing(keys, anonymous)


@given(SECRETS.filter(bool), st.binary(max_size=40))
def test_each_key_is_found_and_nothing_else_is(secrets: list[bytes], other: bytes) -> None:
    known = ring(secrets)
    for at, secret in enumerate(secrets):
        for credential in (b"Bearer " + secret, b"bearer  " + secret):
            found = known.identify(credential)
            assert found is not None
            assert found.slot == at
    if other.strip() not in secrets:
        assert known.identify(b"Bearer " + other) is None


def test_a_key_in_a_field_of_its_own_needs_no_scheme() -> None:
    found = ring([b"sl-abc"]).identify(b"sl-abc")
    assert found is not None
    assert found.slot == 0


def test_keys_whose_digests_begin_alike_are_told_apart() -> None:
    start = bytes(8)
    first, second = Key("first", 0), Key("second", 1)
    digest = hashlib.sha256(b"k").digest()
    known = KeyRing([(digest[:8] + bytes(24), first), (digest, second), (start + bytes(24), first)], None)
    assert known.identify(b"Bearer k") is second


def test_who_brings_no_key_is_anonymous_where_that_is_allowed() -> None:
    anonymous = Key("anonymous", 9)
    assert ring([b"k"], anonymous).identify(b"") is anonymous
    assert ring([b"k"]).identify(b"") is None
    assert ring([b"k"], anonymous).identify(b"Bearer wrong") is None


def test_without_any_key_every_credential_is_the_engines_to_judge() -> None:
    anonymous = Key("anonymous", 0)
    assert ring([], anonymous).identify(b"Bearer sk-of-an-engine") is anonymous


def test_a_new_key_is_its_256_bits_and_known_by_its_hash() -> None:
    key = new_key(lambda n: bytes(range(n)))
    assert key.startswith("sl-") and len(key) == 46 and key.isascii() and " " not in key
    assert digest_of(hashed(key)) == hashlib.sha256(key.encode()).digest()
    assert key[3:] not in hashed(key)


@pytest.mark.parametrize("text", ["", "sha256:", "sl-abc", "sha256:" + "0" * 62, "md5:" + "0" * 64, "0" * 64])
def test_what_is_no_hash_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"hash|hex"):
        digest_of(text)

"""What the operator may say of clients: proxies whose word is taken, pages that may ask."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.complaint import ConfigError
from config.load import load


def loaded(tmp_path: Path, **settings: Any) -> Any:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"fleets": [{"engines": ["http://127.0.0.1:1"]}], **settings}))
    return load(path, {}, {})


def test_networks_and_rules_are_taken(tmp_path: Path) -> None:
    config = loaded(
        tmp_path, trusted_proxies=["10.0.0.7", "fd00::/8"], cors={"allow_origins": ["https://a.example:8443"]}
    )
    assert config.trusted_proxies == ("10.0.0.7/32", "fd00::/8")
    assert config.cors.allow_headers == ("*",) and not config.cors.allow_credentials
    assert loaded(tmp_path).cors is None and loaded(tmp_path).trusted_proxies == ()


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"trusted_proxies": ["10.0.0.7/8"]}, "trusted_proxies[0]"),
        ({"trusted_proxies": ["proxy.example"]}, "trusted_proxies[0]"),
        ({"cors": {"allow_origins": []}}, "cors.allow_origins"),
        ({"cors": {"allow_origins": ["https://a.example/"]}}, "cors.allow_origins[0]"),
        ({"cors": {"allow_origins": ["a.example"]}}, "cors.allow_origins[0]"),
        ({"cors": {"allow_origins": ["https://a.example\r\nX: 1"]}}, "cors.allow_origins[0]"),
        ({"cors": {"allow_origins": ["*"], "allow_credentials": True}}, "cors"),
        ({"cors": {"allow_origins": ["*"], "allow_headers": ["a b"]}}, "cors.allow_headers[0]"),
        ({"cors": {"allow_origins": ["*"], "max_age_s": -1}}, "cors.max_age_s"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, settings: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, **settings)
    assert f" {place}: expected " in str(refused.value)

"""What EndpointSlices mean."""

from typing import Any

import pytest

from gateway.discovery.slices import urls
from gateway.discovery.source import NoAnswer
from tests.gateway.discovery.api_server import endpoint

HTTP = [{"name": "http", "port": 8000, "protocol": "TCP"}]


def one(*endpoints: dict[str, Any], kind: str = "IPv4", ports: Any = None) -> dict[str, Any]:
    return {"addressType": kind, "endpoints": list(endpoints), "ports": HTTP if ports is None else ports}


@pytest.mark.parametrize(
    ("conditions", "serves"),
    [
        ({}, True),
        ({"ready": True}, True),
        ({"ready": None}, True),
        ({"ready": False}, False),
        ({"ready": True, "terminating": True}, False),
        ({"ready": False, "serving": True, "terminating": True}, False),
    ],
)
def test_unknown_is_ready_and_terminating_is_not(conditions: dict[str, Any], serves: bool) -> None:
    found = urls([one(endpoint("10.0.0.1", **conditions))], "http", None)
    assert found == (frozenset({"http://10.0.0.1:8000"}) if serves else frozenset())


def test_a_pod_of_both_families_is_one_engine_and_one_with_only_ipv6_is_in_brackets() -> None:
    four = one(endpoint("10.0.0.1", "p1"))
    six = one(endpoint("fd00::1", "p1"), endpoint("fd00::2", "p2"), kind="IPv6")
    for slices in ([four, six], [six, four]):
        assert urls(slices, "http", None) == {"http://10.0.0.1:8000", "http://[fd00::2]:8000"}


def test_the_port_is_chosen_by_name_or_number_and_must_be_when_there_are_several() -> None:
    ports = [
        {"name": "metrics", "port": 9000},
        {"name": "http", "port": 8000},
        {"name": "x", "port": 1, "protocol": "UDP"},
    ]
    slices = [one(endpoint("10.0.0.1"), ports=ports)]
    assert urls(slices, "http", "http") == {"http://10.0.0.1:8000"}
    assert urls(slices, "http", 7) == {"http://10.0.0.1:7"}
    assert urls(slices, "http", "nope") == frozenset()
    with pytest.raises(NoAnswer, match="metrics, http"):
        urls(slices, "http", None)


@pytest.mark.parametrize("nothing", [None, []])
def test_slices_without_endpoints_ports_or_known_addresses_name_nobody(nothing: Any) -> None:
    assert urls([{"addressType": "IPv4", "endpoints": nothing, "ports": HTTP}], "http", None) == frozenset()
    assert urls([{**one(endpoint("10.0.0.1")), "ports": nothing}], "http", None) == frozenset()
    assert urls([one(endpoint("pod.example", "p"), kind="FQDN")], "http", None) == frozenset()

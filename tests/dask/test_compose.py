"""The compose file's settings for every service, and the checks of tools for compose files."""

import ipaddress
from pathlib import Path

import pytest
import yaml

COMPOSE = yaml.safe_load((Path(__file__).parents[2] / "docker" / "compose.yml").read_text())
SERVICES = COMPOSE["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service and "cap_add" not in service
    # Images built here declare a non-root user themselves.
    assert "build" in service or service["user"] not in ("root", "0")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_looked_at_and_reached_from_this_machine_alone(name):
    service = SERVICES[name]
    # The server's image declares its own health check.
    assert "healthcheck" in service or name == "galvo"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    for other, condition in service.get("depends_on", {}).items():
        assert other in SERVICES
        ends = SERVICES[other].get("restart") == "no"
        assert condition == {
            "condition": "service_completed_successfully" if ends else "service_healthy"
        }


def test_what_clusters_run_does_not_reach_the_stores():
    example = [service for service in SERVICES.values() if service.get("profiles") == ["example"]]
    assert len(example) == 2
    assert COMPOSE["networks"]["store"] == {"internal": True}
    for service in example:
        assert service["networks"] == ["front"]
    assert all(SERVICES[name]["networks"] == ["store"] for name in ("postgres", "redis"))


def test_nothing_of_it_is_a_secret():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if any(word in name for word in ("PASSWORD", "KEY", "TOKEN", "DATABASE_URL")):
                assert "${" in value, name


def test_the_gateway_alone_is_trusted_to_say_where_requests_come_from():
    (network,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    gateway = network["gateway"]
    assert ipaddress.ip_address(gateway) in ipaddress.ip_network(network["subnet"])
    trusted = SERVICES["galvo"]["environment"]["GALVO_TRUSTED_PROXIES"]
    assert trusted == f"${{GALVO_TRUSTED_PROXIES:-{gateway}}}"

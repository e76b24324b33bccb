"""Labels: parsed, written, and compared by the path down to a level."""

from __future__ import annotations

import pytest

from quire.errors import ConfigurationError
from quire.labels import LEVELS, Labels, domain_name


@pytest.mark.parametrize("text", ["", "zone=a", "region=eu,zone=a,rack=r1,host=h.7_x-2"])
def test_a_text_comes_back(text: str) -> None:
    assert str(Labels.parse(text)) == text


def test_the_order_and_spaces_of_a_text_do_not_matter() -> None:
    assert Labels.parse(" rack=r1, region=eu ,") == Labels(region="eu", rack="r1")


@pytest.mark.parametrize(
    "text", ["eu", "rack=", "=r", "shelf=1", "rack=r1,rack=r2", "rack=a b", "rack=ä", "rack=-a"]
)
def test_bad_labels_are_named(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Labels.parse(text)
    assert text.partition("=")[2][:3] in str(caught.value)
    with pytest.raises(ConfigurationError):
        Labels(host="x" * 64)


def test_a_domain_is_the_path_from_the_widest_level() -> None:
    one, other = Labels.parse("zone=a,rack=r1"), Labels.parse("zone=b,rack=r1")
    assert one.domain("rack") != other.domain("rack")
    assert one.domain("region") == other.domain("region") == ("",)
    assert [domain_name(one.domain(level)) for level in LEVELS] == [
        "(no label)",
        "a",
        "a/r1",
        "a/r1",
    ]
    assert one.names("zone")
    assert not one.names("host")


@pytest.mark.parametrize(
    ("machine", "host"),
    [("pc-7.lan", "pc-7.lan"), ("büro 7", "b-ro-7"), ("-", "localhost"), ("x" * 70, "x" * 63)],
)
def test_the_machine_is_the_host_unless_a_host_is_given(machine: str, host: str) -> None:
    assert Labels(rack="r1").at_host(machine) == Labels(rack="r1", host=host)
    assert Labels(host="h").at_host(machine).host == "h"

"""Options of ledgers that no writer could work with are refused when they are given."""

import math

import pytest

from quire.errors import ConfigurationError
from quire.ledger.options import SECONDS_MAX, LedgerOptions


@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_what_is_not_positive_is_refused(value: float) -> None:
    with pytest.raises(ConfigurationError, match="request_timeout must be positive"):
        LedgerOptions(request_timeout=value)


@pytest.mark.parametrize("value", [0.5, math.inf])
def test_a_count_is_a_whole_number(value: float) -> None:
    with pytest.raises(ConfigurationError, match="bytes_in_flight_max must be a whole number"):
        LedgerOptions(bytes_in_flight_max=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2 * SECONDS_MAX, math.inf])
def test_a_time_is_one_that_a_machine_can_wait(value: float) -> None:
    with pytest.raises(ConfigurationError, match="append_timeout must be at most 100000000 s"):
        LedgerOptions(append_timeout=value)


def test_the_longest_time_is_one() -> None:
    assert LedgerOptions(append_timeout=SECONDS_MAX).append_timeout == SECONDS_MAX

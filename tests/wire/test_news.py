"""The account of a subscription, and the bounds of its messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.wire import bookie_pb2 as pb
from quire.wire.news import (
    CREDIT_BYTES_MAX,
    NEWS_COST,
    REQUEST_BYTES_MAX,
    NewsAccount,
    OverdrawnError,
    cost_of,
    decode_news_reply,
    decode_news_request,
)
from quire.wire.reads import NoMessageError


@given(st.lists(st.integers(1, 5000) | st.integers(-5000, -1), max_size=30))
def test_two_ends_that_see_the_same_agree(steps: list[int]) -> None:
    """A bookie that spends only while the account is open never surprises its client."""
    bookie, client = NewsAccount(1000), NewsAccount(1000)
    for step in steps:
        if step > 0:
            client.grant(step)
            bookie.grant(step)
        elif bookie.is_open:
            bookie.spend(-step)
            client.spend(-step)
    assert bookie.left == client.left


def test_one_message_overdraws_and_the_next_waits_for_credit() -> None:
    account = NewsAccount(10)
    account.spend(500)
    assert not account.is_open
    with pytest.raises(OverdrawnError, match="no credit is left"):
        account.spend(1)
    account.grant(490)
    assert not account.is_open
    account.grant(1)
    account.spend(1)


def test_an_account_is_bounded() -> None:
    with pytest.raises(OverdrawnError, match=f"at most {CREDIT_BYTES_MAX}"):
        NewsAccount(CREDIT_BYTES_MAX + 1)
    account = NewsAccount(1)
    with pytest.raises(OverdrawnError):
        account.grant(CREDIT_BYTES_MAX)


def test_news_without_entries_cost_something() -> None:
    assert cost_of(pb.News(subscription=1)) == NEWS_COST
    assert cost_of(pb.News(run=b"xyz", lac_packet=b"ab")) == NEWS_COST + 5


def test_a_message_of_a_client_is_bounded_before_it_is_decoded() -> None:
    parts = pb.NewsRequest(subscribe=[pb.Subscribe()] * (REQUEST_BYTES_MAX // 2 + 1))
    with pytest.raises(NoMessageError, match="longer than"):
        decode_news_request(parts.SerializeToString())


@pytest.mark.parametrize("decode", [decode_news_request, decode_news_reply])
def test_bytes_that_are_no_message_are_refused(decode: object) -> None:
    assert callable(decode)
    with pytest.raises(NoMessageError):
        decode(b"\xff\xff\xff")

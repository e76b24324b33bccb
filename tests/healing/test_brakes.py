"""The brakes: which bookies count as lost, and when nothing may move."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from quire.errors import InvalidRequestError
from quire.healing.brakes import Brakes, Code, Missing, Silence, accidents, is_mass_loss
from quire.healing.state import BookieFacts
from quire.healing.switch import Go, Pause, Switch
from quire.labels import Labels
from quire.metastore.standing import SERVING, Standing, Wish
from tests.healing.scene import GONE, NOW, bookie

DELAY = 100.0


OFF = Switch()


def always(name: str) -> bool:
    return True


def never(name: str) -> bool:
    return False


def down(name: str, standing: Standing = SERVING) -> BookieFacts:
    return bookie(name, up=False, standing=standing)


def away(since: float, until: float) -> Standing:
    """An away between two seconds after `NOW`."""
    return Standing(Wish.AWAY, "", "", NOW + round(since * 1000), NOW + round(until * 1000))


class Watch:
    """A `Silence` whose two clocks go together, from 0 s and from `NOW`."""

    def __init__(self, delay: float = DELAY) -> None:
        self.silence = Silence(delay)

    def at(self, now: float, *facts: BookieFacts, held: Iterable[str] | None = None) -> Missing:
        holds = always if held is None else set(held).__contains__
        return self.silence.look(facts, NOW + round(now * 1000), now, now, holds)


def test_a_bookie_is_lost_after_the_delay_without_it() -> None:
    watch = Watch()
    found = watch.at(0.0, down("a"), bookie("b"))
    assert ({*found.silent}, {*found.lost}, found.seconds) == ({"a"}, set(), DELAY)
    assert watch.at(99.0, down("a")).seconds == 1.0
    found = watch.at(100.0, down("a"), down("b"))
    assert ({*found.silent}, {*found.lost}, found.seconds) == ({"b"}, {"a"}, DELAY)


def test_a_slow_look_makes_no_bookie_missing_for_longer() -> None:
    """The auditor's process stood still for an hour while it gathered the facts."""
    silence = Silence(DELAY)
    assert {*silence.look([down("a")], NOW, 0.0, 3600.0, always).silent} == {"a"}
    assert {*silence.look([down("a")], NOW, 3650.0, 7200.0, always).silent} == {"a"}
    assert {*silence.look([down("a")], NOW, 3700.0, 3700.0, always).lost} == {"a"}


def test_a_bookie_that_was_back_begins_anew() -> None:
    watch = Watch()
    watch.at(0.0, down("a"))
    watch.at(60.0, bookie("a"))
    assert watch.at(70.0, down("a")).seconds == DELAY
    assert {*watch.at(165.0, down("a")).lost} == set()
    assert {*watch.at(170.0, down("a")).lost} == {"a"}


def test_read_only_is_not_missing() -> None:
    watch = Watch(0.0)
    assert watch.at(0.0, bookie("a", writable=False)) == Missing()


def test_a_bookie_given_up_is_lost_at_once_and_no_accident() -> None:
    facts = [down("a", GONE), *map(bookie, "bcd")]
    found = Watch().at(0.0, *facts)
    assert {*found.lost} == {*found.gone} == {"a"}
    assert accidents(facts, found, always) == set()
    assert Watch().at(0.0, bookie("a", standing=GONE)) == Missing()  # registered: it is there


def test_an_away_ends_by_itself_and_then_the_delay_runs() -> None:
    watch, gone = Watch(), down("a", away(0, 300))
    assert {*watch.at(0.0, gone).away} == {"a"}
    assert {*watch.at(299.0, gone).away} == {"a"}
    assert {*watch.at(300.0, gone).silent} == {"a"}
    assert {*watch.at(399.0, gone).lost} == set()
    assert {*watch.at(400.0, gone).lost} == {"a"}


def test_an_away_ends_although_the_wall_clock_stands_still() -> None:
    silence, gone = Silence(DELAY), down("a", away(0, 300))
    assert {*silence.look([gone], NOW, 0.0, 0.0, always).away} == {"a"}
    assert {*silence.look([gone], NOW, 299.0, 299.0, always).away} == {"a"}
    assert {*silence.look([gone], NOW, 300.0, 300.0, always).away} == set()
    renewed = down("a", away(1, 301))
    assert {*silence.look([renewed], NOW, 310.0, 310.0, always).away} == {"a"}


def test_an_away_is_void_while_another_bookie_that_holds_something_is_lost() -> None:
    watch, out = Watch(), down("a", away(0, 10_000))
    watch.at(0.0, out, down("b"))
    found = watch.at(99.0, out, down("b"))
    assert ({*found.away}, {*found.silent}) == ({"a"}, {"b"})
    found = watch.at(100.0, out, down("b"))
    assert ({*found.away}, {*found.silent}, {*found.lost}) == (set(), {"a"}, {"b"})
    assert {*found.wished} == {"a"}
    assert {*watch.at(200.0, out, down("b")).lost} == {"a", "b"}
    healed = watch.at(201.0, out, down("b"), held="a")
    assert ({*healed.away}, {*healed.lost}) == ({"a"}, {"b"})
    assert {*watch.at(250.0, out, down("b")).silent} == {"a"}  # and its delay begins anew


def test_an_away_is_not_void_while_another_is_only_silent_or_away() -> None:
    watch = Watch()
    found = watch.at(0.0, down("a", away(0, 500)), down("b", away(0, 500)), down("c"))
    assert ({*found.away}, {*found.silent}) == ({"a", "b"}, {"c"})


@pytest.mark.parametrize("seed", range(20))
def test_no_bookie_is_lost_that_was_there_within_the_delay(seed: int) -> None:
    """Whatever comes and goes, and whatever is wished."""
    rng = random.Random(seed)
    watch, last_up, now = Watch(), dict.fromkeys("abcd", 0.0), 0.0
    for _ in range(300):
        now += rng.choice([1.0, 10.0, 50.0])
        facts = []
        for name in "abcd":
            is_up = rng.random() < 0.3
            if is_up:
                last_up[name] = now
            standing = away(now - 1, now + 30) if rng.random() < 0.2 else Standing()
            facts.append(bookie(name, up=is_up, standing=standing))
        found = watch.at(now, *facts)
        assert all(now - last_up[each] >= DELAY for each in found.lost)
        groups = [found.lost, found.silent, found.away]
        assert frozenset().union(*groups) == {each.bookie for each in facts if not each.registered}
        assert sum(map(len, groups)) == len(frozenset().union(*groups))


def braked(
    facts: list[BookieFacts],
    missing: Missing,
    switch: Switch = OFF,
    *,
    holds: str = "abcdefgh",
) -> Code | None:
    held = set(holds).__contains__
    found = Brakes().brake(facts, missing, switch, NOW, 0.0, held)
    return None if found is None else found.code


def lost(text: str) -> Missing:
    return Missing(lost=frozenset(text))


def test_mass_loss_is_more_than_a_quarter_or_more_than_one_host() -> None:
    def cluster(missing: str, up: int, host: str | None) -> list[BookieFacts]:
        facts = [down(each) for each in missing] + [bookie(f"u{n}") for n in range(up)]
        if host is None:
            return facts
        place = Labels(host=host)
        return [
            replace(each, heartbeat=replace(each.heartbeat, labels=place))
            if each.registered is None and each.heartbeat
            else each
            for each in facts
        ]

    assert not is_mass_loss(cluster("a", 2, None), frozenset("a"))  # one alone never is
    assert not is_mass_loss(cluster("ab", 6, "h"), frozenset("ab"))  # a quarter, one host
    assert is_mass_loss(cluster("ab", 5, "h"), frozenset("ab"))
    assert is_mass_loss(cluster("ab", 60, None), frozenset("ab"))  # two hosts
    assert not is_mass_loss(cluster("", 6, None), frozenset())
    unknown = [BookieFacts("a"), BookieFacts("b"), *(bookie(f"u{n}") for n in range(20))]
    assert is_mass_loss(unknown, frozenset("ab"))


def test_brakes() -> None:
    facts = [down("a"), down("b"), *map(bookie, "cdefgh")]
    assert braked(facts, Missing()) is None
    assert braked(facts, lost("a")) is None
    assert braked(facts, lost("ab")) is Code.MASS_LOSS
    assert braked(facts, Missing(silent=frozenset("ab"))) is Code.MASS_LOSS
    assert braked(facts, lost("ab"), holds="acdefgh") is None  # b is healed already
    assert braked(facts, Missing(lost=frozenset("ab"), gone=frozenset("b"))) is None
    assert braked(facts, Missing(lost=frozenset("ab"), wished=frozenset("b"))) is None
    assert braked(facts, Missing(lost=frozenset("a"), away=frozenset("b"))) is None


def test_a_go_is_for_these_bookies() -> None:
    facts = [down("a"), down("b"), *map(bookie, "cdefgh")]
    switch = Switch(go=Go("anna", NOW, ("a", "b")))
    assert braked(facts, lost("ab"), switch) is None
    facts[2] = down("c")
    assert braked(facts, lost("abc"), switch) is Code.MASS_LOSS
    assert braked(facts, lost("bc"), switch) is Code.MASS_LOSS


def test_a_pause_holds_between_its_times_whatever_the_wall_clock_says() -> None:
    brakes, facts = Brakes(), [bookie("a")]
    pause = Switch(pause=Pause("rewiring", "anna", NOW, NOW + 60_000))

    def at(wall: float, own: float, switch: Switch = pause) -> Code | None:
        now_ms = NOW + round(wall * 1000)
        found = brakes.brake(facts, Missing(), switch, now_ms, own, never)
        if found is not None:
            assert "rewiring" in found.text
            assert "anna" in found.text
        return None if found is None else found.code

    assert at(0.0, 0.0) is Code.PAUSED
    assert at(59.0, 59.0) is Code.PAUSED
    assert at(60.0, 59.0) is None
    assert at(-9e6, 59.0) is Code.PAUSED
    assert at(-9e6, 60.0) is None
    assert at(0.0, 61.0, Switch()) is None


def test_a_pause_needs_an_end_after_its_begin() -> None:
    with pytest.raises(InvalidRequestError, match="an end after the begin is needed"):
        Pause("", "anna", NOW, NOW)
    assert Pause("", "anna", NOW, NOW + 5000).seconds_left(NOW - 60_000) == 5.0

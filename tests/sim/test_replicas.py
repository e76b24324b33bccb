"""The checkers of a replicated service catch what they are there for."""

from __future__ import annotations

import json

import pytest

from quire.log.records.position import Position
from quire.service import Applied
from tests.sim.history import Outcome, Violation
from tests.sim.replicas import Register, ServiceHistory


class Scene:
    """Two replicas; three commands were submitted and the first two answered."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        self.history = ServiceHistory(self.found.append)
        self.one, self.two = Register(self.history, "one"), Register(self.history, "two")
        self.commands = [self.history.submit(text) for text in "abc"]
        for number, command in enumerate(self.commands[:2]):
            self.apply(self.one, 2 * number, command.text)
            self.history.answer(command, number + 1)

    def apply(self, register: Register, offset: int, text: str, epoch: int = 1) -> None:
        register.apply(text.encode(), Applied(Position(1, offset, 0), offset, epoch))

    def names(self) -> set[str]:
        return {violation.name for violation in self.found}


def test_replicas_that_agree_pass() -> None:
    scene = Scene()
    scene.apply(scene.two, 0, "a")
    third = Register(scene.history, "three")
    third.restore(scene.one.snapshot())
    scene.apply(third, 5, "c", 2)
    scene.history.check_behind(len(scene.one.done), 2, "a read")
    late = scene.history.submit("d")
    scene.apply(third, 7, "d", 2)
    scene.history.answer(late, 4)
    scene.history.check()
    assert not scene.found


def another_command(scene: Scene) -> None:
    scene.apply(scene.two, 0, "b")


def another_epoch(scene: Scene) -> None:
    scene.apply(scene.two, 0, "a", 2)


def one_left_out(scene: Scene) -> None:
    scene.apply(scene.two, 2, "b")


def the_same_again(scene: Scene) -> None:
    scene.apply(scene.one, 2, "b")


def a_lack_in_a_snapshot(scene: Scene) -> None:
    scene.two.restore(json.dumps([(2, "b")]).encode())


def another_text_in_a_snapshot(scene: Scene) -> None:
    scene.two.restore(json.dumps([(0, "a"), (2, "x")]).encode())


@pytest.mark.parametrize(
    "plant",
    [
        another_command,
        another_epoch,
        one_left_out,
        the_same_again,
        a_lack_in_a_snapshot,
        another_text_in_a_snapshot,
    ],
)
def test_disagreement_is_caught(plant: object) -> None:
    scene = Scene()
    assert callable(plant)
    plant(scene)
    assert scene.names() == {"R1 replicas agree"}


def test_an_answer_in_front_of_an_earlier_one_is_caught() -> None:
    scene = Scene()
    scene.history.answer(scene.history.submit("d"), 2)
    assert scene.names() == {"R3 an answer is behind those before it"}
    scene.found.clear()
    scene.history.check_behind(1, 2, "a read")
    assert scene.names() == {"R3 an answer is behind those before it"}


def lost(scene: Scene) -> None:
    scene.commands[2].outcome, scene.commands[2].place = Outcome.OK, 3


def misplaced(scene: Scene) -> None:
    scene.commands[1].place = 1


def refused(scene: Scene) -> None:
    scene.commands[1].outcome = Outcome.FAILED


def doubled(scene: Scene) -> None:
    scene.apply(scene.one, 4, "a")


def unasked(scene: Scene) -> None:
    scene.apply(scene.one, 4, "z")


@pytest.mark.parametrize("plant", [lost, misplaced, refused, doubled, unasked])
def test_commands_that_were_not_carried_out_as_answered_are_caught(plant: object) -> None:
    scene = Scene()
    assert callable(plant)
    plant(scene)
    assert not scene.found
    with pytest.raises(Violation, match="R2"):
        scene.history.check()

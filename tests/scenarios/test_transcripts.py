"""Every transcript still happens as it is written."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from quire.testing.sim.loop import new_loop
from tests.scenarios.stage import Stage
from tests.scenarios.transcript import Transcript, parse, replay

FOLDER = Path(__file__).parent / "transcripts"


def perform(transcript: Transcript) -> Transcript:
    """Play a transcript on a virtual loop."""

    async def main() -> Transcript:
        async with Stage() as stage:
            return await replay(transcript, stage.play)

    loop = new_loop(random.Random(0))
    try:
        played: Transcript = loop.run_until_complete(main())
        return played
    finally:
        loop.dispose()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_it_happens_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    transcript = parse(text)
    assert transcript.text() == text, "a transcript is parsed without loss"
    assert transcript.opening[0], "it begins with why"
    assert transcript.steps, "and then acts"
    played = perform(transcript)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(played.text(), encoding="utf-8")
    else:
        assert played.text().splitlines() == text.splitlines()


def test_a_wrong_line_is_noticed() -> None:
    path = FOLDER / "01-fencing.txt"
    transcript = parse(path.read_text(encoding="utf-8"))
    assert parse(perform(transcript).text()) == transcript
    spoilt = parse(transcript.text().replace("> bob opens", "> bob opens without recovery", 1))
    assert perform(spoilt).text() != spoilt.text()


def test_the_index_names_every_transcript_and_no_other_file() -> None:
    text = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^` ]+)`", text))
    for path in FOLDER.glob("*.txt"):
        assert path.stem in named, f"{path.name} is not in the index"
    for name in named:
        if name.endswith(".py") and "/" in name:
            assert (FOLDER.parent.parent / name).exists(), name
        elif re.match(r"\d", name):
            assert (FOLDER / f"{name}.txt").exists(), name

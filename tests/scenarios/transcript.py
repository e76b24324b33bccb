"""Transcripts: a scenario as a file that people read and the production code plays.

    Why this scenario is kept, in a paragraph or two.

    > a command                 what somebody does (*_commands.py beside this have the grammar)
    what happened               everything that ended or was seen since the command before
    # a remark                  belongs to the commands below it

Blank lines separate. A line of output that begins with "…" names something that still waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

PROMPT = "> "


@dataclass(frozen=True)
class Step:
    """One command, and the lines that stand before it: remarks and blank lines."""

    before: tuple[str, ...]
    command: str
    output: tuple[str, ...]


@dataclass(frozen=True)
class Transcript:
    """A parsed file."""

    opening: tuple[str, ...]
    steps: tuple[Step, ...]

    def text(self) -> str:
        """Return the file's content; `parse(text).text() == text`."""
        lines = list(self.opening)
        for step in self.steps:
            lines += [*step.before, PROMPT + step.command, *step.output]
        return "\n".join(lines) + "\n"


def parse(text: str) -> Transcript:
    """Return the transcript of a file's content."""
    opening: list[str] = []
    steps: list[Step] = []
    command: str | None = None
    before: list[str] = []
    output: list[str] = []
    for line in [*text.splitlines(), PROMPT]:
        if line.startswith((PROMPT, "#")) or not line:
            if command is not None:
                steps.append(Step(tuple(before), command, tuple(output)))
                command, before, output = None, [], []
            if line.startswith(PROMPT):
                command = line[len(PROMPT) :]
            elif steps:
                before.append(line)
            else:
                opening.append(line)
        elif command is None:
            opening.append(line)
        else:
            output.append(line)
    return Transcript(tuple(opening), tuple(steps))


async def replay(transcript: Transcript, play: Callable[[str], Awaitable[list[str]]]) -> Transcript:
    """Return the transcript with the output that its commands really have."""
    steps = [
        Step(step.before, step.command, tuple(await play(step.command)))
        for step in transcript.steps
    ]
    return Transcript(transcript.opening, tuple(steps))

"""Histories before their judges: two foreign ones in Go, and our own checker of anomalies.

    porcupine   porcupine/main.go: our model of the log, decided by Porcupine
    s2          S2's public `s2-porcupine`: their model of their stream, fed as s2.py says
    anomalies   anomalies.py, ours

A verdict is Ok, Illegal, Unknown (the judge ran out of time), or "not fed". Only Ok is good.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.judges.anomalies import find_anomalies
from tests.judges.history import History, Operation
from tests.judges.s2 import Converted, convert
from tests.judges.settle import Settled, settle

OK: Final = "Ok"
ILLEGAL: Final = "Illegal"
UNKNOWN: Final = "Unknown"
NOT_FED: Final = "not fed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one judge says of one history."""

    history: str
    judge: str
    verdict: str
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.history}: {self.judge} says {self.verdict}"
        return f"{text}: {self.detail}" if self.detail else text


@dataclass(frozen=True, slots=True)
class Court:
    """The programs of the foreign judges. `s2` is None where it could not be had."""

    porcupine: Path
    s2: Path | None = None
    seconds: float = 60.0
    """How long a judge may think about one history (S2's: about one block of it)."""

    def judge(self, histories: Mapping[str, History]) -> list[Verdict]:
        """Return what every judge says of every history."""
        settled = {name: settle(history) for name, history in histories.items()}
        verdicts = list(self._ask_porcupine(settled))
        verdicts += [self._ask_s2(name, histories[name], settled[name]) for name in histories]
        verdicts += [_look_for_anomalies(name, history) for name, history in histories.items()]
        return verdicts

    def _ask_porcupine(self, histories: Mapping[str, Settled]) -> Iterator[Verdict]:
        with tempfile.TemporaryDirectory(prefix="quire-judges-") as directory:
            names: dict[str, str] = {}
            for number, (name, settled) in enumerate(histories.items()):
                path = Path(directory) / f"{number}.ndjson"
                path.write_text("".join(_lines(settled)), encoding="utf-8")
                names[str(path)] = name
            command = [str(self.porcupine), "-timeout", f"{self.seconds}s", "-"]
            answer = subprocess.run(
                command, input="\n".join(names), text=True, stdout=subprocess.PIPE, check=False
            )
        said = {each["file"]: each for each in map(json.loads, answer.stdout.splitlines())}
        if said.keys() != names.keys():
            raise RuntimeError(f"{command} judged {len(said)} of {len(names)} histories")
        for path_name, name in names.items():
            yield _of_porcupine(name, histories[name], said[path_name]["verdict"])

    def _ask_s2(self, name: str, history: History, settled: Settled) -> Verdict:
        if self.s2 is None:
            return Verdict(name, "s2", NOT_FED, "its program could not be had")
        converted = convert(history, settled)
        if converted.refusal:
            return Verdict(name, "s2", NOT_FED, converted.refusal)
        verdicts = Counter(self._feed_s2(converted))
        for worst in (ILLEGAL, UNKNOWN):
            if verdicts[worst]:
                blocks = f"{verdicts[worst]} of {verdicts.total()} blocks"
                return Verdict(name, "s2", worst, blocks)
        return Verdict(name, "s2", ILLEGAL if settled.wrong else OK)

    def _feed_s2(self, converted: Converted) -> Iterator[str]:
        """Yield S2's verdict on each block. Its picture of the block is not kept."""
        assert self.s2 is not None
        with tempfile.TemporaryDirectory(prefix="quire-judges-") as directory:
            for lines in converted.files:
                try:
                    answer = subprocess.run(
                        [str(self.s2.resolve()), "-file=-"],
                        input="\n".join(lines),
                        text=True,
                        cwd=directory,
                        capture_output=True,
                        timeout=self.seconds,
                        check=False,
                    )
                except subprocess.TimeoutExpired:
                    yield UNKNOWN
                    continue
                if answer.returncode and "NOT linearizable" not in answer.stderr:
                    raise RuntimeError(f"{self.s2} cannot judge: {answer.stderr[-500:]}")
                yield ILLEGAL if answer.returncode else OK


def _lines(settled: Settled) -> Iterator[str]:
    """Yield a settled history as porcupine/main.go reads it."""
    for number, block in enumerate(settled.blocks):
        for each in block.operations:
            yield _line(number, block.base, each)


def _line(block: int, base: int, operation: Operation) -> str:
    fields = asdict(operation)
    wanted = ("kind", "called", "returned", "values", "offset", "expected", "place")
    kept = {key: fields[key] for key in wanted if fields[key] is not None}
    return json.dumps({"block": block, "base": base, **kept}, separators=(",", ":")) + "\n"


def _of_porcupine(name: str, settled: Settled, verdict: str) -> Verdict:
    if settled.wrong:
        return Verdict(name, "porcupine", ILLEGAL, settled.wrong[0])
    return Verdict(name, "porcupine", verdict)


def _look_for_anomalies(name: str, history: History) -> Verdict:
    found = find_anomalies(history)
    if not found:
        return Verdict(name, "anomalies", OK)
    names = ", ".join(f"{count} {each}" for each, count in Counter(a.name for a in found).items())
    return Verdict(name, "anomalies", ILLEGAL, f"{names}; first {found[0]}")


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each judge, then one for each verdict that is not Ok."""
    lines = []
    for judge in dict.fromkeys(each.judge for each in verdicts):
        counts = Counter(each.verdict for each in verdicts if each.judge == judge)
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        lines.append(f"{judge}: {said}")
    lines += [f"  {each}" for each in verdicts if each.verdict in (ILLEGAL, UNKNOWN)]
    return lines


def is_condemned(verdicts: Sequence[Verdict]) -> bool:
    """Whether a judge found a history illegal."""
    return any(each.verdict == ILLEGAL for each in verdicts)

"""The diagram of a ledger's states in docs/protocol.md, made from the table that the code obeys.

    python -m tests.support.state_diagram      writes it into the document

`REASONS` says what each step is for; a step that has no reason here, or a reason without a step, is
an error, so the drawing cannot be of another protocol than `quire.ledger.metadata.TRANSITIONS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quire.ledger.metadata import TRANSITIONS, LedgerState

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"
BEGIN: Final = "<!-- made by: python -m tests.support.state_diagram -->"
END: Final = "<!-- end of the diagram -->"

REASONS: Final[dict[tuple[LedgerState, LedgerState], str]] = {
    (LedgerState.OPEN, LedgerState.IN_RECOVERY): "a client recovers it",
    (LedgerState.OPEN, LedgerState.CLOSED): "its writer closes it",
    (LedgerState.IN_RECOVERY, LedgerState.CLOSED): "a recoverer closes it",
}


def diagram() -> str:
    """Return the diagram as Mermaid, which people can read too."""
    steps = [(source, target) for source in LedgerState for target in sorted(TRANSITIONS[source])]
    assert set(steps) == set(REASONS), "every step has a reason, and every reason a step"
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {LedgerState.OPEN.name}: created"]
    lines += [
        f"    {source.name} --> {target.name}: {REASONS[source, target]}"
        for source, target in steps
    ]
    lines += [f"    {state.name} --> [*]" for state in LedgerState if not TRANSITIONS[state]]
    return "\n".join([*lines, "```"])


def renewed(text: str) -> str:
    """Return the document with the diagram in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    assert after, f"the document has lost its marks {BEGIN} and {END}"
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(renewed(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")

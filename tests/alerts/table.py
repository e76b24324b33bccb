"""Which drill makes which alert fire, and what to read then.

`python -m tests.alerts.table` renews the table of docs/drills.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.alerts.bookie_drills import BOOKIE_DRILLS
from tests.alerts.client_drills import CLIENT_DRILLS
from tests.alerts.drill import AlertDrill
from tests.alerts.healing_drills import HEALING_DRILLS
from tests.alerts.process_drills import PROCESS_DRILLS
from tests.alerts.rules import ROOT, rules

DRILLS: Final[dict[str, AlertDrill]] = {
    each.name: each for each in (*PROCESS_DRILLS, *BOOKIE_DRILLS, *HEALING_DRILLS, *CLIENT_DRILLS)
}

PAGE: Final[Path] = ROOT / "docs" / "drills.md"
BEGIN, END = "<!-- alerts -->\n", "<!-- end of alerts -->\n"


def markdown() -> str:
    """Return the table of docs/drills.md, in the order of the rules."""
    by_alert = {alert: each for each in DRILLS.values() for alert in each.alerts}
    lines = ["| alert | drill | brings about | runbook |", "|---|---|---|---|"]
    for alert, rule in rules().items():
        it, title = by_alert[alert], rule.anchor.removeprefix("alert-").replace("-", " ")
        section = f"[{title}](operations.md#{rule.anchor})"
        lines.append(f"| `{alert}` | `{it.name}` | {it.state} | {section} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{markdown()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

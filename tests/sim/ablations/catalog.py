"""All ablations: which safeguard, in which workload, and why one may go unnoticed."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations.bookie_table import BOOKIE
from tests.sim.ablations.healing_table import HEALING
from tests.sim.ablations.ledger_table import LEDGER
from tests.sim.ablations.log_table import LOG
from tests.sim.ablations.page_table import PAGES
from tests.sim.ablations.patch import Ablation
from tests.sim.ablations.restore_table import RESTORE
from tests.sim.ablations.service_table import SERVICE

ABLATIONS: Final[tuple[Ablation, ...]] = (
    *BOOKIE,
    *LEDGER,
    *LOG,
    *SERVICE,
    *RESTORE,
    *PAGES,
    *HEALING,
)

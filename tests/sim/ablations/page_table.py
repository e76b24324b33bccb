"""Safeguards of manifests in pages."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import pages
from tests.sim.ablations.patch import Ablation

PAGES: Final = (
    Ablation("a sweep of pages holds the head", "pages", pages.sweep_without_a_guard),
    Ablation("a head names pages that exist", "pages", pages.name_pages_before_they_are_there),
    Ablation("the name of a page is used once", "pages", pages.use_names_again),
    Ablation("trimmed rows of a page stay hidden", "pages", pages.show_trimmed_rows),
    Ablation("a trim carries the last txid over", "pages", pages.forget_the_last_txid),
    Ablation("a doomed page is emptied before", "pages", pages.forget_pages_first),
    Ablation("a sweep spares what doomed pages name", "pages", pages.sweep_below_doomed_pages),
    Ablation("jobs change with the head", "pages", pages.write_jobs_before_the_head),
    Ablation("a reader keeps sealed rows only", "log", pages.keep_rows_of_open_segments),
)

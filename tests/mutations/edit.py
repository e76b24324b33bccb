"""What an edit is, and how it is applied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """One replacement in one file, and the tests that must fail with it."""

    name: str
    """What the edited program does wrong."""
    file: str
    old: str
    """Occurs exactly once in the file."""
    new: str
    tests: tuple[str, ...]
    """Arguments of pytest: files or single tests. At least one test must fail."""

    def edited(self, root: Path) -> str:
        """Return the file's text with the edit. Raises `ValueError` when it cannot be applied."""
        text = (root / self.file).read_text()
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: the old text occurs {found} times in {self.file}")
        return text.replace(self.old, self.new)

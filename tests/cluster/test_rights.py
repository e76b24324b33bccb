"""Rights of a running cluster, as its operator changes them: bookies obey while they serve."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.support.command import RunningCluster, cluster_up, quire

SECONDS_MAX = 60.0


def wait_until_known(cluster: RunningCluster, rules: int) -> None:
    """Return when every bookie has said that it knows so many rules."""
    end = time.monotonic() + SECONDS_MAX
    while not all(f" {rules} rules of rights" in each for each in logs(cluster)):
        assert time.monotonic() < end, "a bookie does not follow the table"
        time.sleep(0.05)


def logs(cluster: RunningCluster) -> list[str]:
    found = [each.read_text("utf-8") for each in sorted(cluster.directory.glob("bookie-*.log"))]
    assert len(found) == len(cluster.bookies)
    return found


def test_a_table_is_obeyed_by_bookies_that_run(tmp_path: Path) -> None:
    with cluster_up(tmp_path / "data", bookies=3) as cluster:

        def ask(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
            done = quire(*arguments, store=cluster.store, stdin=stdin)
            return done.code, done.out, done.err

        assert ask("log", "append", "orders", stdin="a\n")[0] == 0
        assert ask("log", "append", "bills", stdin="b\n")[0] == 0
        rules = [
            {"identity": "quire://client/root", "role": "admin"},
            {"identity": "anonymous", "role": "reader", "log": "orders"},
        ]
        file = tmp_path / "rights.json"
        file.write_text(json.dumps({"rules": rules}), encoding="utf-8")
        assert ask("rights", "apply", str(file))[0] == 0
        wait_until_known(cluster, 2)

        assert ask("log", "read", "orders")[1] == "a\n"
        code, _, said = ask("log", "read", "bills")
        assert code == 2
        assert "anonymous has no right to read" in said
        assert "log 'bills'" in said
        code, _, said = ask("log", "append", "orders", stdin="c\n")
        assert code in (2, 5)
        assert "has no right to recover" in said or "has no right to append" in said
        assert ask("rights", "check", "anonymous", "append", "--log", "orders")[0] == 12

        assert ask("rights", "grant", "writer", "anonymous", "--logs", "ord")[0] == 0
        wait_until_known(cluster, 3)
        assert ask("log", "append", "orders", stdin="d\n")[0] == 0
        assert ask("log", "read", "orders")[1] == "a\nd\n"
        assert "quire.audit: denied read to anonymous on ledger" in "".join(logs(cluster))

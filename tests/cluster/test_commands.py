"""The commands against real bookies: what they print, and what they say when it cannot work."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.command import RunningCluster, quire, started

WAIT_SECONDS = 60.0
LINES = "first\nsecond\nthird\n"


def create(cluster: RunningCluster, *options: str, stdin: str = LINES) -> str:
    done = quire("ledger", "create", *options, store=cluster.store, stdin=stdin)
    assert done.code == 0, done.err
    return done.out.strip()


class TestLogs:
    def test_without_a_record_nothing_is_opened(self, cluster: RunningCluster) -> None:
        done = quire("log", "append", "never made", store=cluster.store, stdin="")
        assert done.code == 0
        assert "no record" in done.err
        assert "never made" not in quire("log", "list", store=cluster.store).out
        assert quire("log", "append", "led", "record", store=cluster.store).code == 0
        before = quire("log", "show", "led", "--json", store=cluster.store).json
        assert quire("log", "append", "led", store=cluster.store, stdin="").code == 0
        assert quire("log", "show", "led", "--json", store=cluster.store).json == before

    def test_records_come_back_in_order(self, cluster: RunningCluster) -> None:
        written = quire("log", "append", "plain", store=cluster.store, stdin=LINES)
        assert written.code == 0, written.err
        positions = written.out.split()
        assert len(positions) == 3
        assert quire("log", "read", "plain", store=cluster.store).out == LINES
        rest = quire("log", "read", "plain", "--from", positions[1], store=cluster.store)
        assert rest.out == "second\nthird\n"
        by_offset = quire("log", "read", "plain", "--from", "2", store=cluster.store)
        assert by_offset.out == "third\n"

    def test_appending_again_takes_over(self, cluster: RunningCluster) -> None:
        for number in (1, 2):
            done = quire("log", "append", "epochs", f"record {number}", store=cluster.store)
            assert done.code == 0, done.err
        records = quire("log", "read", "epochs", "--json", store=cluster.store).json
        assert [(each["payload"], each["epoch"]) for each in records] == [
            ("record 1", 1),
            ("record 2", 2),
        ]
        assert [each["offset"] for each in records] == [0, 1]

    def test_transactions_are_written_shown_and_started_at(self, cluster: RunningCluster) -> None:
        for number in (5, 9):
            command = ("log", "append", "numbered", f"in {number}", "--txid", f"{number}")
            assert quire(*command, store=cluster.store).code == 0
        found = quire("log", "read", "numbered", "--from", "txid:6", "--json", store=cluster.store)
        assert [(each["txid"], each["payload"]) for each in found.json] == [(9, "in 9")]
        late = quire("log", "append", "numbered", "x", "--txid", "8", store=cluster.store)
        assert late.code == 7
        assert "txid 8 cannot follow txid 9" in late.err
        wrong = quire("log", "append", "numbered", "x", "--payload", "hex", store=cluster.store)
        assert wrong.code == 2
        shown = quire("log", "show", "numbered", "--json", store=cluster.store).json
        assert shown[0]["epoch"] == 2, "nobody was fenced off for nothing"

    def test_a_log_is_read_from_a_time(self, cluster: RunningCluster) -> None:
        assert quire("log", "append", "timed", "then", store=cluster.store).code == 0
        [then] = quire("log", "read", "timed", "--json", store=cluster.store).json
        between = datetime.fromtimestamp((then["timestamp_ms"] + 1) / 1000, UTC).isoformat()
        assert quire("log", "append", "timed", "now", store=cluster.store).code == 0
        found = quire("log", "read", "timed", "--from", between, store=cluster.store)
        assert found.out.split() == ["now"]
        vague = quire("log", "read", "timed", "--from", "2026-07-31T09:30:00", store=cluster.store)
        assert vague.code == 2
        assert "has no time zone" in vague.err

    def test_an_encrypted_log_needs_its_key_file(
        self, cluster: RunningCluster, tmp_path: Path
    ) -> None:
        keys = tmp_path / "keys"
        keys.write_text(f"mine {bytes(32).hex()}\n")
        key_file = ("--key-file", str(keys))
        assert quire("log", "append", "hidden", "x", *key_file, store=cluster.store).code == 0
        assert quire("log", "read", "hidden", *key_file, store=cluster.store).out == "x\n"
        refused = quire("log", "read", "hidden", store=cluster.store)
        assert (refused.code, refused.out) == (2, "")
        assert "at 1.0.0 is encrypted with key 'mine'" in refused.err
        keys.write_text("mine too short\n")
        bad = quire("log", "read", "hidden", *key_file, store=cluster.store)
        assert bad.code == 2
        assert "line 1 of key file" in bad.err

    def test_a_tail_sees_what_is_appended_later(self, cluster: RunningCluster) -> None:
        assert quire("log", "append", "tailed", "old", store=cluster.store).code == 0
        with started("log", "tail", "tailed", "--from", "beginning", store=cluster.store) as tail:
            assert tail.stdout is not None
            assert tail.stdout.readline() == "old\n"
            assert quire("log", "append", "tailed", "new", store=cluster.store).code == 0
            assert tail.stdout.readline() == "new\n"
            tail.send_signal(signal.SIGINT)
            out, err = tail.communicate()
            assert (tail.returncode, out) == (130, "")
            assert err.strip() == "Waiting for records of log tailed; Ctrl-C ends."

    def test_list_show_set_trim_and_delete(self, cluster: RunningCluster) -> None:
        appended = quire("log", "append", "kept", "a", "b", "c", store=cluster.store)
        last = appended.out.split()[-1]
        listed = quire("log", "list", "--json", store=cluster.store).json
        assert "kept" in [each["log"] for each in listed]
        assert quire("log", "set", "kept", "roll_bytes=1000", store=cluster.store).code == 0
        changes = ("replication=3/2/2", "compression=zstd", "roll_bytes=")
        assert quire("log", "set", "kept", *changes, store=cluster.store).code == 0
        wrong = quire("log", "set", "kept", "replication=2/3/2", store=cluster.store)
        assert wrong.code != 0
        assert "replication 2/3/2 is not 1024 ≥ ensemble" in wrong.err
        assert quire("log", "trim", "kept", last, store=cluster.store).code == 0
        assert quire("log", "read", "kept", store=cluster.store).out == "c\n"
        trimmed = quire("log", "read", "kept", "--from", "1.0.0", store=cluster.store)
        assert trimmed.code == 3
        assert "the first position left is" in trimmed.err
        shown = quire("log", "show", "kept", store=cluster.store)
        assert "segment" in shown.out
        assert "compression=zstd replication=3/2/2" in shown.out
        assert quire("log", "delete", "kept", "--yes", store=cluster.store).code == 0
        assert quire("log", "show", "kept", store=cluster.store).code == 3

    def test_create_and_watch(self, cluster: RunningCluster) -> None:
        setting = "replication=3/2/2"
        created = quire("log", "create", "new", setting, "--json", store=cluster.store)
        assert created.json[0]["options"] == {"replication": "3/2/2"}
        again = quire("log", "create", "new", store=cluster.store)
        assert again.code != 0
        assert again.err.startswith("quire: log 'new' exists: open it, or delete it before")
        assert quire("log", "read", "new", store=cluster.store).out == ""
        wrong = quire("log", "create", "other", "colour=red", store=cluster.store)
        assert "no option 'colour'" in wrong.err
        assert quire("log", "show", "other", store=cluster.store).code == 3
        with started("log", "watch", "new", "--json", store=cluster.store) as watch:
            assert watch.stdout is not None
            assert json.loads(watch.stdout.readline())["segments"] == 0
            assert quire("log", "append", "new", "a", store=cluster.store).code == 0
            while not json.loads(watch.stdout.readline())["records"]:
                pass
            with started("log", "watch", store=cluster.store) as names:
                assert names.stdout is not None
                assert "new" in names.stdout.readline().split()
                assert quire("log", "delete", "new", "--yes", store=cluster.store).code == 0
                assert "new" not in names.stdout.readline().split()
                names.send_signal(signal.SIGINT)
                assert names.wait() == 130
            assert watch.communicate()[1] == "Log new is deleted.\n"
            assert watch.returncode == 0

    def test_delete_asks(self, cluster: RunningCluster) -> None:
        assert quire("log", "append", "asked", "a", store=cluster.store).code == 0
        assert quire("log", "delete", "asked", store=cluster.store, stdin="n\n").code == 130
        assert quire("log", "read", "asked", store=cluster.store).out == "a\n"

    def test_unknown_log(self, cluster: RunningCluster) -> None:
        done = quire("log", "read", "nowhere", store=cluster.store)
        assert (done.code, done.out) == (3, "")
        assert done.err.startswith("quire: log 'nowhere' does not exist")
        assert done.err.count("\n") == 1

    def test_a_position_that_is_none(self, cluster: RunningCluster) -> None:
        done = quire("log", "read", "plain", "--from", "1.2", store=cluster.store)
        assert done.code == 2
        assert "segment.entry.slot" in done.err

    def test_wrong_password(self, cluster: RunningCluster) -> None:
        secret = ("--password", "secret")
        assert quire("log", "append", "secret", "a", *secret, store=cluster.store).code == 0
        done = quire("log", "read", "secret", "--password", "guess", store=cluster.store)
        assert done.code == 2
        assert "wrong password" in done.err
        assert "guess" not in done.err


class TestLedgers:
    def test_entries_come_back(self, cluster: RunningCluster) -> None:
        ledger = create(cluster)
        assert quire("ledger", "read", ledger, store=cluster.store).out == LINES
        part = quire("ledger", "read", ledger, "--first", "1", "--last", "1", store=cluster.store)
        assert part.out == "second\n"
        assert quire("ledger", "tail", ledger, store=cluster.store).out == LINES

    def test_any_bytes_pass(self, cluster: RunningCluster) -> None:
        payload = bytes(range(256))
        encoded = base64.b64encode(payload).decode()
        ledger = create(cluster, "--payload", "base64", stdin=encoded)
        back = quire("ledger", "read", ledger, "--payload", "hex", store=cluster.store)
        assert back.out == payload.hex() + "\n"
        fields = quire("ledger", "read", ledger, "--json", store=cluster.store).json
        assert fields == [{"entry": 0, "payload_base64": encoded}]

    def test_one_left_open_is_recovered_by_close(self, cluster: RunningCluster) -> None:
        ledger = create(cluster, "--leave-open")
        shown = quire("ledger", "show", ledger, "--json", store=cluster.store).json[0]
        assert shown["state"] == "open"
        closed = quire("ledger", "close", ledger, "--json", store=cluster.store).json[0]
        assert (closed["state"], closed["last_entry"]) == ("closed", 2)
        assert quire("ledger", "read", ledger, store=cluster.store).out == LINES

    def test_bookies_are_asked_what_they_hold(self, cluster: RunningCluster) -> None:
        ledger = create(cluster, "--ack-quorum", "3")
        (found,) = quire("ledger", "inventory", ledger, "--json", store=cluster.store).json
        assert [each["held"] for each in found["bookies"]] == [[[0, 2]]] * 3
        assert (found["compared_to"], found["shortages"]) == (2, [])
        said = quire("ledger", "inventory", ledger, store=cluster.store)
        assert said.out.endswith("Entries 0 to 2 have all 3 copies.\n")

    def test_delete_and_unknown_ledger(self, cluster: RunningCluster) -> None:
        ledger = create(cluster)
        listed = quire("ledger", "list", "--json", store=cluster.store).json
        assert int(ledger) in [each["ledger"] for each in listed]
        assert quire("ledger", "delete", ledger, "--yes", store=cluster.store).code == 0
        for command in ("read", "show", "tail", "close", "inventory"):
            done = quire("ledger", command, ledger, store=cluster.store)
            assert done.code == 3
            assert done.err.startswith(f"quire: ledger {ledger} does not exist; ")

    def test_no_such_entry(self, cluster: RunningCluster) -> None:
        done = quire("ledger", "read", create(cluster), "--last", "99", store=cluster.store)
        assert done.code == 3
        assert "has no entry 99" in done.err

    def test_wrong_password(self, cluster: RunningCluster) -> None:
        ledger = create(cluster, "--password", "secret")
        done = quire("ledger", "read", ledger, store=cluster.store)
        assert done.code == 2
        assert done.err.startswith(f"quire: wrong password for ledger {ledger}, or none: ")
        assert "give the password in QUIRE_PASSWORD" in done.err

    def test_too_few_bookies(self, cluster: RunningCluster) -> None:
        done = quire("ledger", "create", "x", "--ensemble", "9", store=cluster.store)
        assert done.code == 4
        assert "9 writable bookies are needed, 3 can be used" in done.err

    def test_nothing_is_created_for_what_cannot_be_appended(self, cluster: RunningCluster) -> None:
        before = quire("ledger", "list", "--json", store=cluster.store).json
        bad = quire("ledger", "create", "00", "zz", "--payload", "hex", store=cluster.store)
        assert (bad.code, "is not hex" in bad.err) == (2, True)
        large = "x" * (4 * 1024 * 1024)
        for command in (("ledger", "create"), ("log", "append", "never")):
            done = quire(*command, store=cluster.store, stdin=large + "x\n")
            assert done.code == 2
            assert "exceeds the limit" in done.err
        assert quire("ledger", "list", "--json", store=cluster.store).json == before

    def test_what_came_before_a_bad_record_is_closed(self, cluster: RunningCluster) -> None:
        lines = "00\n" * 200_000 + "zz\n"
        done = quire("ledger", "create", "--payload", "hex", store=cluster.store, stdin=lines)
        assert done.code == 2
        told = re.search(r"Ledger (\d+) ends after entry (\d+)", done.err)
        assert told is not None
        [row] = [
            each
            for each in quire("ledger", "list", "--json", store=cluster.store).json
            if each["ledger"] == int(told[1])
        ]
        assert (row["state"], row["last_entry"]) == ("closed", int(told[2]))

    def test_impossible_replication(self, cluster: RunningCluster) -> None:
        done = quire("ledger", "create", "x", "--ack-quorum", "4", store=cluster.store)
        assert done.code == 2
        assert "ensemble ≥ write quorum ≥ ack quorum" in done.err

    def test_appending_to_a_ledger_is_explained(self, cluster: RunningCluster) -> None:
        done = quire("ledger", "append", "7", "x", store=cluster.store)
        assert done.code == 2
        assert "quire log append" in done.err

    def test_a_reader_that_goes_away(self, cluster: RunningCluster) -> None:
        ledger = create(cluster, stdin="x" * 100 + "\n" + "y\n" * 50_000)
        with started("ledger", "read", ledger, store=cluster.store) as reading:
            assert reading.stdout is not None
            reading.stdout.readline()
            reading.stdout.close()
            assert reading.stderr is not None
            assert reading.stderr.read() == ""
            assert reading.wait(WAIT_SECONDS) == 141


class TestBookies:
    def test_list_and_status(self, cluster: RunningCluster) -> None:
        listed = quire("bookie", "list", "--json", store=cluster.store).json
        assert sorted(each["bookie"] for each in listed) == sorted(
            each["bookie"] for each in cluster.bookies
        )
        assert {each["state"] for each in listed} == {"writable"}
        status = quire("cluster", "status", "--json", store=cluster.store).json[0]
        assert (status["bookies"], status["writable"]) == (3, 3)
        assert "writable" in quire("bookie", "list", store=cluster.store).out

    def test_a_cluster_is_found_by_its_directory(self, cluster: RunningCluster) -> None:
        done = quire("cluster", "status", "--store", str(cluster.directory))
        assert done.code == 0, done.err

    def test_port_in_use(self, cluster: RunningCluster, tmp_path: Path) -> None:
        assert quire("bookie", "format", str(tmp_path / "b"), store=cluster.store).code == 0
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = quire(
                "bookie", "serve", str(tmp_path / "b"), "--listen", address, store=cluster.store
            )
        assert done.code == 2
        assert f"cannot listen on {address}" in done.err

    def test_a_directory_that_is_not_formatted(
        self, cluster: RunningCluster, tmp_path: Path
    ) -> None:
        done = quire("bookie", "serve", str(tmp_path), store=cluster.store)
        assert done.code == 2
        assert "format" in done.err

    def test_a_directory_that_holds_something(
        self, cluster: RunningCluster, tmp_path: Path
    ) -> None:
        (tmp_path / "precious").write_text("data", encoding="utf-8")
        done = quire("bookie", "format", str(tmp_path), store=cluster.store)
        assert done.code == 2
        assert "precious" in done.err

    def test_a_directory_in_use(self, cluster: RunningCluster) -> None:
        directory = cluster.directory / "bookie-0"
        (directory / "LOCK").unlink()  # by a cleaner: the lock is on the directory itself
        done = quire("bookie", "serve", str(directory), store=cluster.store)
        assert done.code == 9
        assert re.search(r"in use by another bookie process \(pid \d+\)", done.err)

    @pytest.mark.parametrize(
        "arguments", [("serve",), ("repair",), ("repair", "--accept-loss")], ids=" ".join
    )
    def test_a_directory_in_use_is_refused_before_its_store_is_asked(
        self, cluster: RunningCluster, arguments: tuple[str, ...]
    ) -> None:
        command, *options = arguments
        directory = str(cluster.directory / "bookie-0")
        done = quire("bookie", command, directory, *options, store="zk://127.0.0.1:1/nowhere")
        assert done.code == 9, "with an unreachable store it would be 4"
        assert "in use by another bookie process" in done.err

    @pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
    def test_clients_are_never_told_a_wildcard(
        self, cluster: RunningCluster, tmp_path: Path, host: str
    ) -> None:
        assert quire("bookie", "format", str(tmp_path / "b"), store=cluster.store).code == 0
        serve = ("bookie", "serve", str(tmp_path / "b"), "--listen", f"{host}:0")
        done = quire(*serve, store=cluster.store)
        assert done.code == 2
        assert "--insecure-network" in done.err
        accepted = (*serve, "--insecure-network")
        done = quire(*accepted, store=cluster.store)
        assert done.code == 2
        assert "--advertise HOST" in done.err
        assert f"{host}:0 has no TLS" in done.err
        told = ("--advertise", "127.0.0.1", "--json")
        with started(*accepted, *told, store=cluster.store) as bookie:
            assert bookie.stdout is not None
            ready = json.loads(bookie.stdout.readline())
            assert ready["address"].startswith("127.0.0.1:")
            assert ready["runs"].startswith("127.0.0.1:")

    def test_a_directory_of_another_cluster(self, cluster: RunningCluster, tmp_path: Path) -> None:
        other = f"sqlite://{tmp_path}/other.db"
        assert quire("bookie", "format", str(tmp_path / "b"), store=other).code == 0
        assert quire("bookie", "format", str(tmp_path / "c"), store=cluster.store).code == 0
        done = quire("bookie", "serve", str(tmp_path / "b"), store=cluster.store)
        assert done.code == 9
        assert "belongs to" in done.err


class TestStores:
    def test_no_store_at_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        done = quire("log", "list")
        assert done.code == 2
        assert "quire cluster up" in done.err

    def test_a_directory_without_a_cluster(self, tmp_path: Path) -> None:
        done = quire("log", "list", store=str(tmp_path / "nothing"))
        assert done.code == 2
        assert "cluster up" in done.err

    def test_an_unknown_kind_of_store(self) -> None:
        done = quire("log", "list", store="etcd://localhost")
        assert done.code == 2
        assert "sqlite:///" in done.err

    def test_a_store_that_does_not_answer(self) -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            done = quire("log", "list", store=f"zk://{address}/quire")
        assert done.code == 4
        assert done.err.startswith("quire: metadata store")
        assert done.err.count("\n") == 1


class TestElections:
    def test_watching_a_leader_come_and_go(self, cluster: RunningCluster) -> None:
        with started("election", "watch", "office", "--json", store=cluster.store) as watch:
            assert watch.stdout is not None
            assert '"leader": null' in watch.stdout.readline()
            stand = ("election", "lead", "office", "--candidate", "me", "--", "sleep", "600")
            with started(*stand, store=cluster.store) as leader:
                assert '"leader": "me"' in watch.stdout.readline()
                leader.send_signal(signal.SIGINT)
                assert leader.wait(WAIT_SECONDS) == 130
            assert '"leader": null' in watch.stdout.readline()
            watch.send_signal(signal.SIGINT)
            assert watch.wait(WAIT_SECONDS) == 130

    def test_a_command_runs_while_leading(self, cluster: RunningCluster) -> None:
        script = "echo epoch $QUIRE_EPOCH; exit 7"
        command = ("election", "lead", "epochs", "--", "sh", "-c", script)
        for epoch in (1, 2):
            done = quire(*command, store=cluster.store)
            assert (done.code, done.out) == (7, f"epoch {epoch}\n")

    def test_a_command_that_cannot_be_run(self, cluster: RunningCluster) -> None:
        done = quire("election", "lead", "typo", "--", "no-such-command", store=cluster.store)
        assert (done.code, done.err.splitlines()[1:]) == (
            2,
            ["quire: cannot run 'no-such-command': No such file or directory"],
        )

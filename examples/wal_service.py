"""A service of threads with a write-ahead log: accounts that survive the loss of a machine.

    quire cluster up                                  # in another terminal
    python examples/wal_service.py alice 100 bob 50 alice 30

A change is decided and queued under a lock, so the log has the order of the decisions. The answer
waits outside the lock: appends of many threads share one write to the disks.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import quire.sync

LOG = "accounts"


class Accounts:
    """Balances of accounts; every change is in the log before `change` returns."""

    def __init__(self, client: quire.sync.SyncClient) -> None:
        self._balances: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._log = client.open_log(LOG)  # from here on, an earlier process can write nothing
        for record in client.read_log(LOG):
            self._apply(record.payload)

    def change(self, account: str, amount: int) -> int:
        """Add an amount to an account and return its new balance.

        Raises:
            ValueError: the balance would be negative. Nothing is written.
            QuireError: the change may or may not be in the log. End the process: the next one
                reads the log and knows.
        """
        command = json.dumps({"account": account, "amount": amount}).encode()
        with self._lock:
            if self._balances[account] + amount < 0:
                raise ValueError(f"{account} has {self._balances[account]}, not {-amount}")
            durable = self._log.submit(command)
            self._apply(command)
            balance = self._balances[account]
        durable.result()  # two of three bookies have synced it
        return balance

    def close(self) -> None:
        """Confirm every change and close the log, so that the next process starts at once."""
        self._log.close()

    def _apply(self, command: bytes) -> None:
        change = json.loads(command)
        self._balances[change["account"]] += change["amount"]


def main(arguments: list[str]) -> None:
    changes = list(zip(arguments[::2], map(int, arguments[1::2]), strict=True))
    with quire.sync.connect("./quire-data") as client, ThreadPoolExecutor(8) as threads:
        accounts = Accounts(client)
        for balance in threads.map(lambda each: accounts.change(*each), changes):
            print(balance)
        accounts.close()


if __name__ == "__main__":
    main(sys.argv[1:])

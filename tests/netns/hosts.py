"""Hosts of our own: network namespaces on one switch, with real addresses and real loss.

Each host is a namespace with an address 10.99.0.N; all hang on a bridge in a namespace of its own,
so nothing is changed outside. Needs root and iproute2, and no kernel module beyond bridge and veth:
what one host sends to another is lost by giving it an Ethernet address that nobody has. Nobody is
told, as on a broken network: no reset, no error, only silence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

NOBODY = "02:00:00:00:ff:ff"


class MissingPrivilegeError(RuntimeError):
    """This machine or this user cannot make hosts."""


@dataclass(frozen=True)
class Host:
    """One machine of the network."""

    name: str
    namespace: str
    address: str
    ethernet: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before a command so that it runs here; the process keeps its id."""
        return ("ip", "netns", "exec", self.namespace)


class Network:
    """Some hosts on one switch. Made by `network`."""

    def __init__(self, names: Sequence[str]) -> None:
        self._tag = f"q{os.getpid()}"
        self._switch = f"{self._tag}-switch"
        self.hosts = {
            name: Host(
                name, f"{self._tag}-{name}", f"10.99.0.{number}", f"02:00:00:00:00:{number:02x}"
            )
            for number, name in enumerate(names, start=1)
        }

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def build(self) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise MissingPrivilegeError("these tests need root and the command `ip` (iproute2)")
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "br0", "up")
        for host in self.hosts.values():
            self._plug_in(host)
        self.heal()

    def _plug_in(self, host: Host) -> None:
        _ip("netns", "add", host.namespace)
        ends = ("type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        _ip("-n", self._switch, "link", "add", host.name, *ends)
        _ip("-n", self._switch, "link", "set", host.name, "master", "br0", "up")
        _ip("-n", host.namespace, "link", "set", "eth0", "address", host.ethernet)
        _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
        _ip("-n", host.namespace, "link", "set", "eth0", "up")
        _ip("-n", host.namespace, "link", "set", "lo", "up")

    def remove(self) -> None:
        for namespace in (*(host.namespace for host in self.hosts.values()), self._switch):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)

    def lose(self, sender: str, receivers: Sequence[str]) -> None:
        """Lose all that one host sends to some others, and nothing of what they send to it."""
        for receiver in receivers:
            self._neighbour(self[sender], self[receiver], NOBODY)

    def cut(self, one: str, others: Sequence[str]) -> None:
        """Part a host from some others, in both directions."""
        self.lose(one, others)
        for other in others:
            self.lose(other, [one])

    def heal(self) -> None:
        """Let everybody hear everybody."""
        for sender in self.hosts.values():
            for receiver in self.hosts.values():
                if sender != receiver:
                    self._neighbour(sender, receiver, receiver.ethernet)

    def _neighbour(self, sender: Host, receiver: Host, ethernet: str) -> None:
        entry = (receiver.address, "lladdr", ethernet, "dev", "eth0", "nud", "permanent")
        _ip("-n", sender.namespace, "neigh", "replace", *entry)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingPrivilegeError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """Build a network of hosts, and remove it after the block."""
    built = Network(names)
    try:
        built.build()
        yield built
    finally:
        built.remove()

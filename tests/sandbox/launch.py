"""Run quire in the sandbox of a unit: `python -m tests.sandbox.launch UNIT DIRECTORY ARGUMENTS`.

It does what systemd does for the settings of the unit: a file system that can be read only but for
DIRECTORY, its own /tmp and /dev, no capabilities, no new privileges, a filter of system calls built
by libseccomp, and no memory that is written and executed. Then it becomes the command.

Left out is what needs systemd or would hide this interpreter: the user, control groups, ProtectHome
and ProtectProc.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
CLONE_NEWNS, CLONE_NEW_ANY = 0x20000, 0x7E020080
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, CAP_LAST = 24, 38, 63
CAPABILITY_VERSION: Final = 0x20080522
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EQ, MASKED_EQ = 4, 7
EPERM, ENOSYS = 1, 38
WRITE, EXEC = 2, 4
FAMILIES: Final = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")

libc = ctypes.CDLL(None, use_errno=True)


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def settings_of(unit: Path) -> dict[str, list[str]]:
    """Return the settings of a unit's service, each with its lines in order."""
    found: dict[str, list[str]] = {}
    part = ""
    for line in unit.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            part = line.strip("[]")
        elif part == "Service" and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def calls_of(name: str) -> Iterator[str]:
    """Return the system calls of a name, as systemd knows its sets."""
    if not name.startswith("@"):
        yield name
        return
    told = subprocess.run(
        ["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True
    )
    for line in told.stdout.splitlines()[1:]:
        if (each := line.strip()) and not each.startswith("#"):
            yield from calls_of(each)


def allowed(lines: list[str]) -> set[str]:
    """Return the system calls that the lines of `SystemCallFilter` allow."""
    found: set[str] = set()
    for line in lines:
        calls = {call for name in line.lstrip("~").split() for call in calls_of(name)}
        found = found - calls if line.startswith("~") else found | calls
    return found


def _call(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str, flags: int) -> None:
    given = (each.encode() for each in (source, target, kind))
    _call(libc.mount(*given, ctypes.c_ulong(flags), None), f"mount {target}")


def hide_files(directory: Path) -> None:
    """ProtectSystem=strict, PrivateTmp, PrivateDevices."""
    _call(libc.unshare(CLONE_NEWNS), "unshare")
    _mount("none", "/", "", MS_REC | MS_PRIVATE)
    _mount(str(directory), str(directory), "", MS_BIND)
    kept = ("/proc", "/sys", "/dev", str(directory))
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        place = line.split()[4]
        if not any(place == each or place.startswith(f"{each}/") for each in kept):
            _mount("none", place, "", MS_REMOUNT | MS_BIND | MS_RDONLY)
    for place in ("/tmp", "/var/tmp"):
        _mount("tmpfs", place, "tmpfs", 0)
    _mount("tmpfs", "/mnt", "tmpfs", 0)
    for name in DEVICES:
        Path("/mnt", name).touch()
        _mount(f"/dev/{name}", f"/mnt/{name}", "", MS_BIND)
    _mount("/mnt", "/dev", "", MS_BIND | MS_REC)


def drop_rights() -> None:
    """CapabilityBoundingSet=, NoNewPrivileges."""
    for number in range(CAP_LAST + 1):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # a number that the kernel lacks fails
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    _call(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    _call(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def filter_calls(settings: dict[str, list[str]]) -> None:
    """SystemCallFilter, RestrictAddressFamilies, RestrictNamespaces, MemoryDenyWriteExecute."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    made = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ERRNO | EPERM)))

    def rule(action: int, name: str, *compared: Comparison) -> None:
        number = library.seccomp_syscall_resolve_name(name.encode())
        array = (Comparison * len(compared))(*compared)
        library.seccomp_rule_add_array(made, ctypes.c_uint32(action), number, len(compared), array)

    calls = allowed(settings["SystemCallFilter"]) | {"execve"}
    for name in sorted(calls - {"socket", "clone", "clone3", "mmap", "mprotect", "pkey_mprotect"}):
        rule(ALLOW, name)
    for family in settings["RestrictAddressFamilies"][0].split():
        rule(ALLOW, "socket", Comparison(0, EQ, FAMILIES[family], 0))
    rule(ALLOW, "clone", Comparison(0, MASKED_EQ, CLONE_NEW_ANY, 0))
    rule(ERRNO | ENOSYS, "clone3")
    for bits in (0, WRITE, EXEC):
        rule(ALLOW, "mmap", Comparison(2, MASKED_EQ, WRITE | EXEC, bits))
    for name in ("mprotect", "pkey_mprotect"):
        rule(ALLOW, name, Comparison(2, MASKED_EQ, EXEC, 0))
    _call(library.seccomp_load(made), "seccomp_load")


def enter(unit: Path, directory: Path) -> None:
    """Enter the sandbox, as far as the module says."""
    settings = settings_of(unit)
    os.umask(int(settings["UMask"][0], 8))
    allowed(settings["SystemCallFilter"])  # it asks systemd-analyze, and may not after this
    hide_files(directory)
    drop_rights()
    filter_calls(settings)


if __name__ == "__main__":
    enter(Path(sys.argv[1]), Path(sys.argv[2]))
    os.execv(sys.executable, [sys.executable, "-P", *sys.argv[3:]])

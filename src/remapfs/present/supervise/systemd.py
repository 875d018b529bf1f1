"""What a service manager is told, and the descriptors that it keeps between two starts of a service.

The protocols are sd_notify(3) and sd_listen_fds(3) of systemd; a test or another manager may speak them too.
"""

from __future__ import annotations

import array
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_FIRST: Final = 3
_SECOND: Final = 1_000_000
_VARIABLES: Final = ("NOTIFY_SOCKET", "FDSTORE", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
_WATCHDOG: Final = ("WATCHDOG_USEC", "WATCHDOG_PID")


@dataclass(frozen=True, slots=True)
class Manager:
    """The service manager that started this process; without an `address` nobody is told anything.

    `room` is how many descriptors it keeps, `watchdog` after how many seconds it wants a sign of life,
    `kept` the descriptors by name that an earlier process of the same service left with it.
    """

    address: str = ""
    room: int = 0
    watchdog: float | None = None
    kept: tuple[tuple[str, int], ...] = ()

    @classmethod
    def take_from(cls, environment: MutableMapping[str, str]) -> Manager:
        """Read what a manager says in the environment, and remove it: it is meant for one process."""
        found = {name: environment.pop(name, "") for name in (*_VARIABLES, *_WATCHDOG)}
        ours = str(os.getpid())
        kept: tuple[tuple[str, int], ...] = ()
        if found["LISTEN_PID"] == ours:
            names = found["LISTEN_FDNAMES"].split(":")
            count = _number(found["LISTEN_FDS"])
            names += ["unknown"] * (count - len(names))
            kept = tuple(zip(names, range(_FIRST, _FIRST + count), strict=False))
            for _, descriptor in kept:
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - os.set_inheritable takes no keyword
        watched = found["WATCHDOG_PID"] in ("", ours) and _number(found["WATCHDOG_USEC"])
        return cls(
            found["NOTIFY_SOCKET"],
            _number(found["FDSTORE"]),
            watched / _SECOND if watched else None,
            kept,
        )

    def tell(self, *lines: str) -> None:
        """Send `VARIABLE=value` lines."""
        self._send("\n".join(lines))

    def keep(self, name: str, descriptor: int) -> None:
        """Let the manager keep a descriptor for the service's next start, whatever state it is in."""
        self._send(f"FDSTORE=1\nFDNAME={name}\nFDPOLL=0", descriptor)

    def forget(self, name: str) -> None:
        """Let the manager close what it keeps under a name."""
        self._send(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def _send(self, text: str, *descriptors: int) -> None:
        if not self.address:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
                connection.connect(address)
                connection.sendmsg([text.encode()], rights)
        except OSError as error:
            LOGGER.warning(
                "the service manager cannot be told %r: %s", text.partition("\n")[0], error.strerror
            )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0

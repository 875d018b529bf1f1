"""What follows from what was found: pure functions over a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from remapfs.doctor.model import Check, Level, Refused, Storage, Works
from remapfs.doctor.source import source
from remapfs.present.erofs.guards import version_of
from remapfs.words import count, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remapfs.doctor.model import Host

_RESEND: Final = (6, 9)
_DONTCACHE: Final = (6, 16)
_PIPE: Final = 1 << 20
_MEMORY: Final = 400_000_000  # what the largest checkpoint took at its peak, and some more
_RESERVED: Final = 64
_SHARED: Final = "mount on the host, or share the mount point's parent (rshared), as docs/docker.md does"


def examine(host: Host, presenter: str) -> tuple[Check, ...]:
    """Say of everything that was looked at how good it is for a mount with `presenter`, and what to do."""
    return tuple(_all(host, presenter))


def _all(host: Host, presenter: str) -> Iterator[Check]:
    yield _kernel(host.release)
    yield _container(host.container)
    yield from _fuse(host, presenter)
    yield from _erofs(host, presenter)
    yield from _fusepy(host, presenter)
    yield _systemd(systemd=host.systemd)
    yield _open_files(host)
    yield _pipe(host.pipe)
    yield _memory(host)
    if host.source is not None:
        yield from source(host.source, presenter, host.memory.total)


def _kernel(release: str) -> Check:
    version = version_of(release)
    if version < _RESEND:
        text = (
            f"Linux {release}: when a server is killed, reads by O_DIRECT fail at that moment (not since 6.9)"
        )
        return Check("kernel", Level.NOTE, text, "a newer kernel, if readers use O_DIRECT")
    if version < _DONTCACHE:
        text = f"Linux {release}: pages of the source that a reader waits for stay cached (not since 6.16)"
        return Check("kernel", Level.GOOD, text)
    return Check("kernel", Level.GOOD, f"Linux {release}")


def _container(kind: str | None) -> Check:
    if kind is None:
        return Check("container", Level.GOOD, "this is no container: every container can see a mount")
    return Check(
        "container",
        Level.NOTE,
        f"this is a container ({kind}): a mount is seen outside only through shared propagation",
        _SHARED,
    )


def _fuse(host: Host, presenter: str) -> Iterator[Check]:
    if presenter == "erofs":
        return
    # What fuse cannot do, erofs may.
    spared = presenter == "auto" and not isinstance(_erofs_of(host), Refused)
    bad = Level.NOTE if spared else Level.PROBLEM
    match host.device:
        case Refused(why, do):
            yield Check("/dev/fuse", bad, why, do)
        case Works():
            yield Check("/dev/fuse", Level.GOOD, "it can be opened")
            match host.mount:
                case Refused(why, do):
                    yield Check("mount", bad, why, do)
                case Works(how):
                    yield Check("mount", Level.GOOD, f"a trial mount {how} worked")
    if host.user == 0:
        yield Check("users", Level.GOOD, "root's mounts let in whom the source lets in")
    elif host.allow_other:
        yield Check("users", Level.GOOD, "--allow-other is allowed here")
    else:
        yield Check(
            "users",
            Level.NOTE,
            "only the user who mounts gets in, so no container that runs as root does",
            "mount as root, or as root: echo user_allow_other >> /etc/fuse.conf, then --allow-other",
        )


def _erofs_of(host: Host) -> Works | Refused:
    """Say whether both host and checkpoint allow the presenter erofs."""
    if isinstance(host.erofs, Works) and isinstance(host.source, Storage):
        refused = host.source.erofs
        return host.erofs if isinstance(refused, Works) else refused
    return host.erofs


def _erofs(host: Host, presenter: str) -> Iterator[Check]:
    if presenter == "fusepy":
        return
    match _erofs_of(host):
        case Refused(why, do):
            bad = Level.PROBLEM if presenter == "erofs" else Level.NOTE
            yield Check("erofs", bad, why, do)
        case Works(how):
            yield Check("erofs", Level.GOOD, f"the kernel can serve by itself, {how}{_hint(presenter)}")


def _hint(presenter: str) -> str:
    return ": faster, for readers without O_DIRECT (--presenter erofs)" if presenter == "fuse" else ""


def _fusepy(host: Host, presenter: str) -> Iterator[Check]:
    if presenter != "fusepy":
        return
    match host.fusepy:
        case Refused(why, do):
            yield Check("fusepy", Level.PROBLEM, why, do)
        case Works():
            yield Check("fusepy", Level.GOOD, "the package and libfuse 2 are there")


def _systemd(*, systemd: bool) -> Check:
    if systemd:
        return Check("systemd", Level.GOOD, "it runs: remapfs install-units mounts at boot")
    return Check(
        "systemd",
        Level.NOTE,
        "it does not run here: nobody mounts at boot, or starts a supervisor again",
        "--background, from whatever starts things here",
    )


def _open_files(host: Host) -> Check:
    shards = host.source.shards if isinstance(host.source, Storage) else 0
    text = f"{host.open_files:,} at most"
    if host.open_files < shards + _RESERVED:
        return Check(
            "open files",
            Level.NOTE,
            f"{text}, fewer than {count(shards, 'shard')} need: they are opened again and again",
            "raise the hard limit: ulimit -Hn, or LimitNOFILE= of the unit",
        )
    return Check("open files", Level.GOOD, text)


def _pipe(largest: int) -> Check:
    if largest < _PIPE:
        return Check(
            "pipes",
            Level.NOTE,
            f"{largest:,} bytes at most: cached reads cost one more copy",
            f"sysctl fs.pipe-max-size={_PIPE}",
        )
    return Check("pipes", Level.GOOD, f"{largest:,} bytes at most")


def _memory(host: Host) -> Check:
    available = host.memory.available
    text = f"{size(available)} available"
    if available < _MEMORY:
        return Check(
            "memory",
            Level.NOTE,
            f"{text}: a large checkpoint takes up to 0.3 GB while it is planned",
            "raise the limit of this container or unit, or end something",
        )
    return Check("memory", Level.GOOD, text)

"""Whether this host can serve EROFS from files, and serve it right."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError

if TYPE_CHECKING:
    from remapfs.present.erofs.syscalls import MountError

FUSE: Final = "use --presenter fuse"
_FILESYSTEMS: Final = Path("/proc/filesystems")
_STATUS: Final = Path("/proc/self/status")
_CAP_SYS_ADMIN: Final = 21
_CONTAINER: Final = f"docker run --cap-add SYS_ADMIN --security-opt apparmor=unconfined; or {FUSE}"
_DEVICE_TABLES: Final = (5, 16)
_FROM_FILES: Final = (6, 12)
# First affected and first good version. Lines that got no fix of their own end where the next line begins.
_USE_AFTER_FREE: Final = (
    ((6, 12), (6, 12, 72)),
    ((6, 13), (6, 18, 11)),
    ((6, 19), (6, 19, 1)),
)
_LOCKED_FOR_EVER: Final = ((6, 14), (6, 15))


def check_user() -> None:
    """Check that this process may mount; raises RemapError."""
    if os.geteuid() != 0:
        raise RemapError(
            "only root can mount with the erofs presenter", f"run as root, or {FUSE}, which other users can"
        )
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", _STATUS.read_text(), re.MULTILINE)
    if found and not int(found[1], 16) >> _CAP_SYS_ADMIN & 1:
        raise RemapError("this container may not mount: it lacks the capability SYS_ADMIN", _CONTAINER)


def check_kernel() -> None:
    """Check that the kernel has EROFS, loading its module if need be, in a version that is known to be good.

    Raises RemapError.
    """
    if not has_erofs():
        program = shutil.which("modprobe")
        if program:
            subprocess.run([program, "erofs"], capture_output=True, check=False)  # noqa: S603  # nothing of a user's
        if not has_erofs():
            raise RemapError(
                "this kernel has no EROFS",
                f"load its module (modprobe erofs; on Ubuntu it is in linux-modules-extra), or {FUSE}",
            )
    release = platform.release()
    bug = known_bug(release)
    if bug:
        raise RemapError(f"EROFS in this kernel ({release}) {bug}", f"update the kernel, or {FUSE}")


def version_of(release: str) -> tuple[int, ...]:
    """Read the three numbers at the start of a kernel release; missing ones are 0."""
    numbers = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", release)
    return tuple(int(number or 0) for number in numbers.groups()) if numbers else (0, 0, 0)


def known_bug(release: str) -> str | None:
    """Say why EROFS must not be used at all in a kernel release, as `uname -r` gives it, or None."""
    version = version_of(release)
    if version < _DEVICE_TABLES:
        return "does not know images over several files, which came with Linux 5.16"
    first, good = _LOCKED_FOR_EVER
    if first <= version < good:
        return "can lock pages for ever after posix_fadvise, which was mended in Linux 6.15"
    return None


def why_not_from_files(release: str) -> str | None:
    """Say why a kernel release must be given block devices instead of files, or None if it need not."""
    version = version_of(release)
    if version < _FROM_FILES:
        return "Linux mounts EROFS from files since 6.12"
    if any(first <= version < good for first, good in _USE_AFTER_FREE):
        return "mounted from files, it can use memory after freeing it (CVE-2026-23224)"
    return None


def refusal(error: MountError) -> RemapError:
    """Put into words why the kernel refused a mount."""
    if error.number in {errno.EPERM, errno.EACCES}:
        return RemapError(f"this process may not mount: {error}", f"in a container: {_CONTAINER}")
    if error.number in {errno.ENODEV, errno.ENOSYS}:
        return RemapError(f"this kernel cannot mount EROFS: {error}", FUSE)
    return RemapError(f"the kernel refuses the EROFS image: {error}", f"dmesg may say more; {FUSE}")


def has_erofs() -> bool:
    """Say whether the kernel has EROFS now; its module may not be loaded yet."""
    return any(line.split()[-1:] == ["erofs"] for line in _FILESYSTEMS.read_text().splitlines())

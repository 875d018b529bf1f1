"""Mounts as another user, and says who can read: `unprivileged.py SOURCE MOUNTPOINT alone|others`.

In a mount namespace of its own, in which every user may open /dev/fuse and fuse.conf allows allow_other, as
on hosts where users mount. The interpreter is started by root, for other users need not reach it.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from present.plans import plan_of
from remapfs.errors import RemapError
from remapfs.present.fuse.session import Session
from remapfs.present.options import MountOptions

USER, GUEST = 65534, 65533
_NEW_NAMESPACE = 0x20000  # CLONE_NEWNS of include/uapi/linux/sched.h


def main() -> None:
    """Mount, look from outside, unmount."""
    source, mountpoint, who = sys.argv[1:]
    folder = Path(mountpoint).parent
    if ctypes.CDLL(None).unshare(_NEW_NAMESPACE):
        raise OSError("no mount namespace")
    _run("mount", "--make-rprivate", "/")
    os.mknod(folder / "fuse", 0o666 | stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
    (folder / "fuse").chmod(0o666)
    _run("mount", "--bind", str(folder / "fuse"), "/dev/fuse")
    (folder / "fuse.conf").write_text("user_allow_other\n")
    _run("mount", "--bind", str(folder / "fuse.conf"), "/etc/fuse.conf")
    os.chown(mountpoint, USER, USER)
    plan = plan_of(Path(source))
    ready, tell = os.pipe()
    wait, end = os.pipe()
    child = os.fork()
    if not child:
        os.close(end)
        code = 1
        try:
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            with Session(plan, mountpoint, MountOptions(allow_other=who == "others")):
                os.write(tell, b"+")
                os.read(wait, 1)
            code = 0
        except RemapError as error:
            print(error.message, file=sys.stderr, flush=True)  # noqa: T201  # its failure
        finally:
            os._exit(code)
    os.close(tell)
    if os.read(ready, 1):
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        found = [line for line in lines if line.split()[4] == mountpoint]
        told = {
            "options": [
                sorted({*line.split()[5].split(","), *line.split()[-1].split(",")}) for line in found
            ],
            "reads": {
                name: [_reads(user, f"{mountpoint}/{name}") for user in (0, USER, GUEST)]
                for name in ("open", "closed")
            },
        }
        print(json.dumps(told))  # noqa: T201  # its answer
    os.close(end)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = any(
        line.split()[4] == mountpoint for line in Path("/proc/self/mountinfo").read_text().splitlines()
    )
    sys.exit(code or int(left))


def _reads(user: int, path: str) -> bool:
    run = subprocess.run(
        ["/bin/cat", path], capture_output=True, check=False, user=user, group=user, extra_groups=[]
    )
    return run.returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

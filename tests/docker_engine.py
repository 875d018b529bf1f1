"""A Docker engine of the tests' own, which touches nothing of the host's and leaves nothing behind."""

from __future__ import annotations

import io
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from processes import child_of
from remapfs.present.mountpoint import mounted_at, mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PATIENCE = 60.0
BUSYBOX = "busybox:test"
"""The image that `Engine.import_busybox` makes."""
PYTHON, REMAPFS, VLLM = "python:test", "remapfs:test", "vllm:test"
"""Images that tests/docker/conftest.py builds: a base, remapfs on it, and a stand-in for vLLM."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A running dockerd, asked through its own socket."""

    socket: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to reach it."""
        return {
            **os.environ,
            "DOCKER_HOST": f"unix://{self.socket}",
            "DOCKER_CONFIG": str(self.socket.with_name("client")),
            "DOCKER_BUILDKIT": "0",
            "COMPOSE_PROJECT_NAME": "test",
        }

    def docker(
        self, *arguments: str | Path, check: bool = True, stdin: bytes | None = None, seconds: float = 300
    ) -> str:
        """Run the command-line client; give what it wrote to both streams, which may not be an error."""
        done = subprocess.run(
            ["docker", *map(str, arguments)],
            env=self.environment,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=seconds,
        )
        text = done.stdout.decode()
        assert not check or done.returncode == 0, text
        return text.strip()

    def import_busybox(self) -> None:
        """Make an image of one static program and of the users root and nobody."""
        busybox = Path("/bin/busybox").read_bytes()
        applets = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            _add(archive, "bin/busybox", busybox, 0o755)
            _add(archive, "etc/passwd", b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n", 0o644)
            scratch = tarfile.TarInfo("tmp")
            scratch.type, scratch.mode = tarfile.DIRTYPE, 0o1777
            archive.addfile(scratch)
            for applet in applets.stdout.split():
                if applet != "busybox":
                    link = tarfile.TarInfo(f"bin/{applet}")
                    link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                    archive.addfile(link)
        self.docker("import", "-", BUSYBOX, stdin=packed.getvalue())

    @contextmanager
    def container(self, *options: str, image: str = BUSYBOX) -> Iterator[Container]:
        """Start a container that does nothing, and remove it at the end."""
        name = f"test-{uuid.uuid4().hex[:8]}"
        try:
            self.docker("run", "-d", "--network=none", f"--name={name}", *options, image, "sleep", "1d")
            yield Container(self, name)
        finally:
            self.docker("rm", "-f", "-v", name, check=False)


@dataclass(frozen=True, slots=True)
class Container:
    """A running container."""

    engine: Engine
    name: str

    def sh(self, script: str, *options: str) -> str:
        """Run a script inside; give its output and errors in one."""
        return self.engine.docker("exec", *options, self.name, "sh", "-c", script, check=False)

    def hashes(self, folder: str) -> dict[str, str]:
        """Hash every file below a folder inside: SHA-256 by path."""
        lines = self.sh(f"cd {folder} && find . -type f | sort | xargs sha256sum").splitlines()
        return {path.removeprefix("./"): digest for digest, path in (line.split(None, 1) for line in lines)}

    def inspect(self, template: str) -> str:
        """Ask the engine for a fact about it."""
        return self.engine.docker("inspect", "-f", template, self.name)

    @contextmanager
    def reader(self, path: str) -> Iterator[Callable[[], str]]:
        """Hold a file open inside; each call reads the next MiB and gives its SHA-256, or the error."""
        # `dd` takes the shell's descriptor, so that all reads are of one open file. It reads by pages, as a
        # larger read that fails in the middle gives what it has.
        script = (
            f"exec 3<{path}; while read line; do "
            "if dd bs=4k count=256 <&3 2>/tmp/errors >/tmp/part; then sha256sum </tmp/part; "
            "else tail -n 1 /tmp/errors; fi; done"
        )
        command = ["docker", "exec", "-i", self.name, "sh", "-c", script]
        with subprocess.Popen(
            command, env=self.engine.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        ) as process:

            def read() -> str:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(b"\n")
                ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
                assert ready, "the reader waits for the mount"
                return process.stdout.readline().decode().strip().removesuffix("  -")

            try:
                yield read
            finally:
                process.kill()


@contextmanager
def engine(program: str) -> Iterator[Engine]:
    """Run a dockerd below a temporary directory, with its own containerd and without a network.

    At the end its containers, both daemons, their mounts and the directory are gone.
    """
    directory = Path(tempfile.mkdtemp(prefix="remapfs-docker-")).resolve()
    socket, log, data = directory / "sock", directory / "log", directory / "data"
    command = [program, "--iptables=false", "--ip6tables=false", "--bridge=none", f"--host=unix://{socket}"]
    command += [f"--data-root={data}", f"--exec-root={directory / 'exec'}", f"--pidfile={directory / 'pid'}"]
    made = Engine(socket)
    process: subprocess.Popen[bytes] | None = None
    try:
        # In memory: images of some hundred MB, in many files, are made and thrown away.
        data.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6g", "tmpfs", data], check=True)
        with log.open("w") as output:
            process = started = subprocess.Popen(
                # It ends with the tests, even if they are killed.
                ["setpriv", "--pdeathsig", "TERM", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        until(lambda: started.poll() is not None or _answers(made))
        assert started.poll() is None, log.read_text()[-4000:]
        yield made
    finally:
        if process is not None and process.poll() is None:
            names = made.docker("ps", "-a", "-q", check=False).split()
            if names:
                made.docker("rm", "-f", "-v", *names, check=False)
        if process is not None:
            _end(process, directory / "exec/containerd/containerd.pid")
        unmount_below(directory)
        shutil.rmtree(directory)


@dataclass(frozen=True, slots=True)
class Served:
    """A mount that a test made on the host: its supervisor, and the file of its log."""

    path: Path
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def server(self) -> int | None:
        """Give the process that answers now, None while there is none."""
        return child_of(self.process.pid)

    def kill_server(self) -> None:
        """Kill the server as the out-of-memory killer would; give back when another one is there."""
        server = self.server
        assert server
        os.kill(server, signal.SIGKILL)
        until(lambda: self.server not in (None, server))

    def kill_all(self) -> None:
        """Kill the supervisor too, which leaves a dead mount."""
        server = self.server
        assert server
        self.process.kill()
        self.process.wait()
        os.kill(server, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{server}").exists())

    def forget_pages(self, name: str) -> None:
        """Let the kernel drop what it has cached of a file, so that the next read asks the server."""
        code = (
            "import os, sys\nf = os.open(sys.argv[1], os.O_RDONLY)\n"
            "os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)"
        )
        subprocess.run([sys.executable, "-c", code, self.path / name], check=True, timeout=PATIENCE)


@contextmanager
def serving(source: Path, path: Path, arguments: Sequence[str] = ()) -> Iterator[Served]:
    """Mount on the host with `remapfs mount`, and end it with SIGTERM if the test has not."""
    log = path.parent.with_name(f"log-{time.monotonic_ns()}")
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "remapfs", "mount", source, path, *arguments], stdout=output, stderr=output
        )
    try:
        until(lambda: process.poll() is not None or f" on {path} (fuse): " in log.read_text())
        assert process.poll() is None, log.read_text()
        yield Served(path, process, log)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        if mounted_at(str(path)):
            subprocess.run(["umount", "-l", path], check=False)


@contextmanager
def shared_directory() -> Iterator[Path]:
    """Make a directory whose mounts propagate, as every directory of a systemd host has it."""
    outer = Path(tempfile.mkdtemp(prefix="remapfs-shared-")).resolve()
    path = outer / "models"
    path.mkdir()
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        subprocess.run(["mount", "--make-rshared", path], check=True)
        yield path
    finally:
        unmount_below(outer)
        shutil.rmtree(outer)


def unmount_below(directory: Path) -> None:
    """Detach every mount below a directory, the last one first."""
    for mount in reversed(mounts()):
        if Path(mount.path).is_relative_to(directory):
            subprocess.run(["umount", "-l", mount.path], check=False)


def until(fact: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for something that will become true."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def differing(
    found: Mapping[str, str], wanted: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    """Name the files whose hashes differ, or that only one side has."""
    return {
        name: (found.get(name), wanted.get(name))
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    }


def _answers(made: Engine) -> bool:
    return made.socket.exists() and "Server" in made.docker("version", check=False)


def _end(process: subprocess.Popen[bytes], containerd: Path) -> None:
    """End dockerd, and the containerd that it may have left."""
    with suppress(OSError, ValueError):
        other = int(containerd.read_text())
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        if "containerd" in Path(f"/proc/{other}/comm").read_text():
            os.kill(other, signal.SIGKILL)
    process.kill()
    process.wait()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))

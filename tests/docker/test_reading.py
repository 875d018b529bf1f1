"""What a container sees of a mount on its host."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from docker_checkpoint import PRESET, SHARD
from docker_engine import differing, serving
from mounting import remapfs

if TYPE_CHECKING:
    from pathlib import Path

    from docker_checkpoint import Checkpoint
    from docker_engine import Engine

DEAD = "Transport endpoint is not connected"


def test_a_mount_appears_in_a_container_that_was_started_before(
    docker: Engine, models: Path, checkpoint: Checkpoint
) -> None:
    """With the parent bound as rslave; every file has the bytes that the plan says."""
    with docker.container("-v", f"{models}:/models:ro,rslave") as container:
        assert container.sh("ls /models/v4") == ""
        with serving(checkpoint.path, models / "v4", PRESET):
            assert differing(container.hashes("/models/v4"), checkpoint.hashes) == {}
        assert container.sh("ls /models/v4") == ""


def test_without_rslave_the_directory_stays_empty(
    docker: Engine, models: Path, checkpoint: Checkpoint
) -> None:
    """Docker's default is private: what is mounted later is seen nowhere inside, until a restart."""
    with (
        docker.container("-v", f"{models}:/models:ro") as container,
        serving(checkpoint.path, models / "v4", PRESET),
    ):
        assert container.sh("ls /models/v4") == ""
        docker.docker("restart", "-t", "0", container.name)
        assert differing(container.hashes("/models/v4"), checkpoint.hashes) == {}


def test_a_container_that_binds_the_mount_itself_keeps_it_when_it_is_dead(
    docker: Engine, models: Path, checkpoint: Checkpoint
) -> None:
    """What it was started with is the old mount, not the directory below: a new one is never seen.

    A listing proves nothing, as the kernel remembers it; statfs is asked of the server each time.
    """
    with (
        serving(checkpoint.path, models / "v4", PRESET) as mount,
        docker.container("-v", f"{models}/v4:/model:ro,rslave") as container,
    ):
        assert container.sh("stat -f /model >/dev/null && ls /model").split() == sorted(checkpoint.hashes)
        mount.process.terminate()
        mount.process.wait(30)
        with serving(checkpoint.path, models / "v4", PRESET):
            assert DEAD in container.sh("stat -f /model")


def test_a_reader_goes_on_when_the_server_is_killed(
    docker: Engine, models: Path, checkpoint: Checkpoint
) -> None:
    """The open file stays the same file, with the right bytes before, between and after two kills."""
    parts = checkpoint.parts
    with (
        docker.container("-v", f"{models}:/models:ro,rslave") as container,
        serving(checkpoint.path, models / "v4", PRESET) as mount,
        container.reader(f"/models/v4/{SHARD}") as read,
    ):
        found = []
        for number in range(len(parts)):
            if number in (8, 24):
                mount.kill_server()
                mount.forget_pages(SHARD)
            found.append(read())
        assert tuple(found) == parts
        assert mount.log.read_text().count("another one takes over") == 2
        assert differing(container.hashes("/models/v4"), checkpoint.hashes) == {}


def test_a_new_mount_replaces_the_old_one_inside(
    docker: Engine, models: Path, checkpoint: Checkpoint
) -> None:
    """After a stop and a new mount, files that are opened anew are right, and what was open fails."""
    with (
        docker.container("-v", f"{models}:/models:ro,rslave") as container,
        serving(checkpoint.path, models / "v4", PRESET) as mount,
        container.reader(f"/models/v4/{SHARD}") as read,
    ):
        assert read() == checkpoint.parts[0]
        mount.process.terminate()
        assert mount.process.wait(30) == 0
        assert container.sh("ls /models/v4") == ""
        with serving(checkpoint.path, models / "v4", PRESET):
            assert differing(container.hashes("/models/v4"), checkpoint.hashes) == {}
            # What the kernel had read ahead is still right.
            found = list(takewhile(lambda text: DEAD not in text, (read() for _ in checkpoint.parts[1:])))
            assert found == list(checkpoint.parts[1 : 1 + len(found)])
            assert len(found) < len(checkpoint.parts) - 1


def test_a_dead_mount_inside_is_mended_from_outside(
    docker: Engine, models: Path, checkpoint: Checkpoint
) -> None:
    """When supervisor and server are both killed, the container gets errors until the host mounts anew."""
    with docker.container("-v", f"{models}:/models:ro,rslave") as container:
        with serving(checkpoint.path, models / "v4", PRESET) as mount:
            mount.kill_all()
            assert DEAD in container.sh(f"cat /models/v4/{SHARD} >/dev/null")
            assert DEAD in container.sh("stat -f /models/v4")
            assert remapfs("umount", models / "v4").returncode == 0
            assert container.sh("ls /models/v4") == ""
        with serving(checkpoint.path, models / "v4", PRESET):
            assert differing(container.hashes("/models/v4"), checkpoint.hashes) == {}


def test_nothing_can_be_written_inside(docker: Engine, models: Path, checkpoint: Checkpoint) -> None:
    """Not even by root, and not even where the bind itself could be written to."""
    with (
        docker.container("-v", f"{models}:/models:rslave") as container,
        serving(checkpoint.path, models / "v4", PRESET),
    ):
        for command in ("touch new", "rm config.json", f"truncate -s 0 {SHARD}", "chmod 777 config.json"):
            assert "Read-only file system" in container.sh(f"cd /models/v4 && {command}")
        assert differing(container.hashes("/models/v4"), checkpoint.hashes) == {}


def test_another_user_inside_reads_what_the_modes_allow(
    docker: Engine, models: Path, checkpoint: Checkpoint
) -> None:
    """The permissions are those of the source: what is root's alone stays so."""
    with (
        docker.container("--user=nobody", "-v", f"{models}:/models:ro,rslave") as container,
        serving(checkpoint.path, models / "v4", PRESET),
    ):
        hashed = container.sh(f"sha256sum </models/v4/{SHARD}")
        assert hashed.split() == [checkpoint.hashes[SHARD], "-"]
        assert "Permission denied" in container.sh("cat /models/v4/secret.json")
        assert "root alone" in container.sh("cat /models/v4/secret.json", "--user=root")

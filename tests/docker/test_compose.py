"""The compose files and the image in deploy/docker, run on an engine.

The model server is a stand-in that needs no GPU, and an image of Debian takes the place of python:3.12-slim:
there is no registry.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docker_checkpoint import PRESET
from docker_engine import REMAPFS, VLLM, Container, differing, serving, until
from processes import child_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker_checkpoint import Checkpoint
    from docker_engine import Engine

FOLDER = Path(__file__).parents[2] / "deploy/docker"
FILES = (FOLDER / "compose.yaml", FOLDER / "compose.sidecar.yaml")


@contextmanager
def up(docker: Engine, project: dict[str, Any], folder: Path, models: Path, source: Path) -> Iterator[None]:
    """Run a project until the context ends."""
    if not shutil.which("docker-compose"):
        pytest.skip("docker-compose is not installed")
    file = folder / "compose.json"
    file.write_text(json.dumps(project))
    environment = docker.environment | {
        "REMAPFS_PARENT": str(models),
        "REMAPFS_SOURCE": str(source),
        "REMAPFS_IMAGE": REMAPFS,
        "VLLM_IMAGE": VLLM,
    }

    def compose(*arguments: str) -> None:
        done = subprocess.run(
            ["docker-compose", "-f", file, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout

    try:
        compose("up", "-d")
        yield
    finally:
        compose("down", "-v")


def adapted(*files: Path) -> dict[str, Any]:
    """Merge compose files, and take out what needs a GPU, a network, or a Compose newer than Debian's.

    Limits are left out where this host's root may not raise them. Healthchecks come every second, so that
    no test waits for them.
    """
    yaml = pytest.importorskip("yaml")
    services: dict[str, dict[str, Any]] = {}
    merged = {"services": services, "volumes": {"vllm-cache": {}}}
    for file in files:
        for name, service in yaml.safe_load(file.read_text())["services"].items():
            services[name] = services.get(name, {}) | service
    for service in services.values():
        for volume in service["volumes"]:
            volume.get("bind", {}).pop("create_host_path", None)
    vllm = services["vllm"]
    del vllm["deploy"], vllm["ports"]
    vllm["network_mode"] = "none"
    vllm["healthcheck"]["interval"] = "1s"
    if not may_raise_limits():
        del vllm["ulimits"]
    if "remapfs" in services:
        side_car = services["remapfs"]
        del side_car["build"]
        if not may_raise_limits():
            del side_car["oom_score_adj"]
        side_car["healthcheck"] = {"interval": "1s"}
        place = side_car["command"].index("--preset")
        side_car["command"][place:] = PRESET
    return merged


def may_raise_limits() -> bool:
    """Whether root has CAP_SYS_RESOURCE, as it has on a host but not in every sandbox."""
    sys_resource = 24
    (line,) = re.findall(r"^CapEff:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return bool(int(line, 16) >> sys_resource & 1)


def find(docker: Engine, service: str) -> Container:
    """Find a service's container."""
    return Container(
        docker, docker.docker("ps", "-a", "-q", "-f", f"label=com.docker.compose.service={service}")
    )


def healthy(container: Container) -> bool:
    """Whether the engine says so."""
    return container.inspect("{{.State.Health.Status}}") == "healthy"


@pytest.mark.usefixtures("images")
def test_vllm_serves_from_a_mount_of_the_host(
    docker: Engine, models: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """It is healthy with the mount, not without it, and again with a new one, without a restart."""
    with (
        serving(checkpoint.path, models / "v4", PRESET) as mount,
        up(docker, adapted(FILES[0]), tmp_path, models, checkpoint.path),
    ):
        vllm = find(docker, "vllm")
        until(lambda: healthy(vllm))
        assert differing(vllm.hashes("/models/v4"), checkpoint.hashes) == {}
        mount.process.terminate()
        until(lambda: vllm.inspect("{{.State.Health.Status}}") == "unhealthy")
        with serving(checkpoint.path, models / "v4", PRESET):
            until(lambda: healthy(vllm))
            assert differing(vllm.hashes("/models/v4"), checkpoint.hashes) == {}
        assert vllm.inspect("{{.RestartCount}}") == "0"


@pytest.mark.usefixtures("images")
def test_the_side_car_mounts_for_vllm_and_for_the_host(
    docker: Engine, models: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """The model server starts once the mount answers; at the end the host's directory is empty again."""
    (models / "v4").rmdir()  # the side-car makes it
    with up(docker, adapted(*FILES), tmp_path, models, checkpoint.path):
        vllm, side_car = find(docker, "vllm"), find(docker, "remapfs")
        until(lambda: healthy(vllm))
        assert vllm.inspect("{{.RestartCount}}") == "0"
        assert differing(vllm.hashes("/models/v4"), checkpoint.hashes) == {}
        assert sorted(os.listdir(models / "v4")) == sorted(checkpoint.hashes)
        # Nobody is told that something does not work for the want of a right.
        assert len(docker.docker("logs", side_car.name).splitlines()) == 1
        docker.docker("stop", "-t", "30", side_car.name)
        assert side_car.inspect("{{.State.ExitCode}}") == "0"
        assert os.listdir(models / "v4") == []


@pytest.mark.usefixtures("images")
def test_a_side_car_that_is_killed_mounts_again(
    docker: Engine, models: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """Its server alone is replaced unseen; all of it is started anew, clears the dead mount and mounts."""
    with up(docker, adapted(*FILES), tmp_path, models, checkpoint.path):
        vllm, side_car = find(docker, "vllm"), find(docker, "remapfs")
        until(lambda: healthy(vllm))
        first = int(side_car.inspect("{{.State.Pid}}"))
        server = child_of(first)
        assert server
        os.kill(server, signal.SIGKILL)
        until(lambda: child_of(first) not in (None, server))
        assert differing(vllm.hashes("/models/v4"), checkpoint.hashes) == {}
        assert side_car.inspect("{{.RestartCount}}") == "0"
        os.kill(first, signal.SIGKILL)  # with the first process of a container, all others end
        until(lambda: side_car.inspect("{{.RestartCount}}") == "1" and healthy(side_car))
        until(lambda: healthy(vllm))
        assert differing(vllm.hashes("/models/v4"), checkpoint.hashes) == {}
        assert vllm.inspect("{{.RestartCount}}") == "0"


@pytest.mark.usefixtures("images")
def test_a_container_without_the_rights_says_which(
    docker: Engine, models: Path, checkpoint: Checkpoint
) -> None:
    """The device or the capability is missing: exit code 2, and the options of `docker run` that help."""
    needed = "docker run --device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined"
    volumes = ("-v", f"{checkpoint.path}:/data:ro", "-v", f"{models}:/mnt/models:rshared")
    for options in ((), ("--device=/dev/fuse",)):
        given = ("--rm", "--network=none", "-e", "REMAPFS_MOUNTPOINT=/mnt/models/v4", *volumes, *options)
        output = docker.docker("run", *given, REMAPFS, "/data", "/mnt/models/v4", *PRESET, check=False)
        assert needed in output

"""The containers of deploy/kubernetes, run on a Docker engine as a kubelet would run them.

There is no cluster here. What is taken from the manifests: commands, environment, configuration, and the
propagation of volumes under Docker's names for it. A test host's root may not be allowed to give all rights,
so of those that `privileged` brings only the ones that are needed are given.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docker_engine import REMAPFS, VLLM, Container, until
from remapfs.demo import write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker_engine import Engine

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
RIGHTS = ("--device=/dev/fuse", "--cap-add=SYS_ADMIN", "--cap-add=DAC_READ_SEARCH")
UNCONFINED = ("--security-opt=apparmor=unconfined", "-v=/sys/devices/virtual/bdi:/sys/devices/virtual/bdi")
PROPAGATION = {"Bidirectional": "rshared", "HostToContainer": "rslave"}


def document(file: str) -> dict[str, Any]:
    """Read the first object of a manifest."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return next(iter(yaml.safe_load_all((FOLDER / file).read_text())))


def options(container: dict[str, Any], volumes: dict[str, Path]) -> list[str]:
    """Say with options of `docker run` what a container of a manifest says; other volumes are left out."""
    security = container["securityContext"]
    given = ["--network=none", "--cap-drop=ALL"]
    given += [f"-e={entry['name']}={entry['value']}" for entry in container.get("env", [])]
    given += [*RIGHTS, *UNCONFINED] if security.get("privileged") else []
    given += ["--read-only", "--tmpfs=/run"] if security.get("readOnlyRootFilesystem") else []
    for volume in container["volumeMounts"]:
        if volume["name"] in volumes:
            modes = ["ro" if volume.get("readOnly") else "rw"]
            modes += [PROPAGATION[volume["mountPropagation"]]] if "mountPropagation" in volume else []
            given += ["-v", f"{volumes[volume['name']]}:{volume['mountPath']}:{','.join(modes)}"]
    return given


@contextmanager
def running(docker: Engine, *arguments: str) -> Iterator[Container]:
    """Run a container with a command of its own until the context ends."""
    name = docker.docker("run", "-d", *arguments)
    try:
        yield Container(docker, name)
    finally:
        docker.docker("rm", "-f", "-v", name)


@pytest.mark.usefixtures("images")
def test_the_daemon_set_mounts_and_vllm_waits_for_it(docker: Engine, models: Path) -> None:
    """By its ConfigMap; the probe says when, the init container ends then, and SIGTERM leaves nothing."""
    checkpoint, config = models.parent / "checkpoint", models.parent / "config"
    checkpoint.mkdir()
    config.mkdir()
    write_checkpoint(checkpoint)
    for name, text in document("configmap.yaml")["data"].items():
        (config / name).write_text(text)
    (models / "v4").rmdir()
    volumes = {"models": models, "checkpoint": checkpoint, "config": config}
    (server,) = document("daemonset.yaml")["spec"]["template"]["spec"]["containers"]
    (waiting,) = document("vllm.yaml")["spec"]["template"]["spec"]["initContainers"]
    shell, *command = waiting["command"]
    with (
        running(docker, *options(waiting, volumes), f"--entrypoint={shell}", VLLM, *command) as init,
        running(docker, *options(server, volumes), REMAPFS, *server["args"]) as remapfs,
    ):
        probe = " ".join(server["readinessProbe"]["exec"]["command"])
        until(lambda: remapfs.sh(f"{probe} && echo ready") == "ready")
        until(lambda: init.inspect("{{.State.Status}} {{.State.ExitCode}}") == "exited 0")
        names = json.loads((models / "v4/model.safetensors.index.json").read_text())["weight_map"]
        assert "layers.0.attn.wq_a.weight" in names
        assert len(docker.docker("logs", remapfs.name).splitlines()) == 1  # no right is missed
        docker.docker("stop", "-t", "30", remapfs.name)
        assert remapfs.inspect("{{.State.ExitCode}}") == "0"
    assert os.listdir(models / "v4") == []

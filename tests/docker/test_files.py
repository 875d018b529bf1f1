"""What deploy/docker says, without an engine: it fits the Compose specification, and linters find nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_HERE = find_spec("compose_spec") is not None and find_spec("yaml") is not None
compose_spec: Any = import_module("compose_spec") if _HERE else None
yaml: Any = import_module("yaml") if _HERE else None
pytestmark = pytest.mark.skipif(not _HERE, reason="compose-spec and PyYAML are not installed")

FOLDER = Path(__file__).parents[2] / "deploy/docker"
VLLM, SIDE_CAR = "compose.yaml", "compose.sidecar.yaml"


def text(file: str) -> str:
    """Read a compose file with the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (FOLDER / file).read_text())


def service(file: str, name: str) -> dict[str, Any]:
    """Read a service."""
    return yaml.safe_load(text(file))["services"][name]  # type: ignore[no-any-return]  # from YAML


@pytest.mark.parametrize("file", [VLLM, SIDE_CAR])
def test_a_compose_file_fits_the_specification(file: str) -> None:
    """As it is, and not with one letter wrong."""
    compose_spec.PyCompose.from_yaml(text(file)).to_spec()
    with pytest.raises(ValueError, match="propagatoin"):
        compose_spec.PyCompose.from_yaml(text(file).replace("propagation:", "propagatoin:"))


def test_vllm_sees_new_mounts_and_writes_nothing() -> None:
    """Its bind is of the parent, read-only and a slave; a parent that is not there is an error."""
    (bind,) = (volume for volume in service(VLLM, "vllm")["volumes"] if volume["type"] == "bind")
    assert bind["bind"] == {"propagation": "rslave", "create_host_path": False}
    assert bind["read_only"] is True
    assert bind["target"] == "/models"
    assert service(VLLM, "vllm")["command"][0] == "/models/v4"


def test_vllm_gets_what_it_needs() -> None:
    """GPUs, prefetching, descriptors for 1,500 shards, and a health check of mount and server."""
    vllm = service(VLLM, "vllm")
    (device,) = vllm["deploy"]["resources"]["reservations"]["devices"]
    assert "gpu" in device["capabilities"]
    assert "--safetensors-load-strategy=prefetch" in vllm["command"]
    assert int(vllm["ulimits"]["nofile"]) > 1500
    check = vllm["healthcheck"]["test"][1]
    assert all(part in check for part in ("stat -f /models/v4", "/models/v4/config.json", "/health"))


def test_the_side_car_shares_its_mount_and_has_few_rights() -> None:
    """One directory is shared; one device and two capabilities are given; its checkpoint is read-only."""
    remapfs = service(SIDE_CAR, "remapfs")
    volumes = {volume["target"]: volume for volume in remapfs["volumes"]}
    assert volumes["/mnt/models"]["bind"]["propagation"] == "rshared"
    assert volumes["/data/checkpoint"]["read_only"] is True
    assert remapfs["devices"] == ["/dev/fuse:/dev/fuse"]
    assert remapfs["cap_drop"] == ["ALL"]
    assert remapfs["cap_add"] == ["SYS_ADMIN", "DAC_READ_SEARCH"]
    assert "privileged" not in remapfs
    assert remapfs["environment"]["REMAPFS_MOUNTPOINT"] == remapfs["command"][1] == "/mnt/models/v4"


def test_vllm_waits_for_the_side_car() -> None:
    """Until its mount answers."""
    assert service(SIDE_CAR, "vllm")["depends_on"] == {"remapfs": {"condition": "service_healthy"}}


def test_images_are_pinned() -> None:
    """Each names a version."""
    named = [service(VLLM, "vllm")["image"], service(SIDE_CAR, "remapfs")["image"]]
    named += re.findall(r"^ARG PYTHON=(.*)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert len(named) == 3
    assert all(re.search(r":v?\d+\.\d+", image) for image in named)


@pytest.mark.parametrize(
    ("tool", "files"),
    [("hadolint", ["Dockerfile"]), ("shellcheck", ["remapfs-container", "remapfs-answers"])],
)
def test_linters_find_nothing(tool: str, files: list[str]) -> None:
    """Neither in the Dockerfile nor in the scripts of the image."""
    program = shutil.which(tool)
    if not program:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run([program, *files], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_scripts_can_be_run() -> None:
    """They are copied into the image with their modes."""
    for script in ("remapfs-container", "remapfs-answers"):
        assert os.access(FOLDER / script, os.X_OK)

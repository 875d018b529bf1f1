"""The manifests in deploy/kubernetes are valid, and say what a mount that crosses containers needs.

No cluster is asked: the propagation itself is tested on a Docker engine, which has the same modes under other
names.
"""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remapfs.cli.config import keys
from remapfs.cli.mount import mount

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = find_spec("kubernetes_validate") is not None
kubernetes_validate: Any = import_module("kubernetes_validate") if _HERE else None
yaml: Any = import_module("yaml") if _HERE else None  # which it needs
pytestmark = pytest.mark.skipif(not _HERE, reason="kubernetes-validate is not installed")

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
OLDEST, NEWEST = "1.28.0", "1.37.0"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")


def documents(*files: str) -> Iterator[dict[str, Any]]:
    """Read the objects of manifests."""
    for file in files or FILES:
        yield from yaml.safe_load_all((FOLDER / file).read_text())


def pod(file: str) -> dict[str, Any]:
    """Give the specification of the pods that a manifest makes."""
    return next(iter(documents(file)))["spec"]["template"]["spec"]  # type: ignore[no-any-return]  # from YAML


def containers(file: str) -> list[dict[str, Any]]:
    """Give all containers of such a pod, in the order of their start."""
    return [*pod(file).get("initContainers", []), *pod(file)["containers"]]


def bind(container: dict[str, Any]) -> dict[str, Any]:
    """Give the volume through which a container sees the mount."""
    (found,) = (volume for volume in container["volumeMounts"] if volume["name"] == "models")
    return found  # type: ignore[no-any-return]  # from YAML


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("file", FILES)
def test_a_manifest_fits_the_schema(file: str, version: str) -> None:
    """Of an old and a new version of Kubernetes, where unknown keys are errors."""
    for document in documents(file):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schema_refuses_an_unknown_key() -> None:
    """So the test above can fail."""
    (document,) = documents("daemonset.yaml")
    document["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["mountPropagatoin"] = "None"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, NEWEST, strict=True)


def test_the_kustomization_names_every_manifest() -> None:
    """And kubectl, where it is installed, can build it."""
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == FILES
    if shutil.which("kubectl"):
        built = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=True)
        kinds = {document["kind"] for document in yaml.safe_load_all(built.stdout)}
        assert kinds == {"Namespace", "ConfigMap", "DaemonSet", "Deployment", "Service"}


def test_the_mount_leaves_its_container_and_enters_those_of_vllm() -> None:
    """The parent of the mount point is bound, one way out, one way in, and is one directory of the host."""
    (server,) = containers("daemonset.yaml")
    assert bind(server)["mountPropagation"] == "Bidirectional"
    assert server["securityContext"]["privileged"] is True  # else the API server refuses Bidirectional
    for reader in containers("vllm.yaml"):
        assert bind(reader)["mountPropagation"] == "HostToContainer"
        assert bind(reader)["readOnly"] is True
        assert "privileged" not in reader["securityContext"]
    paths = {
        volume["hostPath"]["path"]
        for file in ("daemonset.yaml", "vllm.yaml")
        for volume in pod(file)["volumes"]
        if volume["name"] == "models"
    }
    assert len(paths) == 1
    assert pod("daemonset.yaml")["nodeSelector"] == pod("vllm.yaml")["nodeSelector"]


def test_the_names_agree() -> None:
    """What the configuration mounts is what is probed, waited for and served, below what is bound."""
    (config_map,) = documents("configmap.yaml")
    (server,) = containers("daemonset.yaml")
    waiting, vllm = containers("vllm.yaml")
    (name,) = config_map["data"]
    config = tomllib.loads(config_map["data"][name])
    assert set(config) <= set(keys(mount))
    (variable,) = server["env"]
    assert variable == {"name": "REMAPFS_MOUNTPOINT", "value": config["mountpoint"]}
    assert server["args"] == ["--config", f"/etc/remapfs/{name}"]
    assert config["mountpoint"] == f"{bind(server)['mountPath']}/v4"
    assert config["source"] in [volume["mountPath"] for volume in server["volumeMounts"]]
    assert vllm["args"][0] == f"{bind(vllm)['mountPath']}/v4"
    assert f"test -s {vllm['args'][0]}/config.json" in waiting["command"][-1]


def test_a_mount_is_not_taken_from_its_readers() -> None:
    """No update, probe, eviction or limit of memory ends a mount while it may be read from."""
    (daemon_set,) = documents("daemonset.yaml")
    assert daemon_set["spec"]["updateStrategy"]["type"] == "OnDelete"
    assert pod("daemonset.yaml")["priorityClassName"] == "system-node-critical"
    (server,) = containers("daemonset.yaml")
    assert "livenessProbe" not in server
    assert "limits" not in server["resources"]
    for probe in ("startupProbe", "readinessProbe"):
        assert server[probe]["exec"]["command"] == ["remapfs-answers"]


def test_images_are_pinned() -> None:
    """Each names a version: two nodes never run two programs under one name."""
    for file in ("daemonset.yaml", "vllm.yaml"):
        for container in containers(file):
            _, _, tag = container["image"].rpartition(":")
            assert tag.strip("v")[0].isdigit()


def test_the_gpus_are_asked_for_as_limits() -> None:
    """An extended resource has to be, and vLLM takes all that it is given."""
    (vllm,) = pod("vllm.yaml")["containers"]
    count = vllm["resources"]["limits"]["nvidia.com/gpu"]
    assert f"--tensor-parallel-size={count}" in vllm["args"]


def test_the_page_says_what_the_manifests_say() -> None:
    """The image's name, the nodes' label, and the option for rules."""
    page = (FOLDER.parents[1] / "docs/kubernetes.md").read_text()
    (server,) = containers("daemonset.yaml")
    assert f"docker push {server['image']}\n" in page
    ((label, value),) = pod("daemonset.yaml")["nodeSelector"].items()
    assert f"kubectl label node gpu-1 {label}={value}\n" in page
    assert "`rules = " in page
    assert "rules" in keys(mount)

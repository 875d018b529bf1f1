"""Figures for Prometheus."""

from __future__ import annotations

import os
import signal
import socket
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from mounting import missing, remapfs
from observe.conftest import foreground, status, until
from processes import child_of
from remapfs import RemapError
from remapfs.observe import metrics
from remapfs.observe.metrics import listen, parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from observe.conftest import Foreground

parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")


@pytest.fixture(params=["fuse", "fusepy"])
def served(source: Path, request: pytest.FixtureRequest) -> Iterator[Foreground]:
    """Mount it with metrics on a free port, by each presenter that counts."""
    reason = missing(request.param)
    if reason:
        pytest.skip(reason)
    with foreground(source, ["--metrics", "0", "--presenter", request.param]) as mount:
        yield mount


def scrape(mount: Foreground) -> dict[tuple[str, ...], float]:
    """Ask as Prometheus does: samples by their names and the values of their labels."""
    address = status(mount.path)["metrics"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_figures_are_those_of_status(source: Path, served: Foreground) -> None:
    """By the names that the README gives."""
    size = len(served.read())
    found, told = scrape(served), status(served.path)
    assert found[("remapfs_reads_total",)] == told["reads"]
    assert found[("remapfs_read_bytes_total",)] == told["read_bytes"] >= size
    assert found[("remapfs_requests_total", "read")] == told["reads"]
    assert found[("remapfs_generations_total",)] == 1
    assert found[("remapfs_up",)] == 1
    labels = (str(served.path), told["presenter"], told["rules"]["digest"], str(source.resolve()))
    assert found[("remapfs_info", *labels, told["version"])] == 1
    assert found[("remapfs_start_time_seconds",)] > 1e9


def test_counters_never_go_back(source: Path) -> None:
    """Also when the server is killed; errors are counted by errno."""
    with foreground(source, ["--metrics", "127.0.0.1:0"]) as mount:
        mount.read()
        before = scrape(mount)
        os.kill(child_of(mount.process.pid) or 0, signal.SIGKILL)
        with (source / "model.safetensors").open("r+b") as stream:
            stream.truncate(100_000)
        with pytest.raises(OSError, match="Input/output error"):
            mount.read()
        after = scrape(mount)
        assert after[("remapfs_generations_total",)] == 2
        assert after[("remapfs_errors_total", "EIO")] >= 1
        assert all(after[name] >= value for name, value in before.items() if name[0].endswith("_total"))


def test_up_says_whether_the_server_runs(source: Path) -> None:
    """Zero while it is stopped, and the scrape is answered."""
    with foreground(source, ["--metrics", "0"]) as mount:
        server = child_of(mount.process.pid) or 0
        address = status(mount.path)["metrics"]
        os.kill(server, signal.SIGSTOP)
        try:
            with urllib.request.urlopen(f"http://{address}/", timeout=20) as answer:
                assert b"\nremapfs_up 0.0\n" in answer.read()
        finally:
            os.kill(server, signal.SIGCONT)


def test_clients_that_say_nothing_keep_nobody_out(source: Path) -> None:
    """More of them than are served at once."""
    with foreground(source, ["--metrics", "0"]) as mount, ExitStack() as stack:
        host, _, port = status(mount.path)["metrics"].rpartition(":")
        for _ in range(30):
            stack.enter_context(socket.create_connection((host, int(port))))
        assert status(mount.path)["state"] == "serving"

        def answered() -> bool:
            try:
                return bool(scrape(mount))
            except OSError:
                return False

        until(answered)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("127.3.2.1:1", ("127.3.2.1", 1)),
        ("localhost:0", ("127.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """A port alone is loopback's."""
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a port"),
        ("x", "'x' is not a port"),
        ("65536", "'65536' is not a port"),
        ("-1", "'-1' is not a port"),
        ("127.0.0.1:", "'' is not a port"),
        ("example.org:80", "'example.org' is not an address"),
        (":80", "'' is not an address"),
        ("0.0.0.0:80", "0.0.0.0 is not a loopback address"),
        ("[::]:80", ":: is not a loopback address"),
        ("192.0.2.1:80", "192.0.2.1 is not a loopback address"),
    ],
)
def test_addresses_that_are_refused(text: str, message: str) -> None:
    """What is none, and what others could reach."""
    with pytest.raises(RemapError) as failure:
        parse_address(text)
    assert failure.value.message.startswith(f"--metrics {text}: {message}")


def test_without_the_package_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    monkeypatch.setattr(metrics, "find_spec", lambda _: None)
    with pytest.raises(RemapError) as failure:
        listen("0")
    assert failure.value.hint.startswith("pip install 'remapfs[metrics]'")


def test_a_port_that_is_taken_is_refused_before_the_mount(source: Path, tmp_path: Path) -> None:
    """With exit code 2."""
    with listen("0") as listening:
        port = listening.getsockname()[1]
        run = remapfs("mount", source, tmp_path, "--metrics", str(port), "--background")
    assert run.returncode == 2
    assert f"error: --metrics {port}: Address already in use\n" in run.stderr
    assert str(tmp_path) not in remapfs("status").stdout


def test_erofs_has_nothing_to_count(source: Path, tmp_path: Path) -> None:
    """It is said, rather than served as zero."""
    run = remapfs("mount", source, tmp_path, "--metrics", "0", "--presenter", "erofs")
    assert run.returncode == 2
    assert "the kernel serves erofs alone, and counts nothing" in run.stderr

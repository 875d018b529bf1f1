"""Each situation of tests/cases is presented as its plan.txt says, and every tensor keeps its bytes."""

from __future__ import annotations

import json
import os
import posixpath
from typing import TYPE_CHECKING, Any

import pytest
import safetensors

from remapfs import Plan, open_file
from remapfs.plan import dump
from situations import Situation, situations

if TYPE_CHECKING:
    from pathlib import Path

CASES = situations("cases")


@pytest.fixture(params=CASES, ids=lambda case: case.folder.name)
def case(request: pytest.FixtureRequest) -> Situation:
    """Give one situation."""
    situation: Situation = request.param
    return situation


def test_the_plan_is_the_golden_one(case: Situation, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """The plan's text form is that of plan.txt; `pytest --accept` rewrites it, for a look at the diff."""
    plan = case.plan(case.make(tmp_path))
    text = "\n".join(dump(plan)) + "\n"
    golden = case.folder / "plan.txt"
    if pytestconfig.getoption("accept"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_a_plan_is_the_same_each_time(case: Situation, tmp_path: Path) -> None:
    """Two plans of one source are equal to the byte."""
    source = case.make(tmp_path)
    assert list(dump(case.plan(source))) == list(dump(case.plan(source)))


def test_every_tensor_has_the_bytes_of_its_source(case: Situation, tmp_path: Path) -> None:
    """Each presented shard opens in the strict parser, and each tensor equals the one it was made from."""
    plan = case.plan(case.make(tmp_path))
    compared = 0
    for planned in plan.shards:
        header = planned.shard.header
        presented = tensors(plan, planned.shard.file.path)
        source = planned.shard.file.source.path
        names = [
            (tensor, name)
            for tensor, name in zip(header.tensors, planned.names, strict=True)
            if name is not None
        ]
        names += [(header.tensors[position], name) for position, name in planned.aliases]
        assert set(presented) == {name for _, name in names}
        with open(source, "rb") as stream:
            for tensor, name in names:
                data = os.pread(stream.fileno(), tensor.length, header.data_start + tensor.begin)
                assert presented[name]["data"] == data
                assert presented[name]["shape"] == list(tensor.shape)
                compared += 1
    assert compared or not any(planned.names for planned in plan.shards)


def test_the_index_agrees_with_the_headers(case: Situation, tmp_path: Path) -> None:
    """Each index names exactly the tensors of its shards, each in the right one."""
    plan = case.plan(case.make(tmp_path))
    paths = {planned.shard.file.path for planned in plan.shards}
    for file in plan.files:
        if not file.path.endswith(".safetensors.index.json"):
            continue
        weight_map = json.loads(open_file(file).read())["weight_map"]
        folder = posixpath.dirname(file.path)
        shards = {posixpath.normpath(posixpath.join(folder, shard)) for shard in weight_map.values()}
        assert shards <= paths
        held = {name: path for path in shards for name in tensors(plan, path)}
        assert held == {
            name: posixpath.normpath(posixpath.join(folder, shard)) for name, shard in weight_map.items()
        }


def test_what_is_expected_is_there(case: Situation, tmp_path: Path) -> None:
    """What source.toml expects is so: files, names, texts in findings and in files."""
    plan = case.plan(case.make(tmp_path))
    expect = case.description.get("expect", {})
    files = {file.path: file for file in plan.files}
    names = {name for planned in plan.shards for name in planned.names} | {
        name for planned in plan.shards for _, name in planned.aliases
    }
    assert set(expect.get("files", [])) <= set(files)
    assert not set(expect.get("no_files", [])) & set(files)
    assert set(expect.get("names", [])) <= names
    assert not set(expect.get("no_names", [])) & names
    findings = "\n".join(f"{finding.kind} {finding.file}: {finding.text}" for finding in plan.findings)
    for text in expect.get("findings", []):
        assert text in findings
    assert bool(plan.findings) is bool(expect.get("findings"))
    for path, texts in expect.get("contains", {}).items():
        content = open_file(files[path]).read().decode(errors="replace")
        assert [text for text in texts if text not in content] == []


def tensors(plan: Plan, path: str) -> dict[str, dict[str, Any]]:
    """Open a presented shard with the strict parser."""
    data = next(open_file(file) for file in plan.files if file.path == path).read()
    return dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]  # loosely typed upstream

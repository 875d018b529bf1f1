"""The pages of docs/ show what really happens: their commands are run, and their output is compared."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mounting import missing, remapfs
from remapfs.rules import parse_rules
from situations import shard

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "my-model-is-not-in-the-presets.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```console(?P<needs>.*)\n(?P<text>(?:.*\n)*?)```$", re.MULTILINE)
WRONG = re.compile(r"^\$ cat wrong\.toml\n((?:.*\n)*?)\$", re.MULTILINE)
LAYER = {
    "norm_1": ("input_layernorm", [64]),
    "attention.query": ("self_attn.q_proj", [64, 64]),
    "attention.key": ("self_attn.k_proj", [32, 64]),
    "attention.value": ("self_attn.v_proj", [32, 64]),
    "attention.out": ("self_attn.o_proj", [64, 64]),
    "norm_2": ("post_attention_layernorm", [64]),
    "feed_forward.gate": ("mlp.gate_proj", [128, 64]),
    "feed_forward.up": ("mlp.up_proj", [128, 64]),
    "feed_forward.down": ("mlp.down_proj", [64, 128]),
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "vocab_size": 256,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "float32",
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a directory that others may enter, as a reader's has it: a mount says so where they may not."""
    with tempfile.TemporaryDirectory(prefix="remapfs-docs-") as made:
        Path(made).chmod(0o755)
        yield Path(made)
        if (Path(made) / "mnt").is_mount():
            remapfs("umount", Path(made) / "mnt")


def test_the_page_on_a_model_without_a_preset_is_true(folder: Path) -> None:
    """Every command of it, in order, prints what the page says."""
    write_models(folder)
    compared = 0
    for needs, command, output in commands(PAGE):
        if needs == "vllm" and "REMAPFS_VLLM_PYTHON" not in os.environ:
            continue
        if " mnt" in command and missing():
            continue
        assert (command, run(command, folder)) == (command, output)
        compared += 1
    assert compared >= 6


def test_every_page_is_tested() -> None:
    """A page that is added brings its test; two have theirs in tests/docker and tests/kubernetes."""
    here, in_docker, in_kubernetes = "my-model-is-not-in-the-presets.md", "docker.md", "kubernetes.md"
    assert {page.name for page in DOCS.glob("*.md")} == {here, in_docker, in_kubernetes}


def test_its_rules_file_is_one(tmp_path: Path) -> None:
    """The example that starts from others parses, and gives what it extends first."""
    (text,) = re.findall(r"^```toml\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
    (tmp_path / "our-names.toml").write_text("[[rename]]\nprefix = 'x.'\nto = ''\n")
    rules = parse_rules(text, "page.toml", opened=(tmp_path / "page.toml",))
    assert [step.origin.file for step in rules.steps] == [
        "our-names.toml",
        "strip-prefix.toml",
        "qwen3-vl-moe.toml",
        "page.toml",
    ]


def commands(page: str) -> Iterator[tuple[str, str, str]]:
    """Give each command of a page with what it needs and what it prints."""
    for block in BLOCK.finditer(page):
        for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield block["needs"].strip(), command, output


def run(command: str, folder: Path) -> str:
    """Run a command line as a reader of the page does, with this Python's remapfs."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin/remapfs"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m remapfs "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    shell = shutil.which("sh") or "/bin/sh"
    done = subprocess.run(
        [
            shell,
            "-c",
            command.replace("/opt/vllm/bin/python", environment.get("REMAPFS_VLLM_PYTHON", "none")),
        ],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout


def write_models(folder: Path) -> None:
    """Write the two checkpoints that the page speaks of, its wrong rules, and an empty mount point."""
    names = [("net.tokens", "model.embed_tokens", [256, 64])]
    for layer in range(3):
        names += [
            (f"net.blocks.{layer}.{old}", f"model.layers.{layer}.{new}", shape)
            for old, (new, shape) in LAYER.items()
        ]
    names += [("net.norm", "model.norm", [64]), ("net.logits", "lm_head", [256, 64])]
    for name, which in (("my-model", 0), ("a-llama", 1)):
        (folder / name).mkdir()
        tensors = sorted([f"{row[which]}.weight", "F32", row[2]] for row in names)
        (folder / name / "model.safetensors").write_bytes(shard({"tensors": tensors}))
        (folder / name / "config.json").write_text(json.dumps(CONFIG))
    found = WRONG.search(PAGE)
    assert found
    (folder / "wrong.toml").write_text(found[1])
    (folder / "mnt").mkdir()

"""What the preset for a model would call the tensors that vLLM does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remapfs.check.model import Outcome
from remapfs.check.problems import Advice
from remapfs.check.reference import Reference, Wanted, component
from remapfs.plan.patterns import split
from remapfs.rules import load_preset, preset_parameters, presets_for_vllm
from remapfs.rules.apply import apply_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remapfs.check.model import Judged
    from remapfs.plan import Plan

CONFIG = "config.json"
_FAILED = (Outcome.REFUSED, Outcome.IGNORED)


def preset_of(configs: Mapping[str, Any]) -> str | None:
    """Find the preset that gives the names which vLLM wants for the config's model type."""
    config = configs.get(CONFIG)
    kind = config.get("model_type") if isinstance(config, dict) else None
    return next((name for name in presets_for_vllm(str(kind)) if not preset_parameters(name)), None)


def names_of(plan: Plan, preset: str) -> Reference:
    """Give the names that the preset makes of those on disk: what vLLM wants, as far as is known."""
    shards = [planned.shard for planned in plan.shards]
    tensors = [(component(shard), tensor) for shard in shards for tensor in shard.header.tensors]
    names = apply_steps([tensor.name for _, tensor in tensors], load_preset(preset).steps).names
    wanted = {
        before + name: Wanted(tensor.dtype, tensor.shape)
        for (before, tensor), name in zip(tensors, names, strict=True)
        if name is not None
    }
    return Reference(f"the names that the preset {preset} gives", wanted)


def advise_preset(plan: Plan, judged: Iterable[Judged], configs: Mapping[str, Any]) -> dict[str, Advice]:
    """Give failing names what the preset for the config's model type makes of their names on disk."""
    preset = preset_of(configs)
    if preset is None:
        return {}
    used = any(f" in {preset}.toml " in rule.rule for rule in plan.rules)
    fix = f"no rule behind  --preset {preset}  should change it" if used else f"--preset {preset}"
    failed = [(each.source, each.name) for each in judged if each.outcome in _FAILED]
    pairs = [(source, name) for source, name in failed if source is not None and name is not None]
    better = apply_steps([source for source, _ in pairs], load_preset(preset).steps).names
    advice = {
        name: Advice("{}".join(split(new)[0]), fix)
        for (_, name), new in zip(pairs, better, strict=True)
        if new is not None and new != name
    }
    return advice | ({CONFIG: Advice(None, fix)} if (None, CONFIG) in failed and not used else {})

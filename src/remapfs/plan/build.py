"""Checkpoint + rules = plan."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from remapfs.checkpoint.header import HUB_MAX_HEADER, LENGTH_BYTES
from remapfs.checkpoint.scan import CONFIGS
from remapfs.errors import RemapError
from remapfs.plan import checks
from remapfs.plan.documents import applies_to, apply_jq, decode, encode, rename_modules
from remapfs.plan.extents import Literal, Slice, VirtualFile
from remapfs.plan.indexes import present_index
from remapfs.plan.model import Finding, Kind, Plan, PlannedShard, Rewrite, RuleHits
from remapfs.plan.modules import ModuleNames
from remapfs.plan.shards import present_shard
from remapfs.plan.tree import Directory
from remapfs.rules.apply import apply_steps
from remapfs.rules.literal import required_literal
from remapfs.rules.model import Alias, Match, Prefix, Rename, Substring, Suffix

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from remapfs.checkpoint.model import Checkpoint, File, Shard
    from remapfs.rules.model import Hide, Json, Pattern, Rules, Step
    from remapfs.rules.steps import Renaming


def make_plan(checkpoint: Checkpoint, rules: Rules, *, force: bool = False) -> Plan:
    """Decide everything that will be seen; reads no file.

    With `force`, tensors that the preset's reader cannot load are warned of instead of refused. Raises
    RemapError where a rule matches nothing, or a name would be reserved, empty or given twice.
    """
    names = [tensor.name for shard in checkpoint.shards for tensor in shard.header.tensors]
    renaming = apply_steps(names, rules.steps)
    checks.check_hits(rules, renaming.hits, names[0] if names else "")
    shards = _share(checkpoint.shards, renaming)
    findings = [
        Finding(Kind.HEALED if note.healed else Kind.LEFT, note.file, note.text) for note in checkpoint.notes
    ]
    findings += checks.check_names(shards, rules.steps)
    findings += checks.refused(shards, rules.refuse, force=force)
    findings += checks.warn_of_names(shards)
    documents, rewrites, json_hits, found = _documents(checkpoint, shards, rules)
    findings += found
    by_path = {planned.shard.file.path: planned for planned in shards}
    # An index takes the most memory while it is made, so it comes before the headers are there.
    made = {index.file.path: present_index(index, by_path) for index in checkpoint.indexes}
    made |= {path: present_shard(planned) for path, planned in by_path.items()}
    made |= documents
    findings += _large(made.values())
    hide_hits = [_hide_hits(rule, checkpoint.hidden) for rule in rules.hide]
    return Plan(
        root=checkpoint.root,
        files=tuple(made.get(file.path) or _as_it_is(file) for file in checkpoint.files),
        directories=tuple(Directory(folder.path, folder.attributes) for folder in checkpoint.folders),
        findings=tuple(findings),
        shards=tuple(shards),
        rules=_rule_hits(rules, renaming.hits, hide_hits, json_hits),
        rewrites=tuple(rewrites),
    )


def _share(shards: Sequence[Shard], renaming: Renaming) -> list[PlannedShard]:
    """Give each shard its part of the new names."""
    planned = []
    start = 0
    aliases = list(renaming.aliases)
    for shard in shards:
        tensors = shard.header.tensors
        end = start + len(tensors)
        names = renaming.names[start:end]
        own = tuple((position - start, name) for position, name in aliases if start <= position < end)
        same = all(name == tensor.name for name, tensor in zip(names, tensors, strict=True))
        planned.append(PlannedShard(shard, names, own, rewritten=bool(own) or not same or not shard.exact))
        start = end
    return planned


def _documents(
    checkpoint: Checkpoint, shards: Sequence[PlannedShard], rules: Rules
) -> tuple[dict[str, VirtualFile], list[Rewrite], list[int], list[Finding]]:
    files = {file.path: file for file in checkpoint.files}
    presented: dict[str, VirtualFile] = {}
    rewrites: list[Rewrite] = []
    findings: list[Finding] = []
    modules: dict[str, ModuleNames] = {}
    hits = dict.fromkeys(range(len(rules.json)), 0)
    for rule in rules.json:
        if rule.file not in checkpoint.documents and not rule.optional:
            raise RemapError(
                f"{rule.origin}: there is no {rule.file}", "correct its path, or write  optional = true"
            )
    for path, before in checkpoint.documents.items():
        own = {number: rule for number, rule in enumerate(rules.json) if rule.file == path}
        folder = posixpath.dirname(path)
        renames = posixpath.basename(path) in CONFIGS and any(
            planned.rewritten for planned in shards if applies_to(folder, planned.shard.file.path)
        )
        if not own and not renames:
            continue
        original = document = decode(path, before)
        if renames:
            if folder not in modules:
                modules[folder] = _module_names(shards, folder)
            document, found = rename_modules(path, document, modules[folder])
            findings += found
        document, changed = apply_jq(path, document, list(own.values()), lambda regex: _has(shards, regex))
        hits.update(zip(own, changed, strict=True))
        if document != original:
            after = encode(document, before)
            presented[path] = VirtualFile.of(path, [Literal(after)], files[path].attributes)
            rewrites.append(Rewrite(path, before, after))
    return presented, rewrites, list(hits.values()), findings


def _module_names(shards: Iterable[PlannedShard], folder: str) -> ModuleNames:
    old: list[str] = []
    new: list[str | None] = []
    aliases: list[tuple[int, str]] = []
    for planned in shards:
        if applies_to(folder, planned.shard.file.path):
            aliases += [(len(old) + position, name) for position, name in planned.aliases]
            old += [tensor[0] for tensor in planned.shard.header.tensors]
            new += planned.names
    return ModuleNames(old, new, aliases)


def _has(shards: Iterable[PlannedShard], regex: re.Pattern[str]) -> bool:
    literal = required_literal(regex)
    return any(
        literal in new and regex.search(new) for planned in shards for new in planned.presented_names()
    )


def _large(files: Iterable[VirtualFile]) -> list[Finding]:
    findings = []
    for file in files:
        first = file.extents[0] if file.extents else None
        if (
            isinstance(first, Literal)
            and len(file.extents) > 1
            and first.length - LENGTH_BYTES > HUB_MAX_HEADER
        ):
            text = f"its new header has {first.length:,} bytes; the Hugging Face hub client reads"
            findings.append(Finding(Kind.WARNED, file.path, f"{text} {HUB_MAX_HEADER:,}"))
    return findings


def _as_it_is(file: File) -> VirtualFile:
    return VirtualFile.of(file.path, [Slice(file.source, 0, file.source.size)], file.attributes)


def _hide_hits(rule: Hide, hidden: Sequence[str]) -> int:
    hits = sum(rule.hits(path) for path in hidden)
    if not hits and not rule.optional:
        raise RemapError(
            f"{rule.origin} matches no file: {', '.join(rule.files)}",
            "correct the glob, or write  optional = true",
        )
    return hits


def _rule_hits(
    rules: Rules, steps: Sequence[int], hide: Sequence[int], json: Sequence[int]
) -> tuple[RuleHits, ...]:
    return (
        *(
            RuleHits(str(step.origin), _describe(step), hits)
            for step, hits in zip(rules.steps, steps, strict=True)
        ),
        *(
            RuleHits(str(rule.origin), f"hide {', '.join(rule.files)}", hits)
            for rule, hits in zip(rules.hide, hide, strict=True)
        ),
        *(
            RuleHits(str(rule.origin), _describe_json(rule), hits)
            for rule, hits in zip(rules.json, json, strict=True)
        ),
    )


def _describe(step: Step) -> str:
    match step:
        case Rename(pattern, to):
            return f"{_describe_pattern(pattern)} → '{to}'"
        case Alias(name, other):
            return f"alias {name!r} as {other!r}"
        case _:
            return f"drop {_describe_pattern(step.pattern)}"


def _describe_pattern(pattern: Pattern) -> str:
    match pattern:
        case Match(regex):
            return regex.pattern
        case Prefix(text):
            return f"prefix {text!r}"
        case Suffix(text):
            return f"suffix {text!r}"
        case Substring(text):
            return f"substring {text!r}"


def _describe_json(rule: Json) -> str:
    condition = f", if a tensor matches {rule.if_tensor.pattern}" if rule.if_tensor else ""
    return f"rewrite {rule.file}{condition}"

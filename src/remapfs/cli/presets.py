"""`remapfs presets`."""

from __future__ import annotations

import json

import click

from remapfs import rules

_EPILOG = """
\b
Examples:
  remapfs presets
  remapfs presets deepseek-v4 > my-rules.toml
"""


@click.command(epilog=_EPILOG)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object from names to descriptions.")
def presets(name: str | None, *, as_json: bool) -> None:
    """List the presets, or print the rules of the one called NAME."""
    if name:
        click.echo(rules.preset_text(name), nl=False)
        return
    known = rules.presets()
    if as_json:
        click.echo(json.dumps(known, indent=2))
        return
    width = max(map(len, known))
    for preset, about in known.items():
        takes = "".join(f"   --set {parameter}=…" for parameter in rules.preset_parameters(preset))
        click.echo(f"{preset:<{width}}   {about}{takes}")

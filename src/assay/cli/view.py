"""`assay view`: serves the runs below a folder as web pages."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.code_option import code_option
from assay.store.render.screen import tell


@click.command("view", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="[DIR]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7575,
    show_default=True,
    help="The port of the server; 0 for any free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. Any other than this machine's own needs the token that is printed.",
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
@click.option("--token", is_flag=True, help="Protect the pages with a token on this machine too, from its other users.")
@code_option
def command(folder: Path, port: int, host: str, open_browser: bool, token: bool) -> int:
    """Look at the runs below DIR (default: the current folder) in the browser. Ctrl-C ends the server.

    The pages change nothing unless a button is pressed. Nothing leaves this machine. The server answers this machine
    only, and only its own pages; with --host it answers others too, if they have the token.

    \b
    Examples:
      assay view
      assay view results --open
      assay view --port 0
      assay view --host 0.0.0.0
    """
    # Imported here because --help needs neither.
    import asyncio

    from assay.view.server import serve

    def say(address: str) -> None:
        click.echo(address)
        tell("Ctrl-C ends the server.")

    asyncio.run(serve(folder, host, port, needs_secret=token, open_browser=open_browser, tell=say))
    return 0

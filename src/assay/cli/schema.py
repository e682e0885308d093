"""`assay schema`: the JSON Schema of a file format, for editors."""

from __future__ import annotations

import json

import click

from assay.cli.completion import complete_schemas
from assay.store.render.screen import table


@click.command("schema", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False, metavar="[NAME]", shell_complete=complete_schemas)
def command(name: str | None) -> int:
    """Print the JSON Schema (2020-12) of a file that assay reads. Without NAME, list the names.

    An editor with the schema completes keys, explains them and marks mistakes. In VS Code with the YAML extension, a
    first line names the schema:

    \b
      # yaml-language-server: $schema=task.schema.json

    For JSON files, name the schema under json.schemas in the settings. `assay check FILE` finds more: rules across
    keys, files that do not exist, duplicate ids.

    \b
    Examples:
      assay schema
      assay schema task > task.schema.json
      assay schema conversations > conversations.schema.json
    """
    from assay.runner import api

    if name is None:
        table(["name", "file"], [[schema.name, schema.summary] for schema in api.file_schemas().values()])
    else:
        click.echo(json.dumps(api.json_schema(name), indent=2, ensure_ascii=False))
    return 0

"""JSON Schemas of the files that assay reads. `assay schema NAME` prints them for editors.

    class Row(Struct):
        \"\"\"A question with its answer.\"\"\"

        question: str
        answer: str | None = None

    schema = derive(Row, "Rows of a quiz.", texts={"Row.answer": "Reference answer. The model never sees it."})

`derive` starts from the msgspec type that reads the file, so that schema and reader cannot disagree about keys and
types. `texts` and `schemas` add what a type does not say; they raise KeyError for a key that the type does not have.
A suite lists its schemas in `SuiteFiles.schemas`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from assay.core.spec import Field, RunSpec, SuiteOptions, fields

JsonSchema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

TEXT: JsonSchema = {"type": "string"}
TEXT_OR_NULL: JsonSchema = {"type": ["string", "null"]}
TEXTS: JsonSchema = {"type": "array", "items": {"type": "string"}}
OBJECT: JsonSchema = {"type": "object"}
ID: JsonSchema = {"type": ["string", "integer"], "pattern": r"\S"}


class FileSchema(Struct, frozen=True):
    """A file format by the name that `assay schema` takes. `build` returns the schema."""

    name: str
    summary: str
    build: Callable[[], JsonSchema]


def derive(
    kind: Any,
    description: str,
    texts: Mapping[str, str] | None = None,
    schemas: Mapping[str, JsonSchema] | None = None,
) -> JsonSchema:
    """Return the schema of a msgspec type.

    `texts` maps `Struct.key` to a description that editors show. `schemas` maps `Struct.key` to a schema in place
    of the derived one: for fields of type Any, and for patterns that only Python understands.
    """
    schema = msgspec.json.schema(kind)
    definitions: dict[str, JsonSchema] = schema.get("$defs", {})
    for path, replacement in (schemas or {}).items():
        struct, _, key = path.partition(".")
        properties = definitions[struct]["properties"]
        default = {"default": properties[key]["default"]} if "default" in properties[key] else {}
        properties[key] = {**replacement, **default}
    for path, text in (texts or {}).items():
        struct, _, key = path.partition(".")
        properties = definitions[struct]["properties"]
        properties[key] = {**properties[key], "description": text}
    return complete(schema, description)


def complete(schema: JsonSchema, description: str) -> JsonSchema:
    """Return a schema with its dialect and a description at the top."""
    return {"$schema": DIALECT, "description": description, **schema}


def one_of(names: Iterable[str], *others: JsonSchema) -> JsonSchema:
    """Return the schema of a text that is one of these names. With `others`, the names are suggestions only."""
    choices: JsonSchema = {"enum": list(names)}
    return {"anyOf": [choices, *others]} if others else choices


def one_or_list(item: JsonSchema) -> JsonSchema:
    """Return the schema of a value, or of a list of such values."""
    return {"anyOf": [item, {"type": "array", "items": item}]}


def described(schema: JsonSchema, text: str) -> JsonSchema:
    """Return a schema with a description."""
    return {**schema, "description": text}


def with_value(key: str) -> JsonSchema:
    """Return the schema of an object that has this key with a value other than null."""
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def describe_keys(properties: dict[str, JsonSchema], texts: Mapping[str, str]) -> dict[str, JsonSchema]:
    """Return properties with descriptions. Raises KeyError for a text whose key does not exist."""
    return properties | {key: described(properties[key], text) for key, text in texts.items()}


def config_schema(options: type[SuiteOptions]) -> JsonSchema:
    """Return the schema of a `--config` file: a YAML mapping with the options of a suite's command."""
    properties: dict[str, JsonSchema] = {}
    definitions: dict[str, JsonSchema] = {}
    for struct in (RunSpec, options):
        for field in fields(struct):
            if field.name in ("suite", "options"):
                continue
            schema = described(_option_schema(field, definitions), field.help)
            for flag in field.extra.get("flags") or [f"--{field.name}"]:
                properties[flag.removeprefix("--").replace("-", "_")] = schema
            properties[field.name] = schema
    for flag, reason in options.ignored.items():
        name = flag.partition(" ")[0].lstrip("-").replace("-", "_")
        properties[name] = {"description": f"Ignored: {reason}"}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if definitions:
        schema["$defs"] = definitions
    return complete(schema, "Options of a command, for --config. Keys are the names of the flags.")


def _option_schema(field: Field, definitions: dict[str, JsonSchema]) -> JsonSchema:
    schema = msgspec.json.schema(field.type)
    definitions.update(schema.pop("$defs", {}))
    kinds = {get_origin(kind) or kind for kind in (field.type, *get_args(field.type))}
    # A list may be written as `a,b` and a mapping as `a=1,b=2`. A number may be quoted; `as_text` allows a list.
    if kinds & {list, dict, int, float, bool}:
        return {"anyOf": [schema, {"type": "string"}]}
    return schema


def struct_properties(kinds: Iterable[type[Struct]]) -> dict[str, JsonSchema]:
    """Return the properties of several structs together, for a mapping that may have the keys of any of them."""
    properties: dict[str, JsonSchema] = {}
    for kind in kinds:
        schema = msgspec.json.schema(kind)
        properties |= schema["$defs"][kind.__name__]["properties"]
    return properties

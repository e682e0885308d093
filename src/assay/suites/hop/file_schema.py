"""JSON Schemas of settings, contracts and rows, made from the tables by which this package checks the files."""

from __future__ import annotations

from assay.files.json_schema import (
    TEXT,
    TEXT_OR_NULL,
    FileSchema,
    JsonSchema,
    complete,
    describe_keys,
    described,
    one_of,
)
from assay.suites.hop.contract import (
    AGGREGATES,
    COMPARISONS,
    CONTRACT_KEYS,
    INPUT_KEYS,
    OUTPUT_ALIASES,
    OUTPUT_KEYS,
)
from assay.suites.hop.field_types import TYPE_ALIASES, TYPES
from assay.suites.hop.rows import DIFFICULTIES
from assay.suites.hop.settings import LLM_KEYS, PROFILE_KEYS, SETTINGS_KEYS

_NUMBER_FROM_0: JsonSchema = {"type": ["number", "null"], "minimum": 0}
_COUNT: JsonSchema = {"type": ["integer", "null"], "minimum": 0}
_PARAMETERS: JsonSchema = {"type": ["object", "null"]}


def file_schemas() -> list[FileSchema]:
    """Return the schemas of this suite's files."""
    return [
        FileSchema("hop-settings", "Models and profiles of hop, settings.yaml.", settings_schema),
        FileSchema("hop-contract", "Inputs and outputs of a function, contract.yaml or metainfo.", contract_schema),
        FileSchema("hop-rows", "One row of a hop batch (JSONL).", rows_schema),
    ]


def settings_schema() -> JsonSchema:
    """Return the schema of `settings.yaml`."""
    llm = _closed(
        LLM_KEYS,
        {
            "model": {"type": "string", "pattern": r"\S"},
            "base_url": {"type": ["string", "null"], "pattern": "^https?://"},
            "params": _PARAMETERS,
            "json_schema": {"type": ["boolean", "null"]},
        },
        {
            "model": "PROVIDER/NAME, or the name of a model at an OpenAI-compatible endpoint.",
            "base_url": "Base URL of the endpoint. Keys come from the environment: HOP_KEY_<LLM> or OPENAI_API_KEY.",
            "params": "Parameters of every request of this model, over the defaults.",
            "json_schema": "true: the endpoint takes response_format with a JSON schema.",
            "description": "For people.",
            "protocol": "Accepted, has no effect.",
            "inference_engine": "Accepted, has no effect.",
        },
        ["model"],
    )
    profile = _closed(
        PROFILE_KEYS,
        {"run": TEXT, "verify": TEXT_OR_NULL},
        {
            "run": "Name of the llm that answers.",
            "verify": "Name of the llm that verifies. Default: the one that answers.",
            "description": "For people.",
        },
        ["run"],
    )
    schema = _closed(
        SETTINGS_KEYS,
        {
            "defaults": _PARAMETERS,
            "llms": {"type": "object", "minProperties": 1, "additionalProperties": llm},
            "profiles": {"type": "object", "minProperties": 1, "additionalProperties": profile},
            "shared_endpoint": {"type": ["boolean", "null"]},
        },
        {
            "defaults": "Parameters of every request. The params of an llm win.",
            "llms": "Models by name.",
            "profiles": "What is compared: which llm answers and which one verifies, by name.",
            "shared_endpoint": "true: OPENAI_BASE_URL points to the run's model while rows run.",
        },
        ["llms", "profiles"],
    )
    return complete({"title": "HOP settings", **schema}, "Models and profiles of a HOP project.")


def contract_schema() -> JsonSchema:
    """Return the schema of a contract: a YAML file, or the front matter of metainfo.md. Other keys are allowed."""
    # A type may end with `?`, which makes an input optional. Letters of any case are accepted.
    type_ = one_of([*TYPES, *TYPE_ALIASES], {"type": ["string", "null"], "pattern": r"^\w+\s*\??$"})
    input_ = _closed(
        INPUT_KEYS,
        {
            "type": type_,
            "required": {"type": ["boolean", "null"]},
            "label": TEXT_OR_NULL,
            "description": TEXT_OR_NULL,
            "desc": TEXT_OR_NULL,
            "choices": {"type": ["array", "null"]},
        },
        {
            "type": "Type of the field. With ? at its end, the field may be missing.",
            "required": "false: the field may be missing.",
            "label": "Name for people, in the View.",
            "description": "For people, in the View.",
            "choices": "Values that the View offers.",
            "example": "Value that the View fills in with Fill example.",
        },
    )
    band = {"type": ["array", "string", "number", "boolean"]}
    output = _closed(
        [*OUTPUT_KEYS, *OUTPUT_ALIASES, "description", "desc"],
        {
            "type": type_,
            "aggregate": one_of(AGGREGATES, {"type": "null"}),
            "compare": one_of(COMPARISONS, {"type": "null"}),
            "tolerance": _NUMBER_FROM_0,
            "within": _NUMBER_FROM_0,
            "bands": {"type": ["object", "null"], "additionalProperties": band},
            "label": TEXT_OR_NULL,
            "sub_field": TEXT_OR_NULL,
        },
        {
            "type": "Type of the field.",
            "aggregate": "What the data store counts.",
            "compare": "What makes the field right. Default: the one of tolerance, bands and within that is given.",
            "tolerance": "Largest difference that is still right.",
            "within": "Right is at most this far away.",
            "bands": "Ranges {NAME: [lowest, highest]} or lists of values. Right is the same band.",
            "label": "Name for people.",
            "sub_field": "Key that is counted in a list of objects.",
        },
    )
    properties: dict[str, JsonSchema] = {key: {} for key in CONTRACT_KEYS}
    properties |= {
        "name": TEXT_OR_NULL,
        "version": {"type": ["string", "number", "null"]},
        "inputs": _fields(type_, input_),
        "outputs": _fields(type_, output),
        "audit_key": TEXT_OR_NULL,
        "audit_key_field": TEXT_OR_NULL,
        "function": TEXT_OR_NULL,
        "hop_func_name": TEXT_OR_NULL,
        "retry_quota": _COUNT,
        "max_feedback_rounds": _COUNT,
    }
    texts = {
        "name": "Name of the function in reports.",
        "version": "Version of the function.",
        "inputs": "Fields that the function gets, with their types.",
        "outputs": "Fields that the function returns, and how each is compared.",
        "audit_key": "Output by which a result without a wrapper is recognised.",
        "audit_key_field": "Another name for audit_key.",
        "function": "Which function of Hop.py is called.",
        "hop_func_name": "Another name for function.",
        "retry_quota": "How often the View lets a person repeat a failed call. Default: without a limit.",
        "max_feedback_rounds": "How often the View asks a person for feedback. Default: 5.",
    }
    schema: JsonSchema = {
        "title": "Contract",
        "type": "object",
        "properties": describe_keys(properties, texts),
    }
    return complete(schema, "What a function gets and returns. Other keys are allowed and ignored.")


def rows_schema() -> JsonSchema:
    """Return the schema of one row. Keys that it does not name are inputs, so they may be anything."""
    schema: JsonSchema = {
        "title": "Row",
        "type": "object",
        "properties": {
            "id": described({"type": ["string", "integer", "null"]}, "Id of the row. Default: the number of its line."),
            "tag": described(TEXT_OR_NULL, "Group of the row in reports."),
            "difficulty": one_of(DIFFICULTIES, {"type": "null"}),
            "description": described(TEXT_OR_NULL, "For people."),
        },
        "patternProperties": {
            "^expected_.": described({}, "Expected value of the output of this name. It never reaches the function.")
        },
        "minProperties": 1,
    }
    return complete(schema, "One row of a batch. Keys that are not listed are inputs of the function.")


def _closed(
    keys: list[str] | tuple[str, ...],
    schemas: dict[str, JsonSchema],
    texts: dict[str, str],
    required: list[str] | None = None,
) -> JsonSchema:
    """Return the schema of a mapping with these keys and no others."""
    assert schemas.keys() <= set(keys), schemas.keys() - set(keys)
    properties: dict[str, JsonSchema] = {key: schemas.get(key, {}) for key in keys}
    schema: JsonSchema = {
        "type": "object",
        "properties": describe_keys(properties, texts),
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    return schema


def _fields(type_: JsonSchema, field: JsonSchema) -> JsonSchema:
    """Return the schema of inputs or outputs: a mapping by name, or a list of names and of mappings with a name."""
    names: dict[str, JsonSchema] = {"name": TEXT, "field_name": TEXT}
    listed = {**field, "properties": {**field["properties"], **names}}
    return {
        "anyOf": [
            {"type": "object", "additionalProperties": {"anyOf": [type_, field]}},
            {"type": "array", "items": {"anyOf": [TEXT, listed]}},
            {"type": "null"},
        ]
    }

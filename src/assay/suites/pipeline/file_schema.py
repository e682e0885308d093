"""JSON Schemas of pipeline files, testsets and flows, made from the structs that read them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from assay.files.json_schema import (
    ID,
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    FileSchema,
    JsonSchema,
    complete,
    derive,
    describe_keys,
    described,
    one_of,
    struct_properties,
)
from assay.scoring.expectations import RULE_KINDS
from assay.suites.pipeline.code import LANGUAGES
from assay.suites.pipeline.pipeline_file import (
    OVERRIDES,
    TYPE_ALIASES,
    TYPES,
    BaselineShape,
    CodeShape,
    FileShape,
    InputShape,
    OverrideShape,
    VariantShape,
)
from assay.suites.pipeline.step_keys import KEYS_BY_TYPE, OutputKeys
from assay.suites.pipeline.steps.aggregate_step import STRATEGIES, SUMMARY_FIELDS, AggregateSettings
from assay.suites.pipeline.steps.batch import Batch
from assay.suites.pipeline.steps.prompt_step import PARSERS
from assay.suites.pipeline.testset.validation import V2_KEYS, RecordShape

_NAME: JsonSchema = {"type": "string", "pattern": r"^[\w-]+$"}
_SOURCES: JsonSchema = {"type": ["object", "null"]}
_PARSER = one_of(
    PARSERS,
    TEXT_OR_NULL,
    {
        "type": "object",
        "properties": {
            "type": one_of(PARSERS, TEXT),
            "pattern": described(TEXT, "For regex: a pattern. Named groups return an object."),
            "group": described({"type": ["integer", "string"]}, "For regex: the group to return."),
        },
    },
)
_RULE: JsonSchema = {
    "type": "object",
    "properties": {
        "kind": one_of(RULE_KINDS),
        "value": described({}, "The limit, text, pattern or list that the kind needs."),
        "target": described(TEXT, "An output, or a path into it."),
        "id": described({}, "Name of the rule in reports."),
        "ignore_case": {"type": "boolean"},
        "trim": {"type": "boolean"},
    },
    "required": ["kind"],
}

# Keys that `pipeline_file.py` reads before the builder sees a step.
_READ_BEFORE = {
    "description": described({}, "For people."),
    "concurrent_group": described({}, "Accepted, has no effect: independent steps always run side by side."),
    "code_config": {},
    "model_override": TEXT_OR_NULL,
    "code_file": TEXT_OR_NULL,
    "aggregation_code": TEXT_OR_NULL,
}
# Which of them belong to which type of step. A step of another type refuses them.
_READ_BEFORE_BY_TYPE = {
    "prompt": {"description", "concurrent_group", "model_override"},
    "code": {"description", "concurrent_group", "code_config", "code_file", "aggregation_code"},
    "aggregate": {"description", "concurrent_group", "code_config", "code_file", "aggregation_code"},
    "hop": {"description", "concurrent_group", "model_override"},
}
_STEP_TEXTS = {
    "id": "Name of the step: letters, digits, _ and -. Other steps use it as a source.",
    "type": "prompt, code, aggregate or hop. Without it, the keys decide.",
    "input_mapping": "Where values come from: {name: source}. A source is an input, a step, or a path such as a.b[0].",
    "output_key": "Another name for the step's output. Default: the id.",
    "depends_on": "Steps to wait for, besides those it takes values from.",
    "required": "false: the test goes on if the step fails.",
    "timeout": "Seconds of one attempt.",
    "retry": "Further attempts after a failure.",
    "batch_mode": "true: run once for each item of a list.",
    "batch_size": "Items per chunk. A chunk starts when the previous one has ended.",
    "concurrent": "false: one item after another.",
    "max_workers": "Most items at once.",
    "with_item": "true: merge an output that is an object into its item.",
    "template": "The prompt. A Jinja template; {{ name }} is an input or the output of a step.",
    "system": "The system prompt. A Jinja template.",
    "model": "PROVIDER/NAME for this step, in place of --model.",
    "params": "Parameters of the request, such as temperature and max_tokens.",
    "output_parser": "How the reply becomes a value: text, json, number, list, or a regex.",
    "parser": "Another name for output_parser.",
    "agent": "Prompt Lab's agent, whose flow is the prompt.",
    "flow": "A flow of the agent: agents/AGENT/prompts/FLOW.yaml.",
    "defaults": "Values of template variables that nothing else sets.",
    "code": "Python or JavaScript with transform(...), or aggregate(items) for the strategy custom.",
    "code_file": "File with the code beside the pipeline, in place of code. A .js file is JavaScript.",
    "code_config": "The keys of code, in a mapping.",
    "language": "python or javascript. Default: python.",
    "env_vars": "Accepted, has no effect.",
    "strategy": "How a list becomes one value.",
    "aggregation_strategy": "Another name for strategy.",
    "separator": "For concat: text between items.",
    "fields": "For stats: the fields to count.",
    "condition": "For filter: an expression such as item.score > 0.7.",
    "group_by": "For group: the field.",
    "summary_fields": "For summary: the figures to return.",
    "score_field": "For summary: the field with the score.",
    "include_distribution": "For stats: how often each value occurs.",
    "output": "Shapes the result: {name: path}.",
    "target": "The function: FILE.py:function, package.module:function or a task folder.",
    "model_override": "Another name for model.",
    "aggregation_code": "Another name for code.",
}


def file_schemas() -> list[FileSchema]:
    """Return the schemas of this suite's files."""
    return [
        FileSchema("pipeline", "Pipeline file (YAML).", pipeline_schema),
        FileSchema("testset", "One record of a testset, v1 or v2 (JSONL).", testset_schema),
        FileSchema("flow", "Prompt of an agent, agents/AGENT/prompts/FLOW.yaml.", flow_schema),
    ]


def pipeline_schema() -> JsonSchema:
    """Return the schema of a pipeline file."""
    overrides: JsonSchema = {
        "type": ["object", "null"],
        "additionalProperties": {
            **_object(OverrideShape, {key: _step_properties()[key] for key in OVERRIDES}),
            "minProperties": 1,
        },
    }
    baseline = _object(BaselineShape, {"steps": overrides})
    variant = _object(VariantShape, {"overrides": overrides})
    inputs: JsonSchema = _object(InputShape, {"name": TEXT})
    inputs["required"] = ["name"]
    output = _object(
        OutputKeys,
        {
            "key": described(TEXT, "Name of the output in tests and result files."),
            "from": described(TEXT_OR_NULL, "Source of the value, such as STEP.field. Default: the key."),
            "label": described({}, "For people."),
            "rules": described({"type": ["array", "null"], "items": _RULE}, "Rules that hold for every test."),
        },
    )
    output["required"] = ["key"]
    schema = derive(
        FileShape,
        "A pipeline: steps that call models or run code, the outputs, and variants.",
        texts={
            "FileShape.id": "Names the folder of results. Default: the name of the file.",
            "FileShape.name": "Name for people.",
            "FileShape.description": "For people.",
            "FileShape.version": "For people. Accepted, has no effect.",
            "FileShape.default_testset": "Testset that runs without --testset.",
            "FileShape.inputs": "Names of the inputs that tests give. Other sources are then refused.",
            "FileShape.steps": "The steps. Independent steps run side by side.",
            "FileShape.outputs": "What tests compare. Default: the output of the last step.",
            "FileShape.baseline": "Changes of steps in the variant baseline.",
            "FileShape.variants": "Changes of steps by the name of a variant.",
            "FileShape.evaluation_target": "The step that `expected` is about. Default: the last one.",
        },
        schemas={
            "FileShape.id": {"type": ["string", "null"], "pattern": r"^(\w[\w.-]*)?$"},
            "FileShape.inputs": {"type": ["array", "null"], "items": {"anyOf": [TEXT, inputs]}},
            "FileShape.steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Step"}},
            "FileShape.outputs": {"type": ["array", "null"], "items": {"anyOf": [TEXT, output]}},
            "FileShape.baseline": {"anyOf": [baseline, {"type": "null"}]},
            "FileShape.variants": {"type": ["object", "null"], "additionalProperties": variant},
        },
    )
    schema["$defs"]["FileShape"]["required"] = ["steps"]
    schema["$defs"]["Step"] = _step_schema()
    return schema


def _step_schema() -> JsonSchema:
    """Return the schema of a step: every key of every type, and for a step with a type only the keys of that type."""
    conditions: list[JsonSchema] = []
    for type_, keys in KEYS_BY_TYPE.items():
        names = [type_, *(alias for alias, name in TYPE_ALIASES.items() if name == type_)]
        allowed = [*_encoded_names(keys), *sorted(_READ_BEFORE_BY_TYPE[type_])]
        if "code" in allowed:
            allowed += _encoded_names(CodeShape)  # a code_config may stand in the step itself
        conditions.append(
            {
                "if": {"properties": {"type": one_of(names)}, "required": ["type"]},
                "then": {"propertyNames": {"enum": list(dict.fromkeys(allowed))}},
            }
        )
    return {
        "title": "Step",
        "type": "object",
        "properties": describe_keys(_step_properties(), _STEP_TEXTS),
        "required": ["id"],
        "additionalProperties": False,
        "allOf": conditions,
    }


def _step_properties() -> dict[str, JsonSchema]:
    """Return the keys of all types of steps. Those that the structs leave open get the types that the builder wants."""
    properties = struct_properties(KEYS_BY_TYPE.values())
    batch, aggregate = struct_properties([Batch]), struct_properties([AggregateSettings])
    exact: dict[str, JsonSchema] = {
        "id": _NAME,
        "type": one_of([*TYPES, *TYPE_ALIASES], {"type": "null"}),
        "input_mapping": _SOURCES,
        "output_key": {"type": ["string", "null"], "pattern": r"^[\w-]*$"},
        "depends_on": {"type": ["array", "null"], "items": TEXT},
        **{key: batch[key] for key in Batch.__struct_fields__},
        "template": TEXT,
        "output_parser": _PARSER,
        "parser": _PARSER,
        "agent": TEXT,
        "flow": TEXT,
        "code": TEXT,
        "language": one_of(LANGUAGES),
        **{key: aggregate[key] for key in AggregateSettings.__struct_fields__},
        "strategy": one_of(STRATEGIES),
        "aggregation_strategy": one_of(STRATEGIES),
        "summary_fields": {"type": "array", "items": one_of(SUMMARY_FIELDS)},
        "output": _SOURCES,
    }
    unknown = exact.keys() - properties.keys()
    assert not unknown, unknown
    return {**properties, **exact, **_READ_BEFORE}


def _object(kind: type[Struct], exact: dict[str, JsonSchema]) -> JsonSchema:
    """Return the schema of a struct in place, with exact schemas for keys that the struct leaves open."""
    schema: JsonSchema = dict(msgspec.json.schema(kind)["$defs"][kind.__name__])
    assert exact.keys() <= schema["properties"].keys(), exact.keys() - schema["properties"].keys()
    schema["properties"] = {**schema["properties"], **exact}
    return schema


def _encoded_names(kind: type[Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def testset_schema() -> JsonSchema:
    """Return the schema of one record of a testset."""
    schema = derive(
        RecordShape,
        "One test of a testset. A record without inputs, step_inputs, batch_items, expected_outputs, "
        "expected_aggregation, intermediate_expectations and evaluation_config is v1. Other keys are inputs.",
        texts={
            "RecordShape.tags": "For --include-tags and --exclude-tags, and for the report.",
            "RecordShape.inputs": "Values for the pipeline.",
            "RecordShape.step_inputs": "Values or settings for one step: {STEP: {name: value}}.",
            "RecordShape.batch_items": "The list for batch steps.",
            "RecordShape.expected_outputs": "Expected outputs by name. A text may begin with contains: or regex:.",
            "RecordShape.intermediate_expectations": "Expected output of steps. Needs evaluate_intermediate.",
            "RecordShape.evaluation_config": "How outputs are compared.",
            "RecordShape.parameters": "Lists of values: one test for each combination, with these inputs.",
            "RecordShape.depends_on": "Ids of tests that must have passed before this one runs.",
            "RecordShape.conditions": "An expression; if it is false, the test is skipped.",
            "RecordShape.performance_baseline": "Most seconds and tokens.",
            "EvaluationConfig.evaluate_intermediate": "true: compare intermediate_expectations.",
            "EvaluationConfig.evaluate_final": "false: do not compare the outputs.",
            "EvaluationConfig.evaluate_aggregation": "false: do not compare the aggregation.",
            "EvaluationConfig.strict_mode": "true: the same keys, and no JSON is read out of texts.",
            "EvaluationConfig.tolerance": "Largest difference between two equal numbers.",
            "EvaluationConfig.ignore_fields": "Fields that are not compared: a name at any depth, or a.b as a path.",
            "EvaluationConfig.rules": "Rules for this test.",
        },
        schemas={"EvaluationConfig.rules": {"type": ["array", "null"], "items": _RULE}},
    )
    record = schema["$defs"]["RecordShape"]
    record["properties"] = {
        # The id is checked by code, because its problems have messages of their own.
        "id": described(ID, 'Name of the test: letters, digits, _ and -. 1 and "1" are the same id.'),
        **record["properties"],
        "expected_aggregation": described({}, "Expected result of the last aggregate step."),
        "expected": described({}, "Reference for the judge. Never compared."),
        "description": described({}, "For people."),
        "metadata": described({}, "For people."),
    }
    record["patternProperties"] = {
        "^expected_.": described({}, "Expected output of this name. It never reaches the pipeline.")
    }
    # A v1 record in a testset of an agent may have no id.
    record["if"] = {"anyOf": [{"required": [key]} for key in sorted(V2_KEYS)]}
    record["then"] = {"required": ["id"]}
    return schema


def flow_schema() -> JsonSchema:
    """Return the schema of a flow. `read_flow` checks nothing but the template."""
    properties: dict[str, Any] = {
        "user_template": described(TEXT, "The prompt. {name} and {{name}} are variables."),
        "system_prompt": described({}, "The system prompt."),
        "defaults": described({}, "Values of variables that nothing else sets."),
        "output_parser": _PARSER,
    }
    schema: JsonSchema = {"title": "Flow", **OBJECT, "properties": properties, "required": ["user_template"]}
    return complete(schema, "A prompt of Prompt Lab. Other keys are ignored.")

"""The JSON Schema of task and group files, made from the tables by which `config.py` and `catalog.py` check them."""

from __future__ import annotations

from assay.core import registry
from assay.files.json_schema import (
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    FileSchema,
    JsonSchema,
    complete,
    describe_keys,
    described,
    one_of,
    one_or_list,
)
from assay.scoring.statistics import AGGREGATIONS
from assay.suites.task.catalog import GROUP_KEYS, GROUP_METRIC_KEYS
from assay.suites.task.config import FEWSHOT_KEYS, FUNCTION_KEYS, KEY_TYPES, KEYS, OUTPUT_TYPES

_TYPE_NAMES = {str: "string", int: "integer", list: "array", dict: "object"}
_TEMPLATE = "A column's name, a Jinja template such as {{question}}, or !function module.name."

# What editors show for a key.
_TEXTS = {
    "task": "The task's name. In a group file: its members, as names or as mappings with changes.",
    "task_alias": "Name in tables, in place of the task's own.",
    "tag": "Tags by which the task can be selected.",
    "dataset_path": "json, csv, parquet, arrow or text for files; a folder; or the name of a data set on the hub.",
    "dataset_name": "Configuration of the data set.",
    "dataset_kwargs": "Options of the reader. data_files maps splits to files, relative to this file.",
    "custom_dataset": "!function that returns the splits as lists of documents.",
    "training_split": "Split for training documents. Evaluated if there is no other split.",
    "validation_split": "Evaluated if there is no test_split.",
    "test_split": "The split that is evaluated.",
    "fewshot_split": "Split from which few-shot examples are drawn.",
    "process_docs": "!function that changes the documents of a split before anything else reads them.",
    "doc_to_text": f"The prompt. {_TEMPLATE}",
    "doc_to_target": f"The reference answer. The model never receives it. {_TEMPLATE}",
    "doc_to_choice": "The choices of multiple_choice: a list, a column's name, a template, or !function.",
    "process_results": "!function (doc, results) that returns scores by name, in place of the metrics' own.",
    "description": "Text before the first example and the prompt. A Jinja template.",
    "target_delimiter": "Text between prompt and target of an example.",
    "fewshot_delimiter": "Text between examples.",
    "fewshot_config": "Settings of the few-shot examples. Missing ones are those of the task.",
    "num_fewshot": "Number of few-shot examples.",
    "metric_list": "Metrics of each answer. Without it, the usual ones of the output type.",
    "output_type": "What is asked of the model: a text, or the likelihood of texts.",
    "generation_kwargs": "Parameters of the request, such as until, temperature and max_gen_toks.",
    "repeats": "Replies per document. More than one also reports pass@k and maj@k.",
    "filter_list": "Filter chains. Each turns a reply into an answer and gets scores of its own.",
    "should_decontaminate": "Accepted, has no effect.",
    "unsafe_code": "true: the task runs code of the model, and needs --confirm-run-unsafe-code.",
    "gen_prefix": "Text with which the reply begins. A Jinja template.",
    "metadata": "Anything. version appears in results files.",
    "include": "Files whose keys this file takes over, relative to it. Keys of this file win.",
    "group": "The group's name. A file with this key is a group.",
    "group_alias": "Name in tables, in place of the group's own.",
    "aggregate_metric_list": "Metrics over all tasks of the group.",
    "task_list": "Accepted, has no effect.",
}


def file_schemas() -> list[FileSchema]:
    """Return the schemas of this suite's files."""
    return [FileSchema("task", "Task or group file of lm-evaluation-harness (YAML).", task_schema)]


def task_schema() -> JsonSchema:
    """Return the schema of a task file, of a group file, and of a file that others include."""
    properties: dict[str, JsonSchema] = {key: {} for key in KEYS}
    for key, kinds in KEY_TYPES.items():
        names = [_TYPE_NAMES[kind] for kind in kinds]
        # Editors do not know the tag `!function`. They validate `!function module.name` as a string.
        if key in FUNCTION_KEYS and "string" not in names:
            names.append("string")
        # assay accepts true and false for an integer, because bool is a subclass of int in Python.
        if "integer" in names:
            names.append("boolean")
        # A key that is null counts as missing.
        properties[key] = {"type": [*names, "null"]}
    properties |= {
        "output_type": one_of([*OUTPUT_TYPES], {"type": "null"}),
        "repeats": {"type": ["integer", "null"], "minimum": 1},
        "generation_kwargs": {"type": ["object", "null"], "properties": _generation_properties()},
        "fewshot_config": {
            "type": ["object", "null"],
            "properties": {key: {} for key in FEWSHOT_KEYS},
            "additionalProperties": False,
        },
        "filter_list": _filter_list(),
        "metric_list": _metric_list(),
        "include": one_or_list(TEXT),
        "group_alias": {"type": ["string", "null"]},
        "task_list": {},
        "aggregate_metric_list": one_or_list(_group_metric()),
    }
    for key in GROUP_KEYS:
        properties.setdefault(key, {})
    properties["group"] = TEXT
    properties["task"] = {"type": ["string", "array"], "items": {"type": ["string", "object"]}}
    schema: JsonSchema = {
        "title": "Task file",
        "type": "object",
        "properties": describe_keys(properties, _TEXTS),
        "additionalProperties": False,
        # With `include`, required keys may be in the included file, which a schema cannot see.
        "anyOf": [
            {"required": ["include"]},
            {"required": ["group"]},
            {"required": ["task", "doc_to_text"], "properties": {"task": TEXT}},
        ],
    }
    return complete(schema, "A task or a group of tasks in the format of lm-evaluation-harness.")


def _generation_properties() -> dict[str, JsonSchema]:
    return {
        "until": described({"anyOf": [TEXT_OR_NULL, TEXTS]}, "The reply ends before the first of these texts."),
        "temperature": described({"type": ["number", "string"]}, "0 gives the same reply in every run."),
        "max_gen_toks": described({"type": "integer"}, "Most tokens of a reply."),
    }


def _filter_list() -> JsonSchema:
    step = {
        "type": "object",
        "properties": {
            "function": described(
                one_of(registry.names("filter"), TEXT),
                "A filter by name, or !function. The other keys are its options.",
            )
        },
        "required": ["function"],
    }
    chain = {
        "type": "object",
        "properties": {
            "name": described({}, "Name of the chain in reports."),
            "filter": {"type": "array", "items": step},
        },
        "required": ["name", "filter"],
    }
    return {"type": ["array", "null"], "items": chain}


def _metric_list() -> JsonSchema:
    metric = {
        "type": "object",
        "properties": {
            "metric": described(
                one_of(registry.names("metric"), TEXT),
                "A metric by name, or !function (references, predictions). Further keys are its options.",
            ),
            "aggregation": described(
                one_of(sorted(AGGREGATIONS), TEXT), "How the values of all documents become one number."
            ),
            "higher_is_better": described({}, "true or false. Decides which run of a comparison is better."),
            "right_wrong": described(
                {"type": "boolean"},
                "true: values are 1 for right and 0 for wrong, so the number has the interval of a proportion.",
            ),
        },
        "required": ["metric"],
    }
    return {"type": ["array", "null"], "items": metric}


def _group_metric() -> JsonSchema:
    properties: dict[str, JsonSchema] = {key: {} for key in GROUP_METRIC_KEYS}
    properties |= {
        "metric": TEXT,
        "filter_list": one_or_list(TEXT),
        "aggregation": TEXT,
        "weight_by_size": described({"type": "boolean"}, "true: the mean over documents; false: the mean over tasks."),
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["metric"],
        "additionalProperties": False,
    }

"""Contracts in Markdown: tables and lists under headings, in English and Chinese, and lines that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.suites.hop.contract import Contract, InputForm, OutputField, find_contract
from assay.suites.hop.contract_markdown import read_metainfo
from assay.suites.hop.field_types import TypeText, parse_type

ENGLISH = """\
# Verify

- **Version**: 1.2.0
- Function: `hop_verify(session, input)`

## Input contract

| Field | Type | Required | Description | Allowed values |
|:------|:----:|----------|-------------|----------------|
| `context_window` | string | yes | what is known |  |
| `model_output` | str | yes | what is checked | |
| `level` | string | no | how strict | low, high |
| `tries` | integer (1-5) | ✗ | | |

Rows without a level use `low`.

## Output contract

| name | type | description | bands |
|------|------|-------------|-------|
| hallucination_detected | bool | is something invented? | |
| score | int | from 1 to 5 | BAD 1-2, MID 3, GOOD 4-5 |
| errors | List[dict] | what is wrong | - |
| errors[].kind | string | | |

## Run mode

Batch and interactive.

## Metrics

| metric | type | target |
|---|---|---|
| completion | rate | 0.95 |
"""
CHINESE = """\
# 核验任务

**版本**：1.2.0
入口函数：hop_verify

## 一、输入契约

| 字段 | 类型 | 必填 | 说明 | 取值范围 |
|------|------|------|------|------|
| `context_window` | 字符串 | 是 | what is known | |
| `model_output` | 文本 | 是 | what is checked | |
| `level` | 枚举（low/high） | 否 | how strict | |
| `tries` | 整数（1-5） | 可选 | | |

## 二、输出契约

### 字段定义

| 字段名 | 类型 | 说明 | 档位 |
|------|------|------|------|
| hallucination_detected | 布尔值 | is something invented? | |
| score | 整数 | from 1 to 5 | BAD：1-2，MID：3，GOOD：4~5 |
| errors | 数组 | what is wrong | |

### 输出示例

```json
{"hallucination_detected": true, "score": 1, "errors": []}
```

## 运行模式

批量 / 交互
"""
LISTS = """\
# Verify

name-free prose.

## 版本

1.2.0

## Inputs

- `context_window` (string, required): what is known
- **model_output** (str, required): what is checked
- level (enum: low/high, optional): how strict
- tries: int, optional, default 3

  A longer text about tries.
  - nested: says more

## Outputs

* hallucination_detected (bool) — is something invented?
* score: int
* errors: array of objects - what is wrong

## Function

hop_verify
"""
SCHEMA = """\
**Version**: 1.2.0
**Function**: hop_verify

## Input

```json
{"type": "object",
 "required": ["context_window", "model_output"],
 "properties": {
  "context_window": {"type": "string", "description": "what is known"},
  "model_output": {"type": "string"},
  "level": {"type": "string"},
  "tries": {"type": "integer"}}}
```

## Output

```yaml
hallucination_detected: bool
score: int
errors: list
```
"""
UNION = """\
## Inputs

```json
{"properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}}, "required": ["a", "b"]}
```
"""
HTML = """\
## Inputs
<table>
  <tr><th>field</th><th>type</th></tr>
  <tr><td><b>a</b></td><td>int</td></tr>
  <tr>
    <td>b</td>
    <td>string<br>optional</td>
  </tr>
</table>
"""
INPUTS = {"context_window": "string", "model_output": "string", "level": "string", "tries": "int"}


def contract_of(text: str, folder: Path) -> Contract | None:
    (folder / "metainfo.md").write_text(text, encoding="utf-8")
    return find_contract(folder)


def messages_of(text: str, folder: Path) -> list[str]:
    with pytest.raises(InputError) as raised:
        contract_of(text, folder)
    return [str(problem).removeprefix(f"{folder}/") for problem in raised.value.problems]


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, LISTS, SCHEMA], ids=["english", "chinese", "lists", "schema"])
def test_fields_in_tables_lists_and_blocks_are_the_contract(text: str, tmp_path: Path) -> None:
    contract = contract_of(text, tmp_path)
    assert contract is not None
    assert contract.version == "1.2.0"
    assert contract.function == "hop_verify"
    assert contract.inputs == INPUTS
    assert contract.optional == {"level", "tries"}
    types = {name: field.type for name, field in contract.outputs.items()}
    assert types == {"hallucination_detected": "bool", "score": "int", "errors": "array"}


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_further_columns_are_forms_and_comparisons(text: str, tmp_path: Path) -> None:
    contract = contract_of(text, tmp_path)
    assert contract is not None
    assert contract.forms["level"] == InputForm(description="how strict", choices=["low", "high"])
    assert contract.forms["tries"] == InputForm(description="1-5")
    bands = {"BAD": [1, 2], "MID": [3], "GOOD": [4, 5]}
    assert contract.outputs["score"] == OutputField(type="int", aggregate="mean", compare="bands", bands=bands)


def test_front_matter_and_tables_are_one_contract(tmp_path: Path) -> None:
    text = "---\nname: Check\nversion: 2\n---\n# Check\n\n**Inputs**\n\n| name | type |\n|---|---|\n| a | int? |\n"
    contract = contract_of(text, tmp_path)
    assert contract == Contract(name="Check", version="2", inputs={"a": "int"}, optional=frozenset({"a"}), outputs={})


def test_a_table_for_both_directions_says_which_each_row_has(tmp_path: Path) -> None:
    table = "| 方向 | 字段 | 类型 |\n|---|---|---|\n| 输入 | a | string |\n| 输出 | b | bool |\n"
    contract = contract_of(f"## 输入/输出契约\n\n{table}", tmp_path)
    assert contract is not None
    assert (contract.inputs, list(contract.outputs)) == ({"a": "string"}, ["b"])


def test_an_attribute_table_names_the_hoplet(tmp_path: Path) -> None:
    table = "| 属性 | 值 |\n|---|---|\n| 名称 | 摘要 |\n| 版本 | 0.3.1 |\n| 入口函数 | `hop_sum` |\n"
    contract = contract_of(f"# 元信息\n\n{table}", tmp_path)
    assert contract == Contract(name="摘要", version="0.3.1", function="hop_sum")


def test_a_section_without_fields_is_no_error(tmp_path: Path) -> None:
    contract = contract_of("## Inputs\n\nNone.\n\n## Outputs\n\n- a (bool)\n", tmp_path)
    assert contract is not None
    assert (contract.inputs, list(contract.outputs)) == ({}, ["a"])


@pytest.mark.parametrize(
    "text",
    [
        "Inputs\n------\n\n| name | type | notes |\n|---|---|---|\n| a | int | x |\n| b | str? | y |\n",
        "## Contract\n### Input\n#### Required\n- a (int)\n#### Optional\n- b (str)\n",
        "## 输入契约（版本 2）\n\n### 必填字段\n\n- `a` *(int)*: x\n\n### 可选字段\n\n- `b` *(str)*: y\n",
        "# X\n- **输入契约**\n  - `a`: int — x\n  - `b` (字符串, 可选): y\n- **输出契约**\n",
        "## 2. Inputs\n\nname | type | required\n--- | --- | ---\na | int | Y\nb | string | No (see below)\n\nText | text\n",
        "# X\n输入：\n\n1. a（整数，必填）：x\n2. b（字符串，默认值：y）\n",
        "## Inputs\n\n| name | type |\n|---|---|\n| a | int |\n| b | string \\| null |\n\n- a is not negative\n",
        "## Model parameters\n\n- temperature: 0\n\n## Inputs\n- a: int\n- b: str, optional\n",
        UNION,
        "## Example call\n```yaml\ninputs: {c: 3}\n```\n## Inputs\n- a: int\n- b: str?\n",
        "# Error examples\n## Contract\n```yaml\ninputs: {a: int, b: string?}\n```\n",
        "# Response rating\n- Version: 1\n## Inputs\n- a: int\n- b: str?\n",
        "## 调用契约\n```yaml\ninputs: {a: int, b: string?}\n```\n",
        "## Notes\n### Request\n```yaml\ninputs: {c: 3}\n```\n## Contract\n```yaml\ninputs: {a: int, b: str?}\n```\n",
        "## 调用\n```yaml\ninputs: {c: 3}\n```\n## Inputs\n- a: int\n- b: str?\n",
        "## Inputs\n- Note: all inputs are text\n- a: int\n- b: str?\n- **注意**：all\n- 说明: optional, x\n- 备注：y\n",
        "## Inputs\n- a: int <!-- was: float\n- old: int\n```\n-->\n- b: str, optional\n\n<!-- - c: int -->\n",
        "## Inputs\n\nWrite `<!--` before a comment.\n\n- a: int\n- b: str?\n\n```\n<!-- no comment\n```\n",
        "## Inputs\n\n- a: int\n\n- b: str\n\n    - required: no\n\nBefore:\n\n    - c: int\n    ## Outputs\n",
        "## Inputs\n\n**a**\n: int 1-5\n: not negative\n\n`b` (optional)\n:   string, the text\n",
        "## Inputs\n\na: int 1-5\nb (string, optional): the text\n",
        "## Inputs\n### a (int)\nThe number.\n### b\n- type: string\n- required: no\n",
        HTML,
        "## Inputs\n| field | Data type (JSON) | Mandatory? |\n|---|---|---|\n| a | int | yes |\n| b | string | no |\n",
        "## 输入\n| 字段 / Field | 类型 | 必填？ |\n|-|-|-|\n| a | 1-5的整数 | 是 |\n| b | 文本 | 条件必填（x） |\n",
        "## Inputs\n| 字段 | 类型 |\n|---|---|\n| a | int（必填） |\n| b | string（条件必填） |\n",
        "## Inputs\n\n- a: int\n- b: str?\n\n      - c: int\n\nOld:\n\n\t| field | type |\n\t|---|---|\n\t| c | int |\n",
    ],
)
def test_layouts_that_people_use(text: str, tmp_path: Path) -> None:
    contract = contract_of(text, tmp_path)
    assert contract is not None
    assert (contract.inputs, contract.optional, contract.outputs) == (
        {"a": "int", "b": "string"},
        frozenset({"b"}),
        {},
    )


def test_examples_and_rules_are_not_fields(tmp_path: Path) -> None:
    text = (
        "## Inputs\n\n- a (int)\n\n### Input example\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        '## Output\n\n```json\n{"ok": true}\n```\n\n## 错误码\n\n- 1: late\n'
    )
    contract = contract_of(text, tmp_path)
    assert contract is not None
    assert (contract.inputs, contract.outputs) == ({"a": "int"}, {})


@pytest.mark.parametrize(
    "text",
    [
        '## Contract\n```json\n{\n  "inputs": {"a": "int", "b": "string?"}\n}\n```\n',
        "## Contract\n```\ninputs: {a: int, b: string?}\n```\n",
        "## Contract\n\n    inputs:\n      a: int\n      b: string?\n",
        '## Input contract\n```json\n{"inputs": {"a": "int", "b": "string?"}}\n```\n',
        "## Inputs\n\n    a: int\n    b: string?\n",
        '## Inputs\n```json\n{\n  "a": <int>, // see http://x.y\n  "b": "string（可选）"\n}\n```\n',
        "## Inputs\n```yaml\n- name: a\n  type: int 1-5\n- {name: b, type: string, required: false}\n```\n",
        '## Inputs\n```json\n[{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]\n```\n',
        '## Request\n```json\n{"inputs": {"c": 3}}\n```\n## Inputs\n- a: int\n- b: str?\n',
        '## Broken\n```json\n{"properties": {"c": 3}\n```\n## Inputs\n- a: int\n- b: str?\n',
        "## Inputs\n- a: int\n- b: str?\n```json\n{,}\n```\n## Use\n```json\n{,}\n```\n",
        "## Inputs\n- a: int\n- b: str?\n## Output\n```python\nclass Output:\n    a: int\n```\n",
        "## Inputs\n- a: int\n- b: str?\n## Output\n\n    assay hop run.py | tee: log\n",
        '## Inputs\n- a: int\n- b: str?\n## Output\n```json\n{"a": 1}\n{"a": 2}\n```\n',
        "## Inputs\n- a: int\n- b: str?\n## Output\n```json\n[1, 2]\n```\n```yaml\n- x\n- y\n```\n",
        "## Inputs\n- a: int\n- b: str?\n## Output\n\n    - run: the tests\n    - then wait\n",
        "## Inputs\n- a: int\n- b: str?\n## Output\n\n    def f(x: int):\n        return {x: 1}\n",
        "## Inputs\n- a: int\n- b: str?\n## Output\n```\nkind: text\nclaim: The moon is a cheese\n```\n",
    ],
)
def test_blocks_of_code_are_the_contract_or_leave_it_alone(text: str, tmp_path: Path) -> None:
    contract = contract_of(text, tmp_path)
    assert contract is not None
    assert (contract.inputs, contract.outputs) == ({"a": "int", "b": "string"}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '## Inputs\n```json\n{"properties": {\n  "a": {"type": "int"},,\n}}\n```\n',
            "metainfo.md:4: not YAML: ",
        ),
        ('## Inputs\n```json\n{\n"a": "int" # the text\n"b": "int"}\n```\n', "metainfo.md:5: not YAML: "),
        ("## Inputs\n- a: int\n\n## Outputs\n```yaml\na: int\n\tb: int\n```\n", "metainfo.md:7: a tab"),
        ("## Inputs\n\n    a: int\n   \tb: [int\n", "metainfo.md:4: a tab"),
        ('## Inputs\n```\n{"a": "string"\n```\n', "metainfo.md:4: not YAML: "),
        ("## Inputs\n```yaml\na: strng\nb: int\n```\n", "metainfo.md:3: a: there is no type named 'strng'"),
        (
            "## Inputs\n\n    | field | type |\n    |---|---|\n    | a | int |\n",
            "metainfo.md:3: this table is in a block of code",
        ),
        (
            "## 输入\n```markdown\n| 字段 | 类型 |\n|---|---|\n| a | 整数 |\n```\n",
            "metainfo.md:3: this table is in a block of code",
        ),
        ("## Inputs\n\nThese:\n\n    - a: int\n    - b (string)\n", "metainfo.md:5: this list is in a block"),
        ('## Contract\n```json\n{"inputs": {"a": "int",,}}\n```\n', "metainfo.md:3: not YAML: "),
        ("## Contract\n\n    inputs:\n      a: int\n     b: int\n", "metainfo.md:5: not YAML: "),
        (
            '## Data\n```json\n{"properties": {"a": {"type": "int"}}}\n```\n',
            "metainfo.md:3: this looks like fields of a contract",
        ),
        (
            "## Data\n\n    | field | type |\n    |---|---|\n    | a | int |\n",
            "metainfo.md:3: this looks like fields of a contract",
        ),
        (
            "## Inputs and outputs\n```yaml\na: int\n```\n",
            "metainfo.md:3: the heading 'Inputs and outputs' names",
        ),
    ],
)
def test_fields_in_code_that_cannot_be_read_are_refused(text: str, message: str, tmp_path: Path) -> None:
    assert message in messages_of(text, tmp_path)[0]


@pytest.mark.parametrize(
    ("block", "types"),
    [
        ('{"score": "int 1-5", "reason": "string"}', {"score": "int", "reason": "string"}),
        ("score: 0-10的整数", {"score": "int"}),
        ('{"words": [{"word": "string"}]}', {"words": "array"}),
        ('{"user": {"name": "string"}, "tags": ["string"]}', {"user": "object", "tags": "array"}),
        ('{"item": {"type": "string", "name": "string"}}', {"item": "object"}),
        ('{"item": {"type": "string", "description": "a name"}}', {"item": "string"}),
        ('{"level": "high|low", "n": 0, "ok": true}', {"level": "string", "n": "float", "ok": "bool"}),
        ('{"outputs": {"score": "int", "ok": "true|false"}}', {"score": "int", "ok": "bool"}),
        ("score: int\nreason: why it is so", {"score": "int", "reason": "any"}),
    ],
)
def test_a_block_of_types_may_have_ranges_parts_and_placeholders(
    block: str, types: dict[str, str], tmp_path: Path
) -> None:
    contract = contract_of(f"## Outputs\n\n```\n{block}\n```\n", tmp_path)
    assert contract is not None
    assert {name: field.type for name, field in contract.outputs.items()} == types


def warnings_of(text: str, folder: Path) -> list[str]:
    (folder / "metainfo.md").write_text(text, encoding="utf-8")
    warnings = read_metainfo(folder / "metainfo.md").warnings
    assert all(warning.level == "warning" for warning in warnings)
    return [str(warning).removeprefix(f"{folder}/") for warning in warnings]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ("| field | type |\n|---|---|\n| a | per contract |\n", 5),
        ("- a (word, required): the text\n", 3),
        ("```yaml\na: {type: word}\n```\n", 4),
        ('```json\n{"b": "int",\n"a": "the text"}\n```\n', 5),
        ('```json\n{"properties": {\n"a": {"type": "word"}}}\n```\n', 5),
    ],
)
@pytest.mark.parametrize("title", ["Inputs", "输出"])
def test_a_field_whose_type_is_not_understood_has_any_type(title: str, fields: str, line: int, tmp_path: Path) -> None:
    (warning,) = warnings_of(f"## {title}\n\n{fields}", tmp_path)
    assert warning.startswith(f"metainfo.md:{line}: a: there is no type named ")
    contract = find_contract(tmp_path)
    assert contract is not None
    assert contract.inputs.get("a") == "any" or contract.outputs["a"].type == "any"


@pytest.mark.parametrize(
    ("section", "warning"),
    [
        (
            "Returns the score.\n",
            "metainfo.md:3: no outputs are read from 'Outputs': it has no table",
        ),
        (
            '```json\n{"a": 1}\n```\n',
            "no outputs are read from 'Outputs': its block of code on line 5 has values",
        ),
        ('```json\n[{"a": "int"}]\n```\n', "its block of code on line 5 is no mapping of names to types"),
        ('```json\n{"type": "array", "items": {"type": "int"}}\n```\n', "line 5 is the schema of a list"),
        ("```python\nclass Output:\n    a: int\n```\n", "its block of code on line 5 is python"),
        ("- a: int\n\n```yaml\nb: int\n```\n", "metainfo.md:7: the field 'b' is not read"),
        ("```yaml\na: int\n```\n```yaml\nb: int\n```\n", "metainfo.md:8: the field 'b' is not read"),
        ("| field |\n|---|\n| a |\n\n- a: int\n- b: int\n", "metainfo.md:9: the field 'b' is not"),
    ],
)
def test_fields_that_are_not_read_are_named_with_their_line(section: str, warning: str, tmp_path: Path) -> None:
    warnings = warnings_of(f"## Inputs\n- a: int\n## Outputs\n{section}", tmp_path)
    assert len(warnings) == 1
    assert warning in warnings[0]


def test_prose_beside_the_fields_is_no_reason_for_a_warning(tmp_path: Path) -> None:
    text = '## Outputs\nA mapping.\n### Fields\n- a: int\n- b.c: int\n```json\n{"a": "int", "b": {"c": "int"}}\n```\n'
    assert warnings_of(text, tmp_path) == []
    assert read_metainfo(tmp_path / "metainfo.md").skipped == ("'Outputs' on line 1: it has no table, list or block",)


@pytest.mark.parametrize(
    ("rows", "inputs"),
    [
        ("| user.name | string | yes |\n", {"user": "object"}),
        ("| user.name | string | no |\n| user.age | int | yes |\n", {"user": "object"}),
        ("| user.name | string | no |\n", {"user": "object?"}),
        ("| items[].kind | string | yes |\n| tags[] | string | no |\n", {"items": "array", "tags": "array?"}),
        ("| user.name | string | yes |\n| user | any | no |\n", {"user": "any?"}),
        ("| user | any | no |\n| user.name | string | yes |\n", {"user": "any?"}),
    ],
)
def test_a_part_without_a_row_of_its_field_implies_the_field(rows: str, inputs: dict[str, str], tmp_path: Path) -> None:
    contract = contract_of(HEAD + rows, tmp_path)
    assert contract is not None
    assert {name: type_ + "?" * (name in contract.optional) for name, type_ in contract.inputs.items()} == inputs
    contract = contract_of((HEAD + rows).replace("Inputs", "Outputs"), tmp_path)
    assert contract is not None
    assert {name: field.type for name, field in contract.outputs.items()} == {
        name: type_.rstrip("?") for name, type_ in inputs.items()
    }


@pytest.mark.parametrize("item", ["user.name: string", "`user.name` (string)", "user.name (string): x"])
def test_items_of_a_list_imply_their_field_too(item: str, tmp_path: Path) -> None:
    contract = contract_of(f"## Inputs\n- {item}\n- tags[]: string\n- items[].kind (string)\n", tmp_path)
    assert contract is not None
    assert contract.inputs == {"user": "object", "tags": "array", "items": "array"}


HEAD = "## Inputs\n\n| field | type | required |\n|---|---|---|\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{HEAD}| a | strng | yes |\n",
            "metainfo.md:5: a: there is no type named 'strng'; did you mean 'string'?",
        ),
        (
            f"{HEAD}| a | string | perhaps |\n",
            "metainfo.md:5: a: expected yes or no (是 or 否) in the column",
        ),
        (f"{HEAD}| a | string | x |\n", "metainfo.md:5: a: expected yes or no"),
        (f"{HEAD}| a b | string | yes |\n", "metainfo.md:5: expected the name of a field, found 'a b'"),
        (f"{HEAD}| └ a | string | yes |\n", "metainfo.md:5: expected the name of a field, found '└ a'"),
        (f"{HEAD}| <input_fields> | string | yes |\n", "metainfo.md:5: expected the name of a field"),
        (
            f"{HEAD}| a | int | yes |\n| a | int | no |\n",
            "metainfo.md:6: the field 'a' is listed twice, first on line 5",
        ),
        (
            f"{HEAD}| a | int | yes | more |\n",
            "metainfo.md:5: the row has 4 cells, and the table has 3 columns",
        ),
        (
            f"<!--\n| old |\n-->\n{HEAD}| a | strng | yes |\n",
            "metainfo.md:8: a: there is no type named 'strng'",
        ),
        (
            '## Inputs\n```json\n{"properties": {\n"a": {"type": "strng"},\n"b": {"type": "string"}}}\n```\n',
            "metainfo.md:4: a: there is no type named 'strng'",
        ),
        (
            '## Inputs\n```json\n{"properties": {\n"a": {"type": ["string", 3]}}}\n```\n',
            "metainfo.md:4: a: there is no type named",
        ),
        (
            "## Version 2\n```yaml\ninputs: {a: int}\n```\n",
            "metainfo.md:3: this looks like fields of a contract",
        ),
        (
            f"## Inputs\n- a: int, {'x' * 2_000}\n",
            "metainfo.md:2: the line has 2,010 characters, more than 2,000",
        ),
        ("## Inputs\n<!-- old\n- a: int\n", "metainfo.md:2: the comment that starts here has no closing -->"),
        ("## Inputs\n\n| a | int |\n", "metainfo.md:3: a table needs a header"),
        (
            "## Inputs\n<table>\n<tr><th>field</th></tr>\n<tr><td colspan=2>a</td></tr></table>\n",
            "metainfo.md:4: a cell that spans several cannot be read",
        ),
        ("## Inputs\n<table>\n<tr><th>field</th></tr>\n", "metainfo.md:2: the table that starts here has no"),
        (
            "## Inputs\n<table>\n<tr><th>field</th></tr>\n<tr><td>a</td><td>int</td></tr></table>\n",
            "metainfo.md:4: the row has 2 cells, and the table has 1 columns",
        ),
        (
            "## Inputs\n\n| what | type |\n|---|---|\n| a | int |\n",
            "metainfo.md:3: the table has no column with the names",
        ),
        (
            "## Inputs\n\n| field | type | reqired |\n|---|---|---|\n| a | int | yes |\n",
            "metainfo.md:3: there is no column 'reqired'; did you mean 'required'?",
        ),
        (
            "## Inptus\n\n| field | type |\n|---|---|\n| a | int |\n",
            "metainfo.md:1: the heading 'Inptus' is unknown; did you mean",
        ),
        (
            "## Daten\n\n| field | type |\n|---|---|\n| a | int |\n",
            "metainfo.md:3: this looks like fields of a contract",
        ),
        (
            "## Inputs and outputs\n\n| field | type |\n|---|---|\n| a | int |\n",
            "names inputs and outputs; give each table",
        ),
        (
            "## 输入\n\n- the text that is checked\n",
            "metainfo.md:3: expected a field such as `claim (string, required)",
        ),
        ("## 输入\n\n- text (strng): x\n", "metainfo.md:3: text: there is no type named 'strng'"),
        (
            "## Outputs\n\n| field | type | bands |\n|---|---|---|\n| a | int | good |\n",
            "metainfo.md:5: a: expected bands",
        ),
        (
            "## Outputs\n\n| field | type | tolerance |\n|---|---|---|\n| a | bool | 0.1 |\n",
            "metainfo.md:5: outputs.a.tolerance",
        ),
    ],
)
def test_a_line_that_cannot_be_understood_is_refused(text: str, message: str, tmp_path: Path) -> None:
    messages = messages_of(text, tmp_path)
    assert message in messages[0]


def test_all_lines_that_cannot_be_understood_are_named_at_once(tmp_path: Path) -> None:
    messages = messages_of(f"{HEAD}| a | strng | yes |\n| b | int | ? |\n", tmp_path)
    assert [message.partition(": ")[0] for message in messages] == ["metainfo.md:5", "metainfo.md:6"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", TypeText("any")),
        ("`string`", TypeText("string")),
        ("String", TypeText("string")),
        ("str?", TypeText("string", optional=True)),
        ("Optional[int]", TypeText("int", optional=True)),
        ("string | null", TypeText("string", optional=True)),
        ("int | float", TypeText("float")),
        ("string or array", TypeText("any")),
        ("Dict[str, Any]", TypeText("object", note="str, Any")),
        ("string[]", TypeText("array", note="string[]")),
        ("array of string", TypeText("array", note="of string")),
        ('"High" | "Low"', TypeText("string", choices=("High", "Low"))),
        ('Literal["a", "b"]', TypeText("string", choices=("a", "b"))),
        ("enum: a | b", TypeText("string", choices=("a", "b"))),
        ("int (1, 2, 3)", TypeText("int", choices=(1, 2, 3))),
        ("float (0-1)", TypeText("float", note="0-1")),
        ("列表", TypeText("array")),
        ("字符串数组", TypeText("array", note="字符串数组")),
        ("字符串，可选", TypeText("string", optional=True)),
        ("int 1-5", TypeText("int", note="1-5")),
        ("整数1到5", TypeText("int", note="1到5")),
        ("0-10的整数", TypeText("int", note="0-10的整数")),
        ("0.0-1.0 number", TypeText("float", note="0.0-1.0 number")),
        ("integer between 1 and 5", TypeText("int", note="between 1 and 5")),
        ("string of length 3", TypeText("string", note="of length 3")),
        ("int 1/2/3", TypeText("int", choices=(1, 2, 3))),
        ("string high/low", TypeText("string", choices=("high", "low"))),
        ("string the text, may be empty", TypeText("string", note="the text, may be empty")),
        ("string（必填）", TypeText("string")),
        ("string (not required)", TypeText("string", optional=True)),
        ("string（条件必填）", TypeText("string", optional=True)),
        ("枚举，可选值：高/低", TypeText("string", choices=("高", "低"))),
        ("a non-empty string", TypeText("string", note="a non-empty string")),
        ("date string (YYYY-MM-DD)", TypeText("string", note="date string (YYYY-MM-DD)")),
        ("<string>", TypeText("string")),
        ('[{"word": "string"}]', TypeText("array", note='[{"word": "string"}]')),
        ('{"name": "string"}', TypeText("object", note='{"name": "string"}')),
        ("high|low", TypeText("string", choices=("high", "low"))),
        ("true | false", TypeText("bool")),
        ("1|2|3", TypeText("int", choices=(1, 2, 3))),
        ("strng|int", None),
        ("the phone number", None),
        ("comma-separated list", None),
        ("text to check", None),
        ("number of items", None),
        ("stirng", None),
    ],
)
def test_types_as_people_write_them(text: str, expected: TypeText | None) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize("title", ["### Response", "### 响应", "### 返回值", "**Response body**"])
def test_a_response_below_the_inputs_is_the_output(title: str, tmp_path: Path) -> None:
    fields = "| field | type |\n|---|---|\n"
    contract = contract_of(f"## Inputs\n\n{fields}| a | int |\n\n{title}\n\n{fields}| b | bool |\n", tmp_path)
    assert contract is not None
    assert (list(contract.inputs), list(contract.outputs)) == (["a"], ["b"])


def test_fields_may_have_the_names_of_headings_and_notes(tmp_path: Path) -> None:
    contract = contract_of(
        "## Outputs\n\n- **response**\n  - type: string\n- **usage**\n  - type: int\n- note (string)\n- note_2: x\n",
        tmp_path,
    )
    assert contract is not None
    assert list(contract.outputs) == ["response", "usage", "note", "note_2"]


OPTIONAL_ITEMS = """
- **topic** (`string`, *optional*) the topic
* **topic** — `string`, optional: the topic
- topic (string, **optional**): the topic
- topic (string, _optional_): the topic
- __topic__ (string, __optional__): the topic
- topic: *string*, *optional*. the topic
- topic [string, optional]: the topic
- topic — string (optional) — the topic
- topic: string (optional) the topic
- topic: string — optional — the topic
- **topic** *(optional)*: string, the topic
- **topic** *(string)* *(optional)*: the topic
- topic (optional): string, the topic
- **topic (string, optional)**: the topic
- *(optional)* **topic** (string): the topic
- topic (string, not required): the topic
- topic (string): *optional*. the topic
- topic (string): the topic (optional)
- **topic**（字符串，可选）：the topic
- topic 【字符串，可选】the topic
- `topic`：字符串，非必填。the topic
- topic: string (可选) the topic
- topic（字符串）：可选，the topic
- topic（字符串）：the topic（可选）
- topic? (string): the topic
- topic (Optional[str]): the topic
- topic⏎  - type: string⏎  - required: no⏎  - description: the topic
- **topic**⏎  - 类型：字符串⏎  - 必填：否⏎  - 说明：the topic
- topic (string): the topic⏎  - optional
- fields:⏎  - topic (string, optional): the topic
"""
DEFAULT_ITEMS = """
- topic: str = x
- topic: str = `x`
- topic (str = x)
- topic: string, default: x
- topic (string, default: x)
- topic (string, default `x`)
- topic (string): Default: x.
- topic（字符串，默认值：x）
- topic（字符串，默认为 x）
- topic（字符串）：默认 x
- topic (string)⏎  - default: x
"""


def one_input(item: str, folder: Path) -> tuple[str, str, bool, str]:
    """Return name, type, whether it is required, and description of the only input. `⏎` is the end of a line."""
    contract = contract_of(f"## Inputs\n\n{item.replace('⏎', chr(10))}\n", folder)
    assert contract is not None
    ((name, type_),) = contract.inputs.items()
    form = contract.forms.get(name, InputForm())
    return name, type_, name not in contract.optional, form.description


@pytest.mark.parametrize("item", OPTIONAL_ITEMS.strip().splitlines())
def test_marks_around_optional_do_not_hide_it(item: str, tmp_path: Path) -> None:
    assert one_input(item, tmp_path) == ("topic", "string", False, "the topic")


@pytest.mark.parametrize("item", DEFAULT_ITEMS.strip().splitlines())
def test_a_field_with_a_default_is_optional(item: str, tmp_path: Path) -> None:
    assert one_input(item, tmp_path) == ("topic", "string", False, "default: x")


@pytest.mark.parametrize("quoted", ['"en, de"', "'en, de'", "“en，de”", "`en, de`", '"en) or (de"'])
def test_a_quoted_default_is_one_value(quoted: str, tmp_path: Path) -> None:
    value = quoted.strip("`")
    expected = ("topic", "string", False, f"x; default: {value}")
    assert one_input(f"- topic (string, default: {quoted}): x", tmp_path) == expected


@pytest.mark.parametrize(
    ("item", "description"),
    [
        ("- topic (string): optional parts are listed", "optional parts are listed"),
        ("- topic* (string, required): the topic", "the topic"),
        ("- topic (string): the topic⏎  - one of a, b⏎  - not empty", "the topic"),
        ("- topic (string): the user_name, not y", "the user_name, not y"),
        ("- topic (string): no", "no"),
        ("- topic (string): the user's, not y's", "the user's, not y's"),
    ],
)
def test_other_words_do_not_make_a_field_optional(item: str, description: str, tmp_path: Path) -> None:
    assert one_input(item, tmp_path) == ("topic", "string", True, description)


@pytest.mark.parametrize(
    "item",
    [
        "- topic, string, optional: the topic",
        "- topic | string | optional",
        "- string topic: the topic",
        "- topic (string, optinal): the topic",
        "- topic (strng, optional): the topic",
        "- topic (string)⏎  - required: perhaps",
    ],
)
def test_an_item_that_cannot_be_understood_is_refused_with_its_line(item: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"metainfo\.md:3: "):
        one_input(item, tmp_path)

"""Prompt Lab's folders: agents with flows, and its names of step types."""

from __future__ import annotations

import pytest

import assay
from assay.core.errors import InputError
from assay.suites.pipeline.pipeline_file import as_jinja

from support.pipeline_project import PipelineProject, case
from support.task_project import as_yaml


def flow(lab: PipelineProject, name: str, **values: object) -> None:
    """One version of the clerk's prompt."""
    lab.write(f"agents/clerk/prompts/{name}.yaml", as_yaml({"name": name, **values}))


def uses(name: str = "v1", **more: object) -> dict[str, object]:
    """A step as Prompt Lab writes it."""
    return {
        "id": "ask",
        "type": "agent_flow",
        "agent": "clerk",
        "flow": name,
        "output_key": "message",
        **more,
    }


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Say {text} to {who}", "Say {{ text }} to {{ who }}"),
        ("{{text}} and {{ who }}", "{{ text }} and {{ who }}"),
        ('{{"a": "{x}"}}', "{{ '{' }}\"a\": \"{{ x }}\"{{ '}' }}"),
        ('{"a": 1} {not a name}', '{"a": 1} {not a name}'),
        ("{% if who %}{who}{% endif %} {{ text }}", "{% if who %}{{ who }}{% endif %} {{ text }}"),
        ("{a}{{", "{{ a }}{{ '{' }}"),
        ("", ""),
    ],
)
def test_templates_of_flows_become_jinja(theirs: str, ours: str) -> None:
    """`{name}` is a value; doubled braces are braces, unless they contain just a name."""
    assert as_jinja(theirs) == ours


def test_a_flow_fills_in_keys_that_the_step_lacks(lab: PipelineProject) -> None:
    """Template, system, defaults and parser; `agents` is in a folder above the pipeline."""
    values = {"text": "none", "mark": "!"}
    flow(
        lab,
        "v1",
        system_prompt="Be {mark}",
        user_template="say [{text}, 2]{{}}",
        defaults=values,
        output_parser="json",
    )
    lab.pipeline(uses(), name="pipelines/p.yaml")
    ran = lab.run(pipeline="pipelines/p.yaml", testset=["tests.jsonl"])
    (call,) = ran.calls()
    assert call["request"]["messages"] == [
        {"role": "system", "content": "Be !"},
        {"role": "user", "content": "say [hello, 2]{}"},
    ]
    assert ran.output("ask") == {}


def test_a_flow_may_contain_jinja_conditions(lab: PipelineProject) -> None:
    """Together with `{name}`."""
    template = "say {% if level > 1 %}high {level}{% else %}low{% endif %} {{ text }}"
    flow(lab, "v1", user_template=template, defaults={"level": 1})
    lab.pipeline(uses())
    lab.tests(case("a"), case("b", inputs={"text": "x", "level": 3}))
    assert [row["outputs"]["message"] for row in lab.run().rows] == ["low hello", "high 3 x"]


def test_agent_yaml_may_name_the_file_of_a_flow(lab: PipelineProject) -> None:
    """`flows: [{name, file}]`."""
    lab.write("agents/clerk/agent.yaml", as_yaml({"id": "clerk", "flows": [{"name": "v1", "file": "first.yaml"}]}))
    flow(lab, "first", user_template="say first")
    flow(lab, "v2", user_template="say second")
    for name, message in (("v1", "first"), ("v2", "second")):
        lab.pipeline(uses(name))
        assert lab.run().output("ask") == message


def test_a_variant_takes_another_flow_or_model(lab: PipelineProject) -> None:
    """The flow replaces the step's own prompt; the `baseline` block is the baseline."""
    for name in ("v1", "v2", "v3"):
        flow(lab, name, user_template=f"say {name} {{text}}")
    variants = {
        "other": {"overrides": {"ask": {"flow": "v2"}}},
        "third": {"overrides": {"ask": {"flow": "v3"}}},
    }
    lab.pipeline(uses(), baseline={"name": "b", "steps": {"ask": {"flow": "v3"}}}, variants=variants)
    ran = lab.run(variant=["all"])
    assert [(row["variant"], row["outputs"]["message"]) for row in ran.rows] == [
        ("baseline", "v3 hello"),
        ("other", "v2 hello"),
        ("third", "v3 hello"),
    ]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            uses(agent="nobody"),
            "there is no folder agents/nobody in this file's folder or the folders above it",
        ),
        (uses("v9"), "v9.yaml"),
        (uses("../../secret"), "is not a valid name of an agent or flow"),
        (uses(agent=".."), "is not a valid name of an agent or flow"),
        ({**uses(), "agent": None}, "add `agent: NAME`"),
        (uses("empty"), "prompts/empty.yaml:1: a flow needs a user_template"),
    ],
)
def test_a_missing_flow_is_reported_with_its_place(lab: PipelineProject, step: dict[str, object], why: str) -> None:
    """The line of the pipeline, and the file that was looked for."""
    flow(lab, "empty", description="nothing")
    lab.pipeline(step)
    with pytest.raises(InputError, match=r"p\.yaml:\d+: steps\.0\.flow") as refused:
        assay.run(lab.spec())
    assert why in str(refused.value)


def test_prompt_labs_names_of_steps_and_settings_are_read(lab: PipelineProject) -> None:
    """agent_flow, code_node with code_config, batch_aggregator with aggregation_code, model_override."""
    flow(lab, "v1", user_template="say {n}")
    code = {
        "language": "python",
        "code": "def transform(inputs):\n    return inputs['message']\n",
        "timeout": 5,
    }
    lab.pipeline(
        uses(batch_mode=True, model_override="some-model", concurrent_group="g", description="d"),
        {"id": "code", "type": "code_node", "code_config": code, "output_key": "copied"},
        {
            "id": "all",
            "type": "batch_aggregator",
            "aggregation_strategy": "custom",
            "aggregation_code": "def aggregate(items):\n    return {'count': len(items)}\n",
            "input_mapping": {"items": "copied"},
            "output_key": "counted",
        },
        outputs=[{"key": "counted", "label": "How many"}],
    )
    lab.tests(case(batch_items=[{"n": 1}, {"n": 2}], expected_aggregation={"count": 2}))
    ran = lab.run()
    assert ran.row["result"] == "passed"
    assert ran.row["outputs"] == {"counted": {"count": 2}}

"""The documentation is true: shown commands exist, examples run as shown, and every option is documented."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import click
import pytest

from assay.cli.main import COMMANDS, cli
from assay.core import registry
from assay.core.errors import Problem
from assay.core.memory import AboutMemory, MemoryContext
from assay.core.spec import RunSpec, fields
from assay.scoring.expectations import PREFIXES, rule_problems
from assay.scoring.filters import find_filter
from assay.suites import find_suite, suite_names
from assay.suites.hop import contract, field_types, rows, settings
from assay.suites.hop.result import STATUSES
from assay.suites.hop.session import TOOL_VERIFIERS, Session
from assay.suites.hop.verifiers import VERIFIERS
from assay.suites.pipeline import pipeline_file, scorer, step_keys, tally
from assay.suites.pipeline.code import worker
from assay.suites.pipeline.steps import aggregate_step, prompt_step
from assay.suites.pipeline.testset import validation
from assay.usercode.plugins import find_memory

from conftest import Assay
from support.memories import around, find, said, tell
from support.suite_files import problems_in

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def commands() -> list[str]:
    """Return every line of a code block that starts with `assay`."""
    lines = []
    for page in PAGES:
        for block in re.findall(r"```(?:\w*)\n(.*?)```", page.read_text(), re.DOTALL):
            lines += [line.split("#")[0].strip() for line in block.splitlines() if line.startswith("assay ")]
    return lines


@pytest.mark.parametrize("line", commands())
def test_shown_commands_can_be_typed(line: str) -> None:
    """The command line takes every command and flag that a page shows."""
    words = shlex.split(line)[1:]
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    settings = command.context_settings
    command.make_context(words[0], words[1:], resilient_parsing=False, **settings)


def test_there_are_commands_to_check() -> None:
    """Guards the test above: a changed layout of the pages must not leave it without commands."""
    assert len(commands()) >= 8


@pytest.mark.parametrize(
    ("kind", "page"), [("model", "models"), ("metric", "tasks"), ("filter", "tasks"), ("memory", "memories")]
)
def test_every_plugin_is_named(kind: str, page: str) -> None:
    """The page lists every built-in provider, metric, filter or memory."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for name in registry.names(kind):
        assert f"`{name}`" in text, name


def test_every_link_leads_somewhere() -> None:
    """Links between pages point to files that exist."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} → {target}"


def test_the_page_of_the_command_line_lists_every_extra_that_users_install() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = {name for name in project["optional-dependencies"] if name.startswith("test-")}
    ours |= {"browser", "dev", "oracle"}  # those that targets of the Makefile install
    page = (ROOT / "docs" / "cli.md").read_text()
    listed = re.findall(r"^\| `([\w-]+)` \|", page.split("## Install")[1].split("## ")[0], re.MULTILINE)
    assert sorted(listed) == sorted(set(project["optional-dependencies"]) - ours)


def test_every_command_and_option_is_explained() -> None:
    """Every command has a help text, and `assay task` has all common options with one."""
    task = cli.get_command(click.Context(cli), "task")
    assert task is not None
    flags = {name for parameter in task.params for name in parameter.opts}
    for field in fields(RunSpec):
        if field.extra.get("cli", True):
            assert f"--{field.name.replace('_', '-')}" in flags
            assert field.help
    assert all(COMMANDS.values())


def test_every_example_is_sound() -> None:
    """Files in examples/ pass `assay check`."""
    files = sorted((ROOT / "examples").rglob("*.yaml"))
    assert files
    for path in files:
        if path.name in settings.NAMES:
            assert settings.load_settings(path).profiles
            continue
        assert not [problem for problem in problems_in(path) if problem.level == "error"], path


PIPELINES = (ROOT / "docs" / "pipelines.md").read_text()
HOP = (ROOT / "docs" / "hop.md").read_text()
MEMORIES = (ROOT / "docs" / "memories.md").read_text()


def in_code(text: str) -> set[str]:
    """Return every word that a page marks as code."""
    return {word for span in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[\w-]+", span)}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(names, id=name)
        for name, names in {
            "keys of a file": pipeline_file.KEYS,
            "changes of a variant": pipeline_file.OVERRIDES,
            "types of steps": pipeline_file.TYPES,
            "keys of a step": step_keys.STEP_KEYS,
            "settings of aggregates": aggregate_step.SETTINGS,
            "strategies": (*aggregate_step.STRATEGIES, *aggregate_step.SUMMARY_FIELDS),
            "parsers": prompt_step.PARSERS,
            "entries of code": worker.ENTRIES,
            "fields of a test": (*validation.FIELDS, *validation.BESIDE),
            "verdicts": (*scorer.VERDICTS, tally.NO_ANSWER),
        }.items()
    ],
)
def test_everything_of_pipelines_is_named(names: Iterable[str]) -> None:
    """The page names every key and value that the code reads."""
    assert not set(names) - in_code(PIPELINES)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(names, id=name)
        for name, names in {
            "keys of a contract": contract.CONTRACT_KEYS,
            "keys of an output": (*contract.OUTPUT_KEYS, *contract.OUTPUT_ALIASES),
            "types": field_types.TYPES,
            "aggregates": contract.AGGREGATES,
            "comparisons": contract.COMPARISONS,
            "keys of settings": (*settings.HopSettings.__struct_fields__[:3], *settings.LLM_KEYS),
            "keys of a profile": settings.Profile.__struct_fields__[1:],
            "difficulties": rows.DIFFICULTIES,
            "statuses": STATUSES,
            "operators": [name for name in vars(Session) if name.startswith("hop_")],
            "verifiers": (*VERIFIERS, *TOOL_VERIFIERS),
        }.items()
    ],
)
def test_everything_of_hop_is_named(names: Iterable[str]) -> None:
    """The page names every key and value that the code reads, and every operator."""
    assert names
    assert not set(names) - in_code(HOP)


@pytest.mark.parametrize(("name", "page"), [("pipeline", PIPELINES), ("hop", HOP)])
def test_every_flag_of_a_suite_is_named(name: str, page: str) -> None:
    """The page lists exactly the flags of the command."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    flags = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    table = page.partition("## Options")[2].partition("\n## ")[0]
    shown = {flag for line in re.findall(r"^\| (`--.*?) \|", table, re.MULTILINE) for flag in flags_in(line)}
    assert shown == flags


@pytest.mark.parametrize("name", registry.names("memory"))
def test_the_page_lists_the_options_and_defaults_of_a_memory(name: str) -> None:
    """Its row lists exactly its options, and the defaults that the row states are right."""
    (row,) = re.findall(rf"^\| `{name}` \|.*\| (.*) \|$", MEMORIES, re.MULTILINE)
    documented = dict(re.findall(r"`(\w+)`(?: ([\w.]+))?", row))
    options = find_memory(name).about.options
    assert set(documented) == set(options)
    assert all(value in ("", str(options[key]).lower()) for key, value in documented.items())


def test_the_memory_of_the_page_works(tmp_path: Path) -> None:
    """It runs with and without its option, and the page names every field of the context and of ABOUT."""
    files, _ = example("One of your own", MEMORIES)
    (tmp_path / "first_words.py").write_text(files["first_words.py"])
    about, make, _ = find_memory(f"{tmp_path / 'first_words.py'}:make")
    assert set(MemoryContext.__struct_fields__) | set(AboutMemory.__struct_fields__[1:]) <= in_code(MEMORIES)

    async def search(*, case: bool) -> list[str]:
        memory = make(around(case=case))
        await tell(memory, [[said("D1:1", "Boats are fine"), said("D1:2", "I like boats")]])
        return [each.item.id for each in await find(memory, "boats sail")]

    assert about.options == {"case": False}
    assert (asyncio.run(search(case=False)), asyncio.run(search(case=True))) == (["D1:1"], [])


def flags_in(text: str) -> list[str]:
    """Return the flags of a text, such as `--a` and `--b-c`."""
    return re.findall(r"--[a-z-]+", text)


def test_every_prefix_of_expectations_is_shown() -> None:
    """Each prefix is shown with a value."""
    for prefix in PREFIXES:
        assert f"`{prefix}:" in PIPELINES, prefix


def test_every_kind_of_rule_is_named() -> None:
    """The error message for an unknown kind lists all kinds."""
    ((_, message),) = rule_problems([{"kind": "?"}])
    assert set(message.partition("known: ")[2].split(", ")) <= in_code(PIPELINES)


def test_every_setting_of_a_test_is_named() -> None:
    """The warning about an unknown setting lists all settings."""
    problems: list[Problem] = []
    record = {"id": "a", "evaluation_config": {"?": 1}}
    validation.check_record(record, frozenset(), validation.MemoryRecord(), problems)
    assert set(problems[0].message.partition("the settings are ")[2].split(", ")) <= in_code(PIPELINES)


def example(heading: str, page: str = PIPELINES) -> tuple[dict[str, str], list[str]]:
    """Return the files that a section shows, by name, and its other code blocks."""
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:`([\w.]+)`[^\n`]*:\n\n)?```\w*\n(.*?)```", section, re.DOTALL)
    return {name: text for name, text in blocks if name}, [text for name, text in blocks if not name]


def steady(text: str) -> str:
    """Return an output without the parts that differ from run to run: seconds and the name of the run."""
    text = re.sub(r"\b\d\.\d{3,4}(?=  +(\d\.\d{3,4}|\d+  ))", "T", text)
    return re.sub(r"\d+\.\d s$|(?<=assay/)\S+", "", text, flags=re.MULTILINE)


def test_the_smallest_example_runs_as_shown(tmp_path: Path, assay_in: Assay) -> None:
    """The command prints the shown output, and the page explains every key of a record."""
    files, (command, output) = example("The smallest example")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    result = assay_in(*shlex.split(command)[1:], cwd=tmp_path)
    assert steady(result.stdout) == steady(output)
    assert f"The exit code is {result.returncode}" in PIPELINES
    record = json.loads((tmp_path / "results" / "greet" / "results.jsonl").read_text().splitlines()[1])
    keys = {*record, *record["steps"]["greeting"], *record["checks"][0], *record["first_wrong"]}
    assert not keys - in_code(PIPELINES)


def untimed(text: str) -> str:
    """Return an output without the parts that differ from run to run: seconds, and names with a time in them."""
    text = re.sub(r" +\d+\.\d{3,4}  +\d+\.\d{3,4}$", " T", text, flags=re.MULTILINE)
    text = re.sub(r" +p50 s +p95 s$|  ─+  ─+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\d+\.\d s$|(?<=assay/)\S+|\d{8}_\d{6}", "", text, flags=re.MULTILINE)


def test_the_smallest_batch_runs_as_shown(tmp_path: Path, assay_in: Assay) -> None:
    """The command prints the shown output, and the Python code prints its comments."""
    files, (command, output) = example("The smallest example", HOP)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    result = assay_in(*shlex.split(command)[1:], cwd=tmp_path)
    assert untimed(result.stdout) == untimed(output)
    assert f"The exit code is {result.returncode}" in HOP
    _, blocks = example("From Python", HOP)
    assert len(blocks) == 3
    for block in blocks:
        command_line = [sys.executable, "-c", block]
        printed = subprocess.run(command_line, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert printed.splitlines() == re.findall(r"(?:^|  )# (.*)", block, re.MULTILINE)


def test_the_settings_and_the_contract_of_the_page_are_sound(tmp_path: Path) -> None:
    """Both can be loaded, and have the values that the page explains."""
    for heading, name in (("Settings", "settings.yaml"), ("Contract", "contract.yaml")):
        _, blocks = example(heading, HOP)
        (tmp_path / name).write_text(blocks[0])
    project = settings.load_settings(tmp_path / "settings.yaml")
    assert not project.notices
    assert project.llms["small"].params == {"max_tokens": 512, "temperature": 0}
    assert project.llms["x-y.z"].key_variable == "HOP_KEY_X_Y_Z"
    declared = contract.find_contract(tmp_path)
    assert declared is not None
    assert {field.compare for field in declared.outputs.values()} == {"equal", "tolerance", "bands"}
    assert declared.optional == {"hint"}


AGREEABLE = """\
async def answer(prompt, params):
    system, asked = (message["content"] for message in prompt)
    if "verdict" in system or "agrees" in system:
        return '{"verdict": "OK", "agrees": true, "reason": "so it is"}'
    return '{"result": {"year": 1998}}' if "opened?" in asked else '{"result": "True"}'
"""


def test_the_function_that_the_page_shows_runs(tmp_path: Path, assay_in: Assay) -> None:
    """Both operators and their verifiers run with a model that agrees with everything."""
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", HOP, re.DOTALL) if "session.hop_get" in block]
    (tmp_path / "check.py").write_text(block)
    (tmp_path / "agreeable.py").write_text(AGREEABLE)
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "context": "It opened in 1998.", "claim": "In 1998."}\n')
    flags = ["--model", "python/agreeable.py:answer", "--output-dir", "out"]
    result = assay_in("hop", "check.py:hop_check", "rows.jsonl", *flags, cwd=tmp_path)
    (path,) = (tmp_path / "out").glob("rows_*.jsonl")
    row = json.loads(path.read_text().splitlines()[1])
    assert json.loads(row["hop_result"]) == {"year": 1998, "fits": "True"}, result.stdout
    assert [step["op"] for step in row["hop_stats"]["execution_path"]] == ["hop_get", "hop_judge"]


READMES = (ROOT / "README.md", ROOT / "README.zh.md")
# Replies of the embedded model, so that the tour takes seconds. The flags that make a command use them.
RECORDED = {
    "task": "--model script/tests/golden/readme/task.jsonl",
    "pipeline": "--model script/tests/golden/pipeline/quickstart_replies.jsonl",
    "hop": "--settings tests/golden/hop/settings.yaml",
    "memory": "--model script/tests/golden/readme/memory_eval.jsonl",
    "doctor": "--model script/tests/golden/readme/task.jsonl",
}
# The tour says so: two of its four tests do not pass.
FAILING_CHECKS = ("assay pipeline", "assay rescore")


def readme_blocks(page: Path) -> list[str]:
    """The code blocks of a page, without the comments, which are translated."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [re.sub(r" +# .*$", "", block, flags=re.MULTILINE) for block in blocks]


def timeless(text: str) -> list[str]:
    """The lines of an output, without the duration of the run."""
    return [re.sub(r" · [\d.]+ s$", "", line) for line in text.splitlines() if line]


def test_the_tour_of_both_readmes_runs_as_shown(tmp_path: Path, assay_in: Assay) -> None:
    """Both languages show the same commands, and each command prints every line that is shown of it.

    Commands of the embedded model use its recorded replies. A command that needs a server is only parsed, by
    `test_shown_commands_can_be_typed`.
    """
    blocks, translated = map(readme_blocks, READMES)
    assert blocks == translated
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
    outputs: list[list[str]] = []
    for line in "".join(blocks).splitlines():
        if not line.startswith("assay ") or "--base-url" in line:
            continue
        words = shlex.split(line)[1:]
        if words[0] == "hop":
            words += RECORDED["hop"].split()
        elif "local/smollm2" in words:
            flag = words.index("local/smollm2") - 1
            words[flag : flag + 2] = RECORDED[words[0]].split()
        result = assay_in(*words, cwd=tmp_path)
        assert result.returncode == int(line.startswith(FAILING_CHECKS)), (line, result.stdout, result.stderr)
        outputs.append(timeless(result.stdout))
    (code,) = [block for block in blocks if block.startswith("import assay")]
    (tmp_path / "airports.py").write_text(code)  # a file, because assay reads the source of functions
    result = subprocess.run([sys.executable, "airports.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    outputs.append(timeless(result.stdout))
    excerpts = [block for block in blocks if not block.startswith(("assay ", "make ", ". ", "import "))]
    assert len(excerpts) == 7
    for excerpt in excerpts:
        assert any(set(timeless(excerpt)) <= set(output) for output in outputs), excerpt


def test_the_picture_is_what_its_script_draws(tmp_path: Path) -> None:
    """The committed SVG is current."""
    script = ROOT / "docs" / "pictures" / "request.py"
    shutil.copy(script, tmp_path)
    subprocess.run([sys.executable, tmp_path / script.name], check=True)
    assert (tmp_path / "request.svg").read_bytes() == script.with_suffix(".svg").read_bytes()


@pytest.mark.parametrize(
    "page", ["docs/architecture.md", "docs/extending.md", "docs/dependencies.md", "CONTRIBUTING.md"]
)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    """Paths in code, below the repository, `src/assay` or the tests. A bare name may be a file of the user."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    paths = {word for word in re.findall(r"`([\w./-]+)`", text) if "/" in word and "path/to" not in word}
    roots = (ROOT, ROOT / "src" / "assay")
    missing = [path for path in sorted(paths) if not any((root / path).exists() for root in roots)]
    assert not missing


EXTENDING = (ROOT / "docs" / "extending.md").read_text()


def test_the_examples_of_extending_run_as_shown(
    tmp_path: Path, assay_in: Assay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files of the page in one folder, every command in order, and every line that the page shows."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in ("quiz.py", "quiz.jsonl"):
        shutil.copy(ROOT / "examples" / "suites" / name, tmp_path)
    files = re.findall(r"^`([\w.]+)`[^\n]*:\n\n```\w*\n(.*?)^```", EXTENDING, re.DOTALL | re.MULTILINE)
    assert len(files) == 15
    for name, text in files:
        (tmp_path / name).write_text(text)
    # As pip would install the provider: its module can be imported, and metadata has the page's entry point.
    metadata = tmp_path / "digits-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: digits\nVersion: 1.0\n")
    group, point = re.findall(r'"(assay\.models)"\]\n(digits = "digits")', EXTENDING)[0]
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{point.replace(chr(34), '')}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    commands = 0
    output: set[str] = set()
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", EXTENDING, re.DOTALL | re.MULTILINE):
        if language or block in dict(files).values():
            continue
        lines = block.splitlines()
        if not lines[0].startswith("assay "):
            assert set(lines) <= output, (block, output)
            continue
        for line in lines:
            result = assay_in(*shlex.split(line)[1:], cwd=tmp_path)
            assert result.returncode == 0, (line, result.stdout, result.stderr)
            output = set(result.stdout.splitlines())
            commands += 1
    assert commands == 10


def test_the_filter_of_the_document_works(tmp_path: Path) -> None:
    """The filter that the page shows without a task."""
    ((name, text),) = re.findall(r"`(city_filter.py)`:\n\n```python\n(.*?)```", EXTENDING, re.DOTALL)
    (tmp_path / name).write_text(text)
    plugin = find_filter(f"{tmp_path / name}:NamesCity")
    assert plugin.takes_doc
    assert plugin.build(column="town")(["To Oslo.", "To Bonn."], {"town": "Oslo"}) == ["To Oslo."]


def test_the_page_of_the_run_folder_lists_every_option_that_starts_no_new_run() -> None:
    """The table of marks names all options marked `score` and `how`, and no other."""
    table = (ROOT / "docs" / "run-folder.md").read_text().partition("| suite | `score` | `how` |")[2]
    rows = re.findall(r"^\| ([\w-]+) \| (.*?) \| (.*?) \|$", table.partition("\n\n")[0], re.MULTILINE)
    listed = {name: (set(flags_in(score)), set(flags_in(how))) for name, score, how in rows}
    expected = {}
    # `evaluate` is called from Python and has no flags.
    for name in ("all", *(name for name in suite_names() if name != "evaluate")):
        marked: dict[str, set[str]] = {"ask": set(), "score": set(), "how": set()}
        for field in fields(RunSpec if name == "all" else find_suite(name).Options):
            if field.extra.get("cli", True):
                marked[field.mark].add(field.flags[0])
        expected[name] = (marked["score"], marked["how"])
    assert listed == expected

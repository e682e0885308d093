"""The built wheel works in a fresh environment that has the base dependencies only, outside of the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
MODEL = "def answer(prompt, params):\n    return '12'\n"


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    """Prompts, calibrations and the projects of `assay init` are data files, which a build may forget."""
    sources = {
        str(path.relative_to(ROOT / "src"))
        for package in ("assay", "eval_framework")
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "assay/cli/projects/task/task.yaml" in sources
    assert "assay/scoring/calibrations/offline.json" in sources
    assert "assay/py.typed" in sources
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == sources


def test_a_new_project_runs_in_a_fresh_environment(fresh: Fresh, tmp_path: Path) -> None:
    """The first commands of a newcomer, in a folder that knows nothing of the source tree."""
    code = "import assay, importlib.util as u; print(assay.__file__, u.find_spec('pytest'))"
    where = subprocess.run(
        [fresh.python, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        env=fresh.variables,
    ).stdout
    assert where.split() == [str(fresh.packages / "assay" / "__init__.py"), "None"]

    assert "Commands:" in fresh.run(tmp_path, "--help")
    assert "wrote task/task.yaml" in fresh.run(tmp_path, "init", "task")
    project = tmp_path / "task"
    (project / "model.py").write_text(MODEL)
    assert "fine" in fresh.run(project, "check", "task.yaml")
    printed = fresh.run(project, "task", "task.yaml", "--model", "python/model.py:answer")
    assert "1/8" in printed
    assert "1/8" in fresh.run(project, "show", "results")
    assert list(project.glob("results/*/samples_parcels_*.jsonl"))

    assert "wrote memory/memory.py" in fresh.run(tmp_path, "init", "memory")
    words = [
        "--dataset",
        "plain",
        "--data",
        "conversations.json",
        "--memory",
        "memory.py:make,bm25",
        "--no-answer",
    ]
    assert "7/7" in fresh.run(tmp_path / "memory", "memory", "test", *words, "--output-dir", "results")


TASK = """
task: small
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""
FILES = {
    "model.py": MODEL,
    "rows.jsonl": '{"q": "How many?", "a": "12"}\n',
    "plain.yaml": TASK,
    "bleu.yaml": f"{TASK}metric_list: [{{metric: bleu}}]\n",
    "hub.yaml": TASK.replace("path: json", "path: someone/something").replace("dataset_kwargs", "metadata"),
    "talks.json": '{"id": "a", "sessions": [{"messages": [{"speaker": "Ada", "text": "Hello."}]}], '
    '"questions": [{"question": "Who?", "answer": "Ada", "evidence": ["D1:1"]}]}',
    "steps.yaml": "steps: [{id: double, type: code, code: 'def transform(inputs): return 1'}]\n",
    "js.yaml": "steps: [{id: double, type: code, language: javascript, code: 'module.exports = x => 1'}]\n",
    "plain.jsonl": '{"id": "a"}\n',
    "js.jsonl": '{"id": "a", "step_inputs": {"double": {"code": "exports.main = x => 2", "language": "javascript"}}}\n',
    "code.jsonl": '{"id": "a", "step_inputs": {"double": {"code": "def transform(inputs): return 2"}}}\n',
}
MODEL_FLAGS = ["--model", "python/model.py:answer"]
TALKS = ["memory", "test", "--dataset", "plain", "--data", "talks.json"]
NEEDS_EXTRA = {
    "local": ["task", "plain.yaml", "--model", "local/smollm2"],
    "memory": [*TALKS, "--memory", "dense", "--no-answer"],
    "mem0": [*TALKS, "--memory", "mem0", *MODEL_FLAGS],
    "bleu": ["task", "bleu.yaml", *MODEL_FLAGS],
    "hf": ["task", "hub.yaml", *MODEL_FLAGS],
    "sandbox": ["pipeline", "steps.yaml", "--testset", "code.jsonl", "--allow-code"],
    "javascript": ["pipeline", "js.yaml", "--testset", "plain.jsonl"],
}


@pytest.mark.parametrize("extra", list(NEEDS_EXTRA))
def test_a_command_without_its_extra_names_the_extra(fresh: Fresh, tmp_path: Path, extra: str) -> None:
    """In one message, with the command that installs it and without a traceback."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = fresh.start(tmp_path, *NEEDS_EXTRA[extra])
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"pip install 'assay[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_javascript_in_a_testset_names_its_extra_before_the_first_call(fresh: Fresh, tmp_path: Path) -> None:
    """The pipeline itself has none, so only the tests tell that the engine is needed."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = fresh.start(tmp_path, "pipeline", "steps.yaml", "--testset", "js.jsonl", "--allow-code")
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert "JavaScript code needs an optional package: pip install 'assay[javascript]'" in done.stderr
    assert not (tmp_path / "results").exists()


def test_no_command_needs_an_extra_for_its_help(fresh: Fresh, tmp_path: Path) -> None:
    commands = fresh.run(tmp_path, "--help").partition("Commands:\n")[2].partition("\n\n")[0]
    names = [line.split()[0] for line in commands.splitlines() if line.startswith("  ") and line[2] != " "]
    assert len(names) >= 12
    helps = (
        "import sys\nfrom assay.cli.main import main\nfor name in sys.argv[1:]:\n    try:\n        main([name, '--help'])\n"
        "    except SystemExit as end:\n        assert not end.code, name\n"
    )
    done = subprocess.run(
        [fresh.python, "-c", helps, *names],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=fresh.variables,
        check=False,
    )
    assert (done.returncode, done.stdout.count("Usage:")) == (0, len(names)), done.stderr
    assert "needs: " in fresh.run(tmp_path, "models")


class Fresh:
    """An environment of its own with the wheel and the base dependencies."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.packages = folder / "lib" / version / "site-packages"
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "ASSAY_DATA")
        self.variables = {
            name: value for name, value in os.environ.items() if name not in hidden and not name.startswith("OPENAI_")
        }

    def start(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the installed `assay` in a folder."""
        command = [str(self.python.with_name("assay")), *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=self.variables, check=False)

    def run(self, folder: Path, *words: str) -> str:
        """Run the installed `assay`, which must succeed, and return what it prints."""
        done = self.start(folder, *words)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by pip from the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation, pip uses the hatchling of this environment instead of downloading one.
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("assay-*.whl")
    return wheel


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """A fresh environment. The base dependencies are links to those of the tests, so that nothing is downloaded.

    `make test-install` names an environment in ASSAY_INSTALLED that pip has filled with real downloads.
    """
    if installed := os.environ.get("ASSAY_INSTALLED"):
        return Fresh(Path(installed))
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    environment = Fresh(folder)
    _pip("--python", str(environment.python), "install", "--no-deps", "--no-compile", str(wheel))
    for package in _base_distributions(wheel):
        names = {path.parts[0] for path in package.files or () if path.parts[0] not in ("..", "__pycache__")}
        for name in names:
            (environment.packages / name).symlink_to(str(package.locate_file(name)))
    return environment


def _base_distributions(wheel: Path) -> list[Distribution]:
    """The packages that the wheel requires without extras, with everything that these require."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    waiting = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    packages: dict[str, Distribution] = {}
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name in packages or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        packages[name] = distribution(name)
        waiting += packages[name].requires or []
    assert "numpy" in packages
    assert "uvloop" not in packages
    return list(packages.values())


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "--quiet", *words]
    # No test may depend on the network: pip takes what is here or fails.
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PIP_NO_INDEX": "1"})
    assert done.returncode == 0, done.stderr

"""What most tests need: a small task, and a way to type commands."""

from __future__ import annotations

import atexit
import gc
import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings

from assay.core.errors import UsageError
from assay.models.weights.pulled import pull_model

from support.commands import run_here

pytest_plugins = ["support.lanes"]

# A shell starts jobs in the background with SIGINT ignored, and every process that a test interrupts would inherit it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow minute of the machine is no failure: speed is measured in benchmarks.
examples = int(os.environ.get("ASSAY_EXAMPLES", "20"))  # `make test-long` tries 500
settings.register_profile("untimed", max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

TASK = """\
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
doc_to_text: "Q: {{question}}\\nA:"
doc_to_target: "{{answer}}"
fewshot_config:
  sampler: first_n
  samples:
    - {question: "1+1?", answer: "2"}
    - {question: "2+2?", answer: "4"}
num_fewshot: 0
generation_kwargs: {until: ["\\n"], temperature: 0.0, max_gen_toks: 8}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true}
metadata: {version: 1.0}
"""
DOCS = [{"question": f"{n}+{n}?", "answer": str(2 * n)} for n in range(6)]
MODEL = """\
async def answer(prompt, params):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    n = int(text.rsplit("Q: ", 1)[1].split("+")[0])
    return str(2 * n if n % 2 == 0 else n)
"""

_folder_numbers = count()
Assay = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def data_folder(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """What assay remembers about judges: a folder for each test, never that of whoever runs it."""
    name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    path = tmp_path_factory.getbasetemp() / "assay-data" / name
    monkeypatch.setenv("ASSAY_DATA", str(path))
    return path


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder for each test, as pytest makes it. Pytest lists all folders of the session to find a free number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_folder_numbers)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(scope="session")
def weights() -> Path:
    """SmolLM2, fetched once into the user's own cache."""
    try:
        return pull_model("smollm2", lambda _: None).path
    except UsageError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the weights cannot be had here: {error}")


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """A folder with a task of six sums and a model that gets the even ones right."""
    (tmp_path / "sums.yaml").write_text(TASK)
    write_docs(tmp_path / "sums.jsonl", DOCS)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def write_docs(path: Path, docs: list[dict[str, Any]]) -> None:
    """JSON lines."""
    path.write_bytes(b"".join(msgspec.json.encode(doc) + b"\n" for doc in docs))


@pytest.fixture
def assay_in(sums: Path) -> Assay:
    """Types `assay ...` in the folder of the sums, in this process."""

    def run(*arguments: str, cwd: Path = sums) -> subprocess.CompletedProcess[str]:
        return run_here(arguments, cwd)

    return run


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI nothing is skipped: what a test needs, the project's own files install."""
    # Pytest looks for garbage twice when it ends. What is left after the first time are modules and tests.
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # libraries report what Python does not free at its end
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CI"):
        return
    if skipped := reporter.stats.get("skipped", []):
        reporter.write_line(f"{len(skipped)} tests were skipped, and CI skips none", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

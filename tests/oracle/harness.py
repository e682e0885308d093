"""Both harnesses behind one call each: the real one in its worker, ours in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

import assay

CHAT, TEXT = "local-chat-completions", "local-completions"
MODEL = "org/Fake-1.0"
MODEL_FOLDER = "org__Fake-1.0"


class Refused(Exception):
    """The real harness raised; its traceback is the message."""


class Settings(msgspec.Struct, frozen=True):
    """What a run is told besides its tasks."""

    chat: bool = False
    multiturn: bool = True
    limit: float | None = None
    num_fewshot: int | None = None
    gen_kwargs: dict[str, Any] = {}
    system_instruction: str | None = None
    quirks: bool = False
    likelihoods: bool = False
    bootstrap_iters: int = 100_000
    max_length: int | None = None
    predict_only: bool = False


class Harness:
    """lm-evaluation-harness in a process that lives on, for its start takes seconds."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def __enter__(self) -> Self:
        self._home.mkdir(exist_ok=True)
        self._log = (self._home / "harness.log").open("w+", encoding="utf-8")
        self._child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py"))],
            env={**os.environ, "HF_HOME": str(self._home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.communicate()
        self._log.close()

    def ask(self, do: str, **job: Any) -> Any:
        """One job, to its end."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps({"do": do, **job}), file=self._child.stdin, flush=True)
        line = self._child.stdout.readline()
        if not line:
            raise Refused((self._home / "harness.log").read_text(encoding="utf-8")[-5000:])
        reply = json.loads(line)
        if "error" in reply:
            raise Refused(reply["error"])
        return reply["value"]

    def evaluate(self, folder: Path, tasks: list[str], settings: Settings, url: str) -> Path:
        """A run of the real harness; returns the folder of its files."""
        output = folder / "theirs"
        options: dict[str, Any] = {"limit": settings.limit, "num_fewshot": settings.num_fewshot}
        options |= {"gen_kwargs": settings.gen_kwargs, "bootstrap_iters": settings.bootstrap_iters}
        options |= {"system_instruction": settings.system_instruction, "predict_only": settings.predict_only}
        options |= {
            "apply_chat_template": settings.chat,
            "fewshot_as_multiturn": settings.multiturn if settings.chat else None,
        }
        self.ask(
            "evaluate",
            folder=str(folder),
            tasks=tasks,
            output=str(output),
            model=CHAT if settings.chat else TEXT,
            model_args=model_args(settings, url),
            options=options,
        )
        return output / MODEL_FOLDER


def model_args(settings: Settings, url: str) -> dict[str, Any]:
    """The same arguments of the model for both."""
    address = f"{url}/v1/{'chat/completions' if settings.chat else 'completions'}"
    own: dict[str, Any] = {} if settings.chat else {"tokenizer_backend": None, "tokenized_requests": False}
    if settings.likelihoods:
        own = {"tokenizer_backend": "remote"}
    if settings.max_length is not None:
        own["max_length"] = settings.max_length
    return {"model": MODEL, "base_url": address, "num_concurrent": 1, **own}


def run_ours(folder: Path, tasks: list[str], settings: Settings, url: str) -> Path:
    """The same run by assay; returns the folder of its files."""
    output = folder / "ours"
    values: dict[str, Any] = {"limit": settings.limit, "num_fewshot": settings.num_fewshot}
    values |= {"apply_chat_template": settings.chat, "gen_kwargs": settings.gen_kwargs}
    values |= {"bootstrap_iters": settings.bootstrap_iters, "predict_only": settings.predict_only}
    if not settings.multiturn:
        values["fewshot_as_multiturn"] = False
    if settings.system_instruction is not None:
        values["system_instruction"] = settings.system_instruction
    spec = assay.spec(
        "task",
        tasks=tasks,
        include_path=[str(folder)],
        model=CHAT if settings.chat else TEXT,
        model_args=model_args(settings, url),
        output_dir=str(output),
        lm_eval_quirks=settings.quirks,
        **values,
    )
    run = assay.run(spec)
    assert run.exit_code == 0, run.reason or run.summary
    return output / MODEL_FOLDER

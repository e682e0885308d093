"""hf/PATH without torch: files, arguments, and the child process, with a stand-in for the model inside the child."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import MissingExtra, ModelError, UsageError
from assay.core.events import Event, Noted
from assay.core.roles import CHAT, LIKELIHOOD, TEXT, Connection
from assay.core.types import Request, Response, Usage
from assay.models import hf
from assay.models.hf import HfModel
from assay.runner.opening import open_run
from assay.runner.runner import Runner
from assay.suites import find_suite
from assay.usercode.model_args import takes_do_sample

from servers.wired import Run

STAND_IN = (sys.executable, "-P", str(Path(__file__).parents[1] / "support" / "stand_in_model.py"))
without_torch = pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed here")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like a model's."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "gpt2"}')
    (path / "model.safetensors").write_bytes(b"weights")
    (path / "tokenizer.json").write_text("{}")
    return path


def connected(
    folder: Path, *, timeout: float = 60.0, concurrency: int = 16, patience: float = 60.0, **args: Any
) -> HfModel:
    connection = Connection(name=str(folder), timeout=timeout, concurrency=concurrency, args=args)
    return HfModel(connection, STAND_IN, patience)


def text(prompt: str, **params: Any) -> Request:
    return Request(model="hf", prompt=prompt, params=params)


async def ask(model: HfModel, *requests: Request) -> list[Any]:
    """Replies, or the failures, of requests sent side by side."""
    return await asyncio.gather(*[model.send(request, 1) for request in requests], return_exceptions=True)


def using(model: HfModel, run: Run, work: Callable[[HfModel], Awaitable[None]]) -> None:
    """Run work with a model, and close the model."""

    async def main() -> None:
        try:
            await work(model)
        finally:
            await model.close()

    run(main)


def test_requests_made_together_are_computed_in_one_batch(folder: Path, run: Run) -> None:
    """Replies and likelihoods return to their requests; batches have at most `batch_size` requests of one kind."""

    async def work(model: HfModel) -> None:
        await ask(model, text("load the model"))
        replies = await ask(model, *[text(f"p{number}") for number in range(6)])
        assert [reply.text for reply in replies] == ["4 p0", "4 p1", "4 p2", "4 p3", "2 p4", "2 p5"]
        assert replies[0] == Response("4 p0", "stop", Usage(2, 1))
        mixed = await ask(model, text("a"), text("b", stop=["x"]), text("c"), text("d", temperature=1.0))
        assert [reply.text for reply in mixed] == ["2 a", "1 b", "2 c", "1 d"]
        likelihood, whole, empty = await ask(
            model,
            Request(model="hf", prompt="a", continuation="bcd"),
            Request(model="hf", continuation="efgh"),
            Request(model="hf", prompt="a", continuation=""),
        )
        assert likelihood.data == {"logprob": -3.0, "greedy": True}
        assert whole.data == {"logprob": -4.0, "greedy": False}
        assert empty.data == {"logprob": 0.0, "greedy": True}

    using(connected(folder, batch_size=4), run, work)


def test_a_rejected_request_fails_alone(folder: Path, run: Run) -> None:
    async def work(model: HfModel) -> None:
        await ask(model, text("load the model"))
        good, bad, fault = await ask(model, text("good"), text("reject"), text("fault"))
        assert good.text == "1 good"
        assert (fault.failure.kind, fault.failure.message) == ("rejected", "ValueError: a fault")
        assert (bad.failure.kind, bad.failure.message, bad.retry) == (
            "rejected",
            "this prompt is rejected",
            False,
        )

    using(connected(folder), run, work)


def test_a_likelihood_that_is_no_finite_number_fails_alone(folder: Path, run: Run) -> None:
    """JSON has no infinity and no NaN. The sentence says what to try, and the same child goes on."""

    async def work(model: HfModel) -> None:
        await ask(model, text("load the model"))
        child = model.child_pid
        infinite, good, not_a_number = await ask(
            model, *[Request(model="hf", prompt="a", continuation=each) for each in ("-inf", "bcd", "nan")]
        )
        assert good.data == {"logprob": -3.0, "greedy": True}
        for error, number in ((infinite, "-inf"), (not_a_number, "nan")):
            assert (error.failure.kind, error.retry) == ("rejected", False)
            assert f"the log-likelihood is {number}, which is not a finite number" in error.failure.message
        assert model.child_pid == child

    using(connected(folder), run, work)


def test_a_reply_that_cannot_be_read_fails_alone(folder: Path, run: Run) -> None:
    async def work(model: HfModel) -> None:
        await ask(model, text("load the model"))
        child = model.child_pid
        good, bad = await ask(model, text("good"), text("garble"))
        assert good.text == "2 good"
        assert (bad.failure.kind, bad.retry) == ("bad_reply", True)
        assert "wrote an unreadable line: Expected `str`, got `int`" in bad.failure.message
        assert (await ask(model, text("other")))[0].text == "1 other"
        assert model.child_pid == child

    using(connected(folder), run, work)


def test_batches_shrink_when_memory_is_short(folder: Path, run: Run) -> None:
    """The request is computed with less company, and later batches stay smaller."""

    async def work(model: HfModel) -> None:
        await ask(model, text("load the model"))
        replies = await ask(model, text("crowd"), text("a"), text("b"), text("c"))
        assert [reply.text for reply in replies] == ["1 crowd", "1 a", "1 b", "1 c"]
        assert [reply.text for reply in await ask(model, text("d"), text("e"))] == ["1 d", "1 e"]

    using(connected(folder, batch_size=4), run, work)


def test_a_child_that_ends_is_started_again_and_its_last_words_are_told(folder: Path, run: Run) -> None:
    """Open requests fail so that they are tried again; the next one starts a new process."""

    async def work(model: HfModel) -> None:
        first, other = await ask(model, text("exit"), text("other"))
        for error in (first, other):
            assert isinstance(error, ModelError)
            assert (error.failure.kind, error.retry) == ("unreachable", True)
            assert error.failure.message.endswith("ended (exit code 7). Its last lines:\na last word on stderr")
        old = model.child_pid
        assert (await ask(model, text("other")))[0].text == "1 other"
        assert model.child_pid != old
        (killed,) = await ask(model, text("kill"))
        assert "signal 9: someone killed it, or the system was out of memory" in killed.failure.message

    using(connected(folder), run, work)


def test_a_request_that_takes_too_long_is_cancelled_in_the_child(folder: Path, run: Run) -> None:
    """The time starts when the model begins to compute. The model is free again for the next request."""

    async def work(model: HfModel) -> None:
        (late,) = await ask(model, text("until 1"))
        assert (late.failure.kind, late.failure.message) == ("timeout", "the model took longer than 0.5 s")
        # On a busy machine this one may be late too.
        while not isinstance((await ask(model, text("hello")))[0], Response):
            pass

    using(connected(folder, timeout=0.5), run, work)


def test_a_child_that_hangs_is_killed_after_the_timeout(folder: Path, tmp_path: Path, run: Run) -> None:
    """The others that wait fail so that they are tried again, on a new child."""

    async def work(model: HfModel) -> None:
        hung, waiting = await ask(model, text(f"block {tmp_path / 'begun'}"), text("other", stop=["x"]))
        assert (hung.failure.kind, hung.retry) == ("timeout", False)
        assert (waiting.failure.kind, waiting.retry) == ("unreachable", True)
        assert waiting.failure.message == ("the model's process hangs: it said nothing for 0.2 s after a timeout")
        old = model.child_pid
        assert old is not None
        # On a busy machine this one may be late.
        while not isinstance((await ask(model, text("hello")))[0], Response):
            pass
        assert model.child_pid != old
        assert has_ended(old)

    using(connected(folder, timeout=0.5, patience=0.2), run, work)


def test_a_computation_that_nobody_waits_for_does_not_hang_the_others(folder: Path, tmp_path: Path, run: Run) -> None:
    """Cancelled requests, as by the time limit of a case, need no timeout of their own."""

    async def work(model: HfModel) -> None:
        mark = tmp_path / "begun"
        leaving = asyncio.create_task(model.send(text(f"block {mark}"), 1))
        await asyncio.to_thread(wait_until, mark.exists)
        waiting = asyncio.create_task(model.send(text("other", stop=["x"]), 1))
        leaving.cancel()
        with pytest.raises(ModelError, match="the model's process hangs"):
            await waiting

    using(connected(folder, patience=0.2), run, work)


def test_a_child_has_the_whole_timeout_of_each_request(folder: Path, tmp_path: Path, run: Run) -> None:
    """That another request of the batch was cancelled, and that the child is silent, does not end it."""

    async def work(model: HfModel) -> None:
        await ask(model, text("load the model"))
        mark = tmp_path / "begun"
        staying = asyncio.create_task(model.send(text(f"until 4 {mark}"), 1))
        leaving = asyncio.create_task(model.send(text("other"), 1))
        last = asyncio.create_task(model.send(text("never computed", stop=["x"]), 1))
        await asyncio.to_thread(wait_until, mark.exists)
        leaving.cancel()
        await asyncio.wait([leaving])
        # The patience of no seconds ends before this.
        await asyncio.sleep(0.01)
        last.cancel()
        assert (await staying).text == f"2 until 4 {mark}"

    using(connected(folder, patience=0.0), run, work)


def test_a_failure_together_with_a_cancellation_prints_nothing(folder: Path, tmp_path: Path, run: Run) -> None:
    """Otherwise asyncio prints that an exception was never retrieved."""
    told: list[Any] = []

    async def work(model: HfModel) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
        mark = tmp_path / "begun"
        busy = asyncio.create_task(model.send(text(f"block {mark}"), 1))
        await asyncio.to_thread(wait_until, mark.exists)
        waiting = asyncio.create_task(model.send(text("other", stop=["x"]), 1))
        await asyncio.sleep(0)  # it is sent
        closing = asyncio.create_task(model.close())
        await asyncio.sleep(0)  # both have failed, and neither knows yet
        waiting.cancel()
        await asyncio.wait([busy, waiting, closing])
        assert isinstance(busy.exception(), ModelError)
        assert waiting.cancelled()

    using(connected(folder), run, work)
    gc.collect()
    assert told == []


def test_a_cancelled_request_that_waits_is_never_computed(folder: Path, tmp_path: Path, run: Run) -> None:
    mark = tmp_path / "computed"

    async def work(model: HfModel) -> None:
        await ask(model, text("load the model"))
        # The second request keeps the model busy until the third, of another group, is cancelled.
        busy = asyncio.create_task(model.send(text("until 3"), 1))
        leaving = asyncio.create_task(model.send(text(f"block {mark}", stop=["x"]), 1))
        await asyncio.sleep(0)  # both are sent
        leaving.cancel()
        assert (await busy).text == "1 until 3"
        assert (await ask(model, text("hello")))[0].text == "1 hello"
        assert not mark.exists()

    using(connected(folder), run, work)


def test_closing_ends_a_child_that_computes(folder: Path, tmp_path: Path, run: Run) -> None:
    async def work(model: HfModel) -> None:
        mark = tmp_path / "begun"
        task = asyncio.create_task(model.send(text(f"block {mark}"), 1))
        await asyncio.to_thread(wait_until, mark.exists)
        pid = model.child_pid
        assert pid is not None
        await model.close()
        assert has_ended(pid)
        with pytest.raises(ModelError, match="was stopped"):
            await task

    using(connected(folder), run, work)


def test_the_child_ends_when_assay_is_killed_in_the_middle_of_a_computation(folder: Path, tmp_path: Path) -> None:
    """A kill -9 leaves no orphan: the child sees that its pipe is closed."""
    mark = tmp_path / "begun"
    program = f"""
import asyncio
from assay.core.roles import Connection
from assay.core.types import Request
from assay.models.hf import HfModel

async def main():
    model = HfModel(Connection(name={str(folder)!r}), {STAND_IN!r})
    await model.send(Request(model="hf", prompt="load"), 1)
    print(model.child_pid, flush=True)
    await model.send(Request(model="hf", prompt={f"block {mark}"!r}), 1)

asyncio.run(main())
"""
    source = str(Path(assay.__file__).parents[1])
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    wait_until(mark.exists)
    assert not has_ended(child)
    parent.kill()
    parent.communicate()
    wait_until(lambda: has_ended(child))


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return True


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_model_that_cannot_be_loaded_is_tried_once(folder: Path, run: Run) -> None:
    """Every request fails with the reason, of a kind that halts the run."""
    (folder / "broken").touch()

    async def work(model: HfModel) -> None:
        replies = await ask(model, text("a"), text("b"))
        assert {(reply.failure.kind, reply.failure.message, reply.retry) for reply in replies} == {
            ("not_found", "the file broken is in the way", False)
        }
        (folder / "broken").unlink()
        (again,) = await ask(model, text("c"))
        assert again.failure.message == "the file broken is in the way"

    using(connected(folder), run, work)


def test_a_model_that_dies_while_it_loads_is_started_twice_and_halts_the_run(
    folder: Path, sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is too large for the memory. The run tells why and can be continued."""
    (folder / "fatal").touch()
    monkeypatch.chdir(sums)
    done = asyncio.run(stand_in_runner(connected(folder), "sums.yaml", output_dir="out", max_retries=5).start_or_show())
    assert done.exit_code == 3
    assert done.reason is not None
    assert done.reason.startswith(f"{folder} could not be loaded 2 times: the process of the model ended (sig")
    assert "someone killed it, or the system was out of memory" in done.reason
    assert (folder / "fatal").read_text() == ".."


def stand_in_runner(model: HfModel, task: str, *observers: Callable[[Event], None], **options: Any) -> Runner:
    """A run of a task with a stand-in for its model."""
    spec = assay.spec("task", tasks=[task], model="hf/stand-in", base_url=model.endpoint, **options)
    suite = find_suite("task")
    return Runner(suite(suite.resolve(spec)), {"main": model}, observers)


def test_a_run_tells_that_the_code_of_a_model_runs(folder: Path, sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the child starts, so not for a run that is complete."""
    monkeypatch.chdir(sums)
    warning = f"hf: trust_remote_code runs the Python code of the model in {folder}"
    for times in (1, 0):
        seen: list[Event] = []
        model = connected(folder, trust_remote_code=True)
        runner = stand_in_runner(model, "sums.yaml", seen.append, output_dir="out")
        assert asyncio.run(runner.start_or_show()).exit_code == 0
        assert seen.count(Noted(warning)) == times


def test_the_hashing_of_a_large_file_is_told_before_the_run(
    folder: Path, sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes ten seconds and more, while nothing else is printed."""
    monkeypatch.setenv("ASSAY_CACHE", str(sums / "cache"))
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(64_000_000)
    # assay looks whether the packages are there, and does not import them.
    for package in ("torch", "transformers"):
        (sums / "packages" / package).mkdir(parents=True)
        (sums / "packages" / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(sums / "packages")
    seen: list[Event] = []
    spec = assay.spec("task", tasks=[str(sums / "sums.yaml")], model=f"hf/{folder}", output_dir=str(sums))
    open_run(spec, [seen.append])
    assert seen == [Noted("hashing model.safetensors (0.1 GB), once")]


@without_torch
def test_missing_packages_are_named_before_anything_is_read() -> None:
    with pytest.raises(MissingExtra, match=r"the provider 'hf' needs an optional package: pip install 'assay\[transf"):
        hf.connect(Connection(name="/does/not/exist"))


@without_torch
def test_the_real_child_says_which_package_it_lacks(folder: Path) -> None:
    """As with a torch that is installed and broken."""

    async def main() -> Any:
        model = HfModel(Connection(name=str(folder)))
        try:
            return await ask(model, text("hello"))
        finally:
            await model.close()

    (error,) = asyncio.run(main())
    assert error.failure.kind == "not_found"
    assert "No module named" in error.failure.message
    assert error.failure.message.endswith("pip install 'assay[transformers]'")


def test_a_name_is_looked_up_in_the_cache_of_huggingface_hub(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the revision's name or its commit. What is not there is not downloaded."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "models--org--tiny"
    (repository / "snapshots").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123\n")
    folder.rename(repository / "snapshots" / "abc123")
    model = Connection(name="org/tiny")
    assert HfModel(model).endpoint == HfModel(Connection(name="org/tiny", args={"revision": "abc123"})).endpoint
    with pytest.raises(UsageError, match="has no revision 'v2' of this model"):
        HfModel(Connection(name="org/tiny", args={"revision": "v2"}))
    with pytest.raises(UsageError, match="no such model. assay downloads nothing.*hf download org/other"):
        HfModel(Connection(name="org/other"))


def test_a_folder_without_a_model_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="is a file. Name the folder with config.json"):
        HfModel(Connection(name=str(folder / "config.json")))
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="has no weights .*; the download may be incomplete"):
        HfModel(Connection(name=str(folder)))
    (folder / "config.json").write_text("{")
    with pytest.raises(UsageError, match="config.json cannot be read"):
        HfModel(Connection(name=str(folder)))
    (folder / "config.json").unlink()
    with pytest.raises(UsageError, match="has no config.json, so it is not the folder of a transformers model"):
        HfModel(Connection(name=str(folder)))


def test_the_identity_is_the_content_of_the_files_and_what_changes_replies(folder: Path) -> None:
    """Other weights, another tokenizer or another dtype are another model. The device and the batches are not."""

    def endpoint(**args: Any) -> str:
        return HfModel(Connection(name=str(folder), args=args)).endpoint

    first = endpoint()
    assert first.startswith("hf:")
    assert endpoint(device="cpu", batch_size=3) == first
    (folder / "README.md").write_text("no part of the model")
    assert endpoint() == first
    others = {endpoint(dtype="float16"), endpoint(max_length=10), endpoint(add_bos_token=True)}
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b" ")
        others.add(endpoint())
        (folder / name).write_bytes(content)
    assert len(others - {first}) == 6
    assert endpoint() == first


def test_a_large_file_is_hashed_once_until_it_changes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash is kept with the file's times; a rewritten file of the same size is another one."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    weights = folder / "model.safetensors"
    with weights.open("wb") as file:
        file.truncate(64_000_000)
    # A hash is cached once the file is two seconds old.
    wait_until(lambda: time.time() - weights.stat().st_ctime > 2.1)
    first = HfModel(Connection(name=str(folder))).endpoint
    kept = json.loads((tmp_path / "cache" / "model-hashes.json").read_bytes())
    assert len(kept) == 1
    assert HfModel(Connection(name=str(folder))).endpoint == first
    with weights.open("r+b") as file:
        file.write(b"other")
    assert HfModel(Connection(name=str(folder))).endpoint != first
    (tmp_path / "cache" / "model-hashes.json").write_text("[damaged")
    weights.unlink()
    with weights.open("wb") as file:
        file.truncate(64_000_000)
    assert HfModel(Connection(name=str(folder))).endpoint == first


def test_chat_needs_a_template(folder: Path) -> None:
    assert HfModel(Connection(name=str(folder))).can == {TEXT, LIKELIHOOD}
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    assert HfModel(Connection(name=str(folder))).can == {CHAT, TEXT, LIKELIHOOD}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"dtype": "int5"}, "--model-args dtype: expected one of auto, .*, float32, .*, found 'int5'"),
        ({"device": "gpu"}, "--model-args device: must be cpu, cuda, cuda:0 or mps, not 'gpu'"),
        ({"batch_size": 0}, "--model-args batch_size: expected auto or a whole number of at least 1, found 0"),
        ({"max_length": "long"}, "--model-args max_length: expected a whole number of at least 1, found 'long'"),
        ({"add_bos_token": "maybe"}, "--model-args add_bos_token: expected true or false, found 'maybe'"),
        ({"parallelize": True}, "does not take parallelize: the model runs on one device"),
        ({"load_in_4bit": True}, "does not take load_in_4bit"),
        ({"backend": "seq2seq"}, "encoder-decoder models are not supported"),
        ({"pretrained": "other"}, "name two models"),
        ({"chat_template_args": "x"}, "--model-args chat_template_args: expected a mapping, found 'x'"),
    ],
)
def test_arguments_are_checked(folder: Path, args: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        HfModel(Connection(name=str(folder), args=args))


def test_harmless_values_of_refused_arguments_are_accepted(folder: Path) -> None:
    args = {"parallelize": False, "gguf_file": None, "logits_cache": True, "batch_size": "auto:4"}
    HfModel(Connection(name=str(folder), args=args))
    assert set(args) <= hf.ABOUT.args


def test_the_parameter_do_sample_goes_only_to_providers_that_take_it() -> None:
    """A provider that is not installed takes nothing: its runs can be scored again all the same."""
    assert takes_do_sample("hf/gpt2")
    assert not any(map(takes_do_sample, ["openai/gpt-4o-mini", "not-installed/x", ""]))

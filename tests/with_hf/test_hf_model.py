"""hf/PATH with tiny models: batches, seeds, stops, chat, sentences for models that cannot be loaded, kills."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, T5Config, T5ForConditionalGeneration

from assay.core.errors import ModelError
from assay.core.roles import Connection
from assay.core.types import Request, Response
from assay.models import hf

from with_hf.task_files import WORDS


def text(prompt: str, **params: Any) -> Request:
    return Request(model="hf", prompt=prompt, params={"max_tokens": 16, **params})


def likelihood(prompt: str | None, continuation: str) -> Request:
    return Request(model="hf", prompt=prompt, continuation=continuation)


def ask(folder: Path, *requests: Request, seeds: list[int] | None = None, **args: Any) -> list[Any]:
    """Replies, or the failures, of requests sent side by side to one model."""

    async def send() -> list[Any]:
        model = hf.connect(Connection(name=str(folder), args={"device": "cpu", **args}))
        pairs = zip(requests, seeds or [1] * len(requests), strict=True)
        try:
            return await asyncio.gather(*[model.send(*pair) for pair in pairs], return_exceptions=True)
        finally:
            await model.close()

    return asyncio.run(send())


def test_replies_do_not_depend_on_their_company(models: dict[str, Path]) -> None:
    """Greedy and sampled texts are equal alone and in batches, likelihoods to 1e-6; seeds decide what is sampled."""
    greedy = [text(f"{word} is " * (number + 1), stop=["e"]) for number, word in enumerate(WORDS)]
    sampled = [text("Once upon", temperature=1.5, top_p=0.95) for _ in range(4)]
    measured = [likelihood(f"What is {word}?", f" {word} {word}") for word in WORDS]
    measured += [likelihood(None, f"{word} " * 50) for word in WORDS[:3]]
    requests = [*greedy, *sampled, *measured]
    seeds = [*[1] * len(greedy), 1, 2, 3, 1, *[1] * len(measured)]
    alone = ask(models["llama"], *requests, seeds=seeds, batch_size=1)
    together = ask(models["llama"], *reversed(requests), seeds=seeds[::-1], batch_size=8)[::-1]
    generated = len(greedy) + len(sampled)
    assert [(reply.text, reply.finish, reply.usage) for reply in alone[:generated]] == [
        (reply.text, reply.finish, reply.usage) for reply in together[:generated]
    ]
    for one, other in zip(alone[generated:], together[generated:], strict=True):
        assert one.data["logprob"] == pytest.approx(other.data["logprob"], rel=1e-6)
        assert one.data["greedy"] == other.data["greedy"]
    first, second, third, again = (reply.text for reply in alone[len(greedy) : generated])
    assert first == again
    assert len({first, second, third}) == 3


def test_likelihoods_are_those_of_the_model_itself(models: dict[str, Path]) -> None:
    """Computed here from the logits; greedy decoding yields its own continuation."""
    folder = models["gpt2"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    context, scored = tokenizer.encode("The sky"), tokenizer.encode(" is blue")
    with torch.no_grad():
        logprobs = model(torch.tensor([context + scored])).logits[0].log_softmax(-1)
    expected = sum(float(logprobs[len(context) - 1 + at, token]) for at, token in enumerate(scored))
    best = tokenizer.decode(int(logprobs[len(context) - 1].argmax()))
    reply, likeliest = ask(folder, likelihood("The sky ", "is blue"), likelihood("The sky", best))
    assert reply.data == {"logprob": pytest.approx(expected, rel=1e-6), "greedy": False}
    assert (reply.usage.input, reply.usage.output) == (len(context), len(scored))
    assert likeliest.data["greedy"] or tokenizer.encode("The sky" + best) != [
        *context,
        *tokenizer.encode(best),
    ]


def test_a_reply_says_why_it_ended_and_what_it_cost(models: dict[str, Path]) -> None:
    """A prompt that does not fit is cut on the left and marked; one without room for a reply is refused."""
    free, limited, long, hopeless = ask(
        models["gpt2"],
        text("Once", max_tokens=20),
        text("Once", max_tokens=5),
        text("four " * 200, max_tokens=5),
        text("Once", max_tokens=64),
    )
    assert free.text.startswith(limited.text.rstrip("\ufffd"))
    assert (limited.finish, limited.usage.output) == ("length", 5)
    stop = free.text[3:5]
    (stopped,) = ask(models["gpt2"], text("Once", max_tokens=20, stop=["never", stop]))
    assert (stopped.text, stopped.finish) == (free.text.partition(stop)[0], "stop")
    assert stopped.usage.output < 20
    assert (long.usage.input, long.adapted) == (59, ("prompt cut on the left to fit the context",))
    assert hopeless.failure.message == (
        "a reply of up to 64 tokens leaves no room for the prompt in the context of 64. "
        "Lower max_gen_toks, or raise max_length in --model-args"
    )


def test_messages_go_through_the_template(models: dict[str, Path]) -> None:
    """As the rendered text would; an assistant's message at the end is continued."""
    turns: list[dict[str, Any]] = [
        {"role": "system", "content": "Be small."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    ]
    begun = [*turns, {"role": "assistant", "content": "Paris is"}]
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    rendered = "<s><|system|>\nBe small.\n<|user|>\nHi\n<|assistant|>\n"
    chat, plain, continued, same, refused = ask(
        models["llama"],
        Request(model="hf", messages=turns, params={"max_tokens": 8}),
        text(rendered, max_tokens=8),
        Request(model="hf", messages=begun, params={"max_tokens": 8}),
        text(rendered + "Paris is", max_tokens=8),
        Request(model="hf", messages=image),
    )
    assert (chat.text, chat.usage) == (plain.text, plain.usage)
    assert (continued.text, continued.usage) == (same.text, same.usage)
    assert refused.failure.message == "hf/PATH takes text only; a message has a part of another type"


def test_unknown_parameters_are_refused_by_name(models: dict[str, Path]) -> None:
    good, bad = ask(models["gpt2"], text("Once"), text("Once", temprature=1.0))
    assert isinstance(good, Response)
    assert bad.failure.kind == "rejected"
    assert "temprature" in bad.failure.message


def problem(folder: Path, **args: Any) -> str:
    """The message of a model that cannot be loaded. Its kind halts the run."""
    (error,) = ask(folder, text("Once"), **args)
    assert isinstance(error, ModelError)
    assert (error.failure.kind, error.retry) == ("not_found", False)
    return error.failure.message


def test_a_model_that_cannot_be_loaded_is_explained(models: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(models["gpt2"], tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "gpt17"}))
    assert "gpt17" in problem(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"\x10" * 100)
    assert problem(folder).startswith(f"transformers cannot load {folder}: ")
    T5ForConditionalGeneration(T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, vocab_size=20)).save_pretrained(
        tmp_path / "t5"
    )
    assert "is an encoder-decoder model (t5)" in problem(tmp_path / "t5")
    if not torch.cuda.is_available():
        assert problem(models["gpt2"], device="cuda").startswith("the device 'cuda' cannot be used: ")


def test_code_of_a_model_runs_only_with_leave(models: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(models["gpt2"], tmp_path / "own")
    (folder / "modeling_own.py").write_text(
        "from transformers import GPT2Config, GPT2LMHeadModel\n"
        "class OwnConfig(GPT2Config):\n    model_type = 'own'\n"
        "class OwnModel(GPT2LMHeadModel):\n    config_class = OwnConfig\n"
    )
    config = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "modeling_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnModel"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": code}))
    assert problem(folder) == (
        f"the model {folder} brings its own Python code. Read it, and pass --model-args trust_remote_code=True "
        "if it may run"
    )
    ours, plain = ask(folder, text("Once"), trust_remote_code=True), ask(models["gpt2"], text("Once"))
    assert ours[0].text == plain[0].text


def test_a_killed_run_leaves_no_child_and_continues(models: dict[str, Path], tasks: Path, tmp_path: Path) -> None:
    """After kill -9 in the middle the same command asks only for what is missing, and the files are the same."""
    names = "letters,short_replies,long_prompts"
    command = [sys.executable, "-m", "assay", "task", names, "--include-path", str(tasks), "--quiet"]
    command += [
        "--model",
        f"hf/{models['llama']}",
        "--model-args",
        "device=cpu,batch_size=1",
        "--concurrency",
        "4",
    ]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*command, "--output-dir", str(whole)], check=True)
    process = subprocess.Popen([*command, "--output-dir", str(killed)])
    while count_calls(killed) < 10:
        assert process.poll() is None
        time.sleep(0.01)
    children = child_pids(process.pid)
    process.kill()
    process.wait()
    logged = count_calls(killed)
    assert 10 <= logged < count_calls(whole)
    assert children
    while any(map(is_running, children)):
        time.sleep(0.01)
    subprocess.run([*command, "--output-dir", str(killed)], check=True)
    assert count_calls(killed) == count_calls(whole)
    assert samples(killed) == samples(whole)


def count_calls(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("calls.jsonl"))


def samples(folder: Path) -> list[bytes]:
    files = sorted(folder.rglob("samples_*.jsonl"))
    assert len(files) == 3
    return [path.read_bytes() for path in files]


def child_pids(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """Whether a process has not ended. A zombie has, though nobody has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_assay_imports_neither_torch_nor_transformers(models: dict[str, Path]) -> None:
    program = (
        "import asyncio, sys\n"
        "from assay.core.roles import Connection\nfrom assay.core.types import Request\nfrom assay.models import hf\n"
        "async def main():\n"
        f"    model = hf.connect(Connection(name={str(models['gpt2'])!r}))\n"
        "    await model.send(Request(model='hf', prompt='Once', params={'max_tokens': 2}), 1)\n"
        "    await model.close()\n"
        "asyncio.run(main())\n"
        "assert not {'torch', 'transformers', 'tokenizers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "HF_HUB_OFFLINE": "0"})

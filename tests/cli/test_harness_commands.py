"""A command of lm-evaluation-harness works with `lm_eval run` replaced by `assay task`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from servers.loopback import LoopbackServer, chat
from support.stored import GOLDEN, replaying, run_stored, typed

STORED = sorted(path.parent.name for path in GOLDEN.glob("out/*/cmd.txt"))
EVERY = 12


def samples(folder: Path) -> dict[str, bytes]:
    """Every samples file by its task."""
    found = folder.glob("org__Fake-1.0/samples_*.jsonl")
    return {re.sub(r"samples_(.*)_20\d\d-.*", r"\1", path.name): path.read_bytes() for path in found}


def test_no_stored_command_is_left_out() -> None:
    """The list below is read from the files themselves."""
    assert len(STORED) == EVERY


@pytest.mark.parametrize("name", STORED)
def test_a_stored_command_writes_the_stored_samples(name: str, tmp_path: Path) -> None:
    """Nothing of the command is changed but the port and the place; every samples file is equal by byte."""
    done = run_stored(name, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ignored" not in done.stderr
    assert samples(tmp_path) == samples(GOLDEN / "out" / name)


def endpoint(server: Any, kind: str = "local-completions") -> list[str]:
    """The harness's way of naming an endpoint, with spaces between the arguments."""
    path = "chat/completions" if kind == "local-chat-completions" else "completions"
    return ["--model", kind, "--model_args", "model=org/Fake-1.0", f"base_url={server.url}/{path}"]


def results(folder: Path) -> dict[str, Any]:
    """The one results file."""
    (found,) = folder.glob("org__Fake-1.0/results_*.json")
    value: dict[str, Any] = json.loads(found.read_text())
    return value


def only(folder: Path, *tasks: str) -> dict[str, bytes]:
    """The stored samples of some tasks."""
    return {task: content for task, content in samples(folder).items() if task in tasks}


SPELLINGS = {
    "words after a flag": ["--tasks", "g_em", "g_em_plain", "--include_path", "tasks"],
    "commas": ["--tasks", "g_em,g_em_plain", "--include_path", "tasks"],
    "both": ["--include_path", "tasks", "--tasks", "g_em,g_em_plain"],
    "flags twice": ["--tasks", "g_em", "--include_path=tasks", "--tasks=g_em_plain"],
    "short flags": ["-t", "g_em", "g_em_plain", "-s", "--include_path", "tasks"],
    "a pattern of files": ["--tasks", "tasks/b_*.yaml,tasks/b2_*.yaml"],
    "files": ["--tasks", "tasks/b_em.yaml", "tasks/b2_em_plain.yaml"],
    "as arguments": ["g_em", "g_em_plain", "--include-path", "tasks"],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_is_the_same_run(name: str, tmp_path: Path) -> None:
    """Tasks come in the order they are named, and arguments of the model may stand apart."""
    with replaying("b_em") as server:
        words = [*endpoint(server), "num_concurrent=1", *SPELLINGS[name], "-o", str(tmp_path)]
        done = typed(["task", *words])
    assert done.returncode == 0, done.stderr
    assert samples(tmp_path) == only(GOLDEN / "out" / "b_em", "g_em", "g_em_plain")
    assert list(results(tmp_path)["results"]) == ["g_em", "g_em_plain"]


IGNORED = {
    "--batch_size": ["auto:4"],
    "--max_batch_size": ["8"],
    "--device": ["cuda:0"],
    "--use_cache": ["cache/requests"],
    "--cache_requests": [],
    "--verbosity": ["DEBUG"],
    "--wandb_args": ["project=x", "name=y"],
    "--wandb_config_args": ["a=1"],
    "--trackio_args": ["project=x"],
    "--hf_hub_log_args": ["push_results_to_hub=True", "hub_results_org=x"],
    "--check_integrity": [],
    "--show_config": [],
    "--trust_remote_code": [],
}


def test_flags_that_have_nothing_to_do_here_are_named(tmp_path: Path) -> None:
    """Each is taken with its words, does nothing, and says why on stderr."""
    flags = [word for flag, words in IGNORED.items() for word in (flag, *words)]
    with replaying("b_em") as server:
        done = typed(["task", *endpoint(server), *flags, "-t", "g_em", "--include_path", "tasks", "-o", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    for flag in IGNORED:
        assert f"{flag.replace('_', '-')} is ignored: " in done.stderr
    assert done.stderr.count(" is ignored: ") == len(IGNORED)
    assert samples(tmp_path) == only(GOLDEN / "out" / "b_em", "g_em")


CONFIG = """\
model: local-completions
model_args: {args}
tasks: g_em,g_em_plain
include_path: tasks
output_path: {out}
log_samples: true
batch_size: 4
device: null
gen_kwargs: null
limit: null
apply_chat_template: false
seed: [0, 1234, 1234, 1234]
"""


@pytest.mark.parametrize("args", ["text", "mapping"])
def test_a_configuration_file_of_the_harness_is_understood(args: str, tmp_path: Path) -> None:
    """Its names, `a,b` for a list, null for nothing; what is ignored is named."""
    config = tmp_path / "run.yaml"
    with replaying("b_em") as server:
        url = f"{server.url}/completions"
        model = f"model=org/Fake-1.0,base_url={url},num_concurrent=1"
        mapping = {"model": "org/Fake-1.0", "base_url": url, "num_concurrent": 1}
        given = model if args == "text" else json.dumps(mapping)
        config.write_text(CONFIG.format(args=given, out=tmp_path / "out"))
        done = typed(["task", "-C", str(config)])
        assert done.returncode == 0, done.stderr
        asked = len(server.bodies)
        other = ["--tasks", "g_em", "--seed", "7", "--output-path", str(tmp_path / "other")]
        again = typed(["task", "--config", str(config), *other])
    assert samples(tmp_path / "out") == only(GOLDEN / "out" / "b_em", "g_em", "g_em_plain")
    assert [line for line in done.stderr.splitlines() if "ignored" in line] == [
        "--batch-size is ignored: requests are never batched; --concurrency sets how many are sent at once"
    ]
    assert again.returncode == 0, again.stderr
    assert {body["seed"] for body in server.bodies[asked:]} == {7}, "flags win over the file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks: true", "option 'tasks': Expected `array`, got `bool`"),
        ("1: 2", "there is no option named '1'"),
        ("seed: []", "--seed takes one number or four, found []"),
        ("seed: [1, [2]]", "--seed takes one number or four, found [1, [2]]"),
        ("seed: [.inf]", "--seed takes one number or four, found [inf]"),
    ],
)
def test_a_wrong_value_of_a_configuration_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(text)
    done = typed(["task", "--config", str(config)])
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_a_wrong_key_of_a_configuration_file_is_named(tmp_path: Path) -> None:
    """Nothing is guessed."""
    (tmp_path / "run.yaml").write_text("model: local-completions\nouput_dir: x\n")
    done = typed(["task", "-C", str(tmp_path / "run.yaml")])
    assert done.returncode == 2
    assert "run.yaml: there is no option named 'ouput_dir'; did you mean 'output_dir'" in done.stderr


def test_pairs_may_hold_lists_and_stand_apart(tmp_path: Path) -> None:
    """`stop=["a","b"]` is one pair; words, commas and a flag given twice are the same."""
    kwargs = [
        "--gen_kwargs",
        "temperature=0.5",
        'until=["Q:", "X,Y"]',
        "--gen_kwargs=top_p=0.9,max_gen_toks=7",
    ]
    with LoopbackServer(lambda body: (200, {"choices": [{"text": "Paris"}]})) as server:
        words = [*endpoint(server), *kwargs, "-t", "g_em", "--include_path", "tasks", "-L1"]
        done = typed(["task", *words, "-o", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    (body,) = server.bodies
    expected = {"temperature": 0.5, "stop": ["Q:", "X,Y"], "top_p": 0.9, "max_tokens": 7}
    assert {key: body[key] for key in expected} == expected


SEEDS: dict[str, list[int | None]] = {
    "": [0, 1234, 1234, 1234],
    "42": [42, 42, 42, 42],
    "1,2,3,4": [1, 2, 3, 4],
    "1,2,3": [1, 2, 3, 1234],
    "0,None,8,52": [0, None, 8, 52],
    "1,2,3,None": [1, 2, 3, 1234],
}


@pytest.mark.parametrize("given", SEEDS)
def test_four_seeds_as_the_harness_takes_them(given: str, tmp_path: Path) -> None:
    """One number for all, four, or three; a run that can be continued always has one for its examples."""
    with replaying("c_fewshot") as server:
        done = typed(
            ["task", *endpoint(server), "-t", "g_fs_first_n", "--include_path", "tasks", "-L", "1"]
            + (["--seed", given] if given else [])
            + ["-o", str(tmp_path)]
        )
    assert done.returncode == 0, done.stderr
    config = results(tmp_path)["config"]
    names = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
    assert [config[name] for name in names] == SEEDS[given]
    assert server.bodies[0]["seed"] == SEEDS[given][-1]
    assert ("instead of None" in done.stderr) == given.endswith("None")


CHAT = {
    "--apply_chat_template": ("messages", ""),
    "--apply_chat_template true": ("messages", ""),
    "--apply_chat_template chatml": ("messages", "the chat template 'chatml' is ignored"),
    "--apply_chat_template=false": ("text", ""),
}


@pytest.mark.parametrize("flags", CHAT)
def test_a_template_may_have_a_name(flags: str, tmp_path: Path) -> None:
    """The harness takes a name after the flag; it is no task. Endpoints apply their own, which is said."""
    shape, said = CHAT[flags]
    with LoopbackServer(lambda body: (200, chat("12"))) as server:
        words = [*endpoint(server, "local-chat-completions"), "-t", "g_fs_first_n", *flags.split()]
        done = typed(["task", *words, "--include_path", "tasks", "-L", "1", "-o", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert len(server.bodies[0]["messages"]) == (8 if shape == "messages" else 1)
    assert said in done.stderr
    assert ("ignored" in done.stderr) == bool(said)


# L1: a file as --output_path


def files_of(folder: Path) -> list[str]:
    """Names of all files below a folder that are not in a run folder, without their times."""
    found = [path for path in folder.rglob("*") if path.is_file() and "assay" not in path.parts]
    return sorted(re.sub(r"_20\d\d-[\d.T-]+\.json", "_T.json", str(path.relative_to(folder))) for path in found)


def test_a_results_file_is_written_beside_its_samples_without_a_folder_of_the_model(tmp_path: Path) -> None:
    """As by the harness: `x/res.json` is `x/res_<time>.json`. The same command shows the finished run."""
    with replaying("b_em") as server:
        words = ["task", *endpoint(server), "-t", "g_em", "--include_path", "tasks"]
        done = typed([*words, "--output_path", str(tmp_path / "x" / "res.json")])
        asked = len(server.bodies)
        again = typed([*words, "-o", str(tmp_path / "x" / "res.json")])
        assert done.returncode == again.returncode == 0, done.stderr
        assert len(server.bodies) == asked
        assert files_of(tmp_path) == ["x/res_T.json", "x/samples_g_em_T.jsonl"]
        assert [path.name for path in tmp_path.iterdir()] == ["x"]
        (run,) = (tmp_path / "x" / "assay").glob("*/run.json")
        (samples_file,) = tmp_path.rglob("samples_*.jsonl")
        assert samples_file.read_bytes() == samples(GOLDEN / "out" / "b_em")["g_em"]
        # Another name is another file of the same run.
        other = typed([*words, "--output_path", str(tmp_path / "x" / "other.json")])
        assert other.returncode == 0, other.stderr
        assert len(server.bodies) == asked
        assert list((tmp_path / "x" / "assay").glob("*/run.json")) == [run]
        assert files_of(tmp_path) == ["x/other_T.json", "x/res_T.json", "x/samples_g_em_T.jsonl"]
    rescored = typed(["rescore", str(run.parent)])
    assert rescored.returncode == 0, rescored.stderr
    assert len(files_of(tmp_path)) == 3
    (written,) = (tmp_path / "x").glob("other_*.json")
    imported = typed(["import", str(written), "--output-dir", str(tmp_path / "imported")])
    assert imported.returncode == 0, imported.stderr
    assert "there is no samples file" not in imported.stdout + imported.stderr


def test_a_run_with_a_results_file_is_continued(tmp_path: Path) -> None:
    """It is found beside the file, also if the file is in the current folder."""
    with replaying("b_em") as server:
        words = ["task", *endpoint(server), "-t", str(GOLDEN / "tasks" / "b_em.yaml"), "-o", "res.json"]
        (tmp_path / "data").symlink_to(GOLDEN / "data")
        stopped = typed([*words, "--max-calls", "3"], tmp_path)
        assert stopped.returncode == 3, stopped.stderr
        done = typed(words, tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(list((tmp_path / "assay").glob("*/run.json"))) == 1
        assert len(list(tmp_path.glob("res_20*.json"))) == 1
    (samples_file,) = tmp_path.glob("samples_*.jsonl")
    assert samples_file.read_bytes() == samples(GOLDEN / "out" / "b_em")["g_em"]

"""settings.yaml: models, profiles, keys, and everything that can be wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.core.errors import InputError, UsageError
from assay.suites.hop.settings import (
    LlmSettings,
    Profile,
    default_settings,
    find_settings,
    full_model,
    key_variable,
    load_settings,
)

from support.hop_batch import Batch, lines_of, numbered

GOOD = """\
defaults: {temperature: 0.1, max_tokens: 4000}
llms:
  kimi-k2.5:
    base_url: https://example.org/v1
    model: Kimi-K2-Instruct-0905
    params: {temperature: 0.7, stop: ["\\n"]}
  small: {model: local/smollm2}
profiles:
  kimi-full: {run: kimi-k2.5, verify: kimi-k2.5}
  mixed: {run: small, verify: kimi-k2.5}
  alone: {run: small}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    return path


def problems(tmp_path: Path, text: str) -> list[str]:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as actual:
        load_settings(path)
    return [str(problem).removeprefix(str(path) + ":") for problem in actual.value.problems]


def test_a_file_as_the_notes_have_it(tmp_path: Path) -> None:
    """Parameters are the defaults with the llm's own over them; a bare model is one of an OpenAI-like endpoint."""
    settings = load_settings(written(tmp_path, GOOD))
    kimi = settings.llms["kimi-k2.5"]
    assert kimi.model == "openai/Kimi-K2-Instruct-0905"
    assert kimi.model_name == "Kimi-K2-Instruct-0905"
    assert kimi.params == {"temperature": 0.7, "max_tokens": 4000, "stop": ["\n"]}
    assert (kimi.base_url, kimi.key_variable) == ("https://example.org/v1", "HOP_KEY_KIMI_K2_5")
    assert settings.llms["small"].params == settings.defaults == {"temperature": 0.1, "max_tokens": 4000}
    assert settings.profiles["mixed"] == Profile(name="mixed", run="small", verify="kimi-k2.5")
    assert settings.models(settings.profiles["mixed"]) == (settings.llms["small"], kimi)


def test_an_llm_may_say_whether_its_endpoint_takes_schemas(tmp_path: Path) -> None:
    """Unsaid, the provider knows; anything but a truth is refused."""
    told = GOOD.replace("{model: local/smollm2}", "{model: local/smollm2, json_schema: false}")
    llms = load_settings(written(tmp_path, told)).llms
    assert (llms["small"].json_schema, llms["kimi-k2.5"].json_schema) == (False, None)
    assert "json_schema" in problems(tmp_path, told.replace("false", "maybe"))[0]


def test_a_profile_that_names_no_verifier_verifies_with_what_runs(tmp_path: Path) -> None:
    assert load_settings(written(tmp_path, GOOD)).profiles["alone"].verify == "small"


def test_profiles_are_chosen_by_name(tmp_path: Path) -> None:
    """None named: every one in the order of the file. Each once. Unknown ones are all told, with the nearest."""
    settings = load_settings(written(tmp_path, GOOD))
    assert [one.name for one in settings.select_profiles()] == ["kimi-full", "mixed", "alone"]
    assert [one.name for one in settings.select_profiles(["mixed", "alone", "mixed"])] == ["mixed", "alone"]
    with pytest.raises(UsageError, match="(?s)'kimi'.*kimi-full.*'zzz'"):
        settings.select_profiles(["kimi", "zzz"])


@pytest.mark.parametrize(
    ("named", "full"),
    [
        ("gpt-4o", "openai/gpt-4o"),
        ("meta-llama/Llama-3", "openai/meta-llama/Llama-3"),
        ("local/smollm2", "local/smollm2"),
        ("local", "openai/local"),
        ("openai/gpt-4o", "openai/gpt-4o"),
        ("openai-completions/x", "openai-completions/x"),
        ("", ""),
    ],
)
def test_models_get_their_provider(named: str, full: str) -> None:
    """A first part that is no provider belongs to the model's name."""
    assert full_model(named) == full


def test_a_key_comes_from_the_llms_own_variable_or_the_common_one() -> None:
    """Both names are compared in capitals, with `_` for `-` and `.`; an empty variable is none."""
    llm = LlmSettings(name="x-y.z", model="openai/m", key_variable=key_variable("x-y.z"))
    assert llm.key_variable == "HOP_KEY_X_Y_Z"
    assert llm.key_in({"HOP_KEY_X_Y_Z": "k", "OPENAI_API_KEY": "o"}) == "HOP_KEY_X_Y_Z"
    assert llm.key_in({"HOP_KEY_x-y.z": "k"}) == "HOP_KEY_x-y.z"
    assert llm.key_in({"HOP_KEY_x-y.z": "k", "HOP_KEY_X_Y_Z": "k"}) == "HOP_KEY_X_Y_Z"
    assert llm.key_in({"HOP_KEY_X_Y_Z": "", "OPENAI_API_KEY": "o"}) == "OPENAI_API_KEY"
    assert llm.key_in({"OPENAI_API_KEY": "", "HOP_KEY_OTHER": "k"}) == "HOP_KEY_X_Y_Z"
    strange = LlmSettings(name="模型", model="openai/m", key_variable=key_variable("模型"))
    assert strange.key_in({}) == "OPENAI_API_KEY"


def test_without_a_file_the_model_runs_and_verifies() -> None:
    settings = default_settings("gpt-4o", "http://here/v1")
    (profile,) = settings.select_profiles()
    assert profile == Profile(name="default", run="default", verify="default")
    run, verify = settings.models(profile)
    assert run is verify
    assert (run.model, run.base_url, run.key_variable) == (
        "openai/gpt-4o",
        "http://here/v1",
        "OPENAI_API_KEY",
    )


def test_everything_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    """Wrong types, missing models, unknown llms and keys, in one error."""
    actual = problems(
        tmp_path,
        "defaults: [1]\nllms:\n  a: {base_url: ftp://x, params: 3}\n  b: {model: 4, temprature: 1}\n  c: text\n"
        "  1: {model: m}\nprofiles:\n  p: {run: nobody, verify: a}\n  q: {verify: a, runn: a}\n  r: 3\nprofile: x\n",
    )
    assert {line.partition(":")[0] for line in actual} == {"1", "3", "4", "5", "6", "8", "9", "10", "11"}
    text = "\n".join(actual)
    for part in (
        "defaults: expected a mapping, found [1]",
        "llms.a.model: an llm needs a model",
        "llms.a.base_url: a base URL begins with http",
        "llms.a.params: expected a mapping",
        "llms.b.model: expected a text, found 4",
        "llms.b.temprature: there is no key named 'temprature'",
        "put request parameters under `params`",
        "llms.c: expected a mapping",
        "put 1 in quotes",
        "profiles.p.run: there is no llm named 'nobody'",
        "profiles.q.run: a profile needs the llm that answers",
        "profiles.r: expected a mapping, found 3",
        "did you mean 'profiles'?",
    ):
        assert part in text, part


@pytest.mark.parametrize("text", ["{}\n", "llms: {}\nprofiles: {}\n", "defaults: {}\n"])
def test_a_file_without_models_or_profiles_is_refused(tmp_path: Path, text: str) -> None:
    actual = "\n".join(problems(tmp_path, text))
    assert "at least one entry under `llms`" in actual
    assert "at least one entry under `profiles`" in actual


@pytest.mark.parametrize(
    "line",
    [
        "  a: {model: m, api_key: hidden-value}",
        "  a: {model: m, apiKey: hidden-value}",
        "  a: {model: m, params: {extra_headers: {Authorization: hidden-value}}}",
        "  a: {model: m, params: {headers: [sk-hidden-value]}}",
        "  a: {model: m, params: {user: 'Bearer hidden-value'}}",
        "  a: {model: m, openai_api_key: hidden-value}",
        "  a: {model: m, base_url: 'https://me:hidden-value@host/v1'}",
        "  a: {model: m, base_url: 'me:hidden-value@host/v1'}",
    ],
)
def test_secrets_are_refused_and_never_shown(tmp_path: Path, line: str) -> None:
    (problem,) = problems(tmp_path, f"llms:\n{line}\nprofiles: {{p: {{run: a}}}}\n")
    assert problem.startswith("2: llms.a.")
    assert "HOP_KEY_" in problem
    assert "hidden-value" not in problem


@pytest.mark.parametrize("url", ["https://host/v1?api_key=hidden-value", "host/v1?api_key=hidden-value"])
def test_a_query_of_a_base_url_is_refused_and_never_shown(tmp_path: Path, url: str) -> None:
    (problem,) = problems(tmp_path, f"llms:\n  a: {{model: m, base_url: '{url}'}}\nprofiles: {{p: {{run: a}}}}\n")
    assert problem.startswith("2: llms.a.base_url: ")
    assert "hidden-value" not in problem


def test_names_and_numbers_of_tokens_are_no_secrets(tmp_path: Path) -> None:
    """An llm may be called `key`, and `max_tokens` is a number."""
    text = "defaults: {max_tokens: 5, stop_token_ids: [1]}\nllms: {key: {model: m}}\nprofiles: {token: {run: key}}\n"
    assert load_settings(written(tmp_path, text)).profiles["token"].run == "key"


def test_parameters_must_be_json(tmp_path: Path) -> None:
    """A date, `.nan` and a key that is no text cannot be sent."""
    text = (
        "defaults: {seed: 2020-01-01, top_p: .nan, 1: 2, x: {yes: 1}}\nllms: {a: {model: m}}\nprofiles: {p: {run: a}}\n"
    )
    assert len(problems(tmp_path, text)) == 4


def test_keys_that_are_not_acted_on_are_told(tmp_path: Path) -> None:
    text = "llms: {a: {model: m, protocol: openai}}\nprofiles: {p: {run: a}}\n"
    (notice,) = load_settings(written(tmp_path, text)).notices
    assert "settings.yaml:1: llms.a.protocol: " in notice


def test_where_settings_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one given, beside the target, in the task's folder, three levels above, here: the first that is there."""
    task = tmp_path / "a" / "b" / "c" / "d" / "task"
    hoplet, here = task / "Hoplet", tmp_path / "here"
    for folder in (hoplet, here):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    assert find_settings(None, hoplet, task) is None
    too_high = tmp_path / "a" / "settings.yaml"
    too_high.write_text("")
    assert find_settings(None, hoplet, task) is None
    order = [here, task.parents[2], task.parents[0], task, hoplet]
    for folder in order:
        (folder / "settings.yaml").write_text("")
        assert find_settings(None, hoplet, task) == folder / "settings.yaml"
    assert find_settings(str(too_high), hoplet, task) == too_high
    with pytest.raises(UsageError, match="no settings file 'gone.yaml'"):
        find_settings("gone.yaml", hoplet, task)


ASKING = "async def hop(n, session):\n    return {'said': await session.model.chat('?')}\n"


@pytest.mark.parametrize("model", ["script/replies.jsonl", "python/model.py:answer", "script/inner/replies.jsonl"])
def test_files_of_models_are_looked_for_beside_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """From whatever folder the command is typed; results name the model as the settings do."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    batch = Batch(tmp_path / "project", ASKING, numbered(1))
    (batch.folder / "inner").mkdir()
    for folder in (batch.folder, batch.folder / "inner"):
        (folder / "replies.jsonl").write_text('{"text": "found"}\n')
    (batch.folder / "model.py").write_text("def answer(messages, params): return 'found'\n")
    (batch.folder / "settings.yaml").write_text(f"llms: {{x: {{model: '{model}'}}}}\nprofiles: {{p: {{run: x}}}}\n")
    run = batch.run()
    meta, row = lines_of(run)
    assert (meta["run_llm"], row["hop_result"]) == (model.partition("/")[2], '{"said": "found"}')


def test_a_missing_file_of_a_model_is_told_with_the_line_of_the_settings(tmp_path: Path) -> None:
    batch = Batch(tmp_path, ASKING, numbered(1))
    path = tmp_path / "settings.yaml"
    path.write_text("llms:\n  x:\n    model: script/gone.jsonl\nprofiles: {p: {run: x}}\n")
    with pytest.raises(UsageError, match=rf"^{re.escape(str(path))}:3: script/gone\.jsonl: there is no file"):
        batch.run()

"""Reads `settings.yaml`: the models of a HOP project, and its profiles.

    llms:
      small: {model: local/smollm2}
      large: {model: gpt-4o, params: {temperature: 0}}
    profiles:
      careful: {run: small, verify: large}

A profile names the model that answers and the one that verifies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from assay.core.envfile import COMMON_KEY, NAME, OWN_KEY, normalised
from assay.core.errors import InputError, Problem, UsageError, similar_file, unknown
from assay.core.roles import split_urls, with_provider
from assay.files.schema import KeyPath, convert, refuse
from assay.files.yaml_files import load_yaml
from assay.usercode.definitions import model_file_problem

DEFAULT = "default"
NAMES = ("settings.yaml", "settings.yml")
# Parents of a task folder that are searched for settings. HOP keeps one file for all tasks of a project.
_FOLDERS_ABOVE = 3
SETTINGS_KEYS = ("defaults", "llms", "profiles", "shared_endpoint")
PROFILE_KEYS = ("run", "verify", "description")
# Keys of HOP's settings that have no meaning here.
_UNUSED_KEYS = ("protocol", "inference_engine")
LLM_KEYS = ("model", "base_url", "params", "json_schema", "description", *_UNUSED_KEYS)
# Names of keys, and beginnings of values, that look like credentials. Settings are copied to the run folder,
# so they must not contain any.
_SECRET = re.compile(
    r"(.*[_-])?(api[_-]?keys?|secret([_-]key)?|password|passwd|authorization|credentials?)"
    r"|((access|auth|bearer|api)[_-])?token|key",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(r"\s*(sk-\w|bearer\s)", re.IGNORECASE)


class LlmSettings(Struct, frozen=True, kw_only=True):
    """An entry of `llms`: a model under the name that profiles use. `params` include the defaults."""

    name: str
    model: str
    base_url: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    json_schema: bool | None = None
    """True if the endpoint supports structured output. With None the provider decides."""
    key_variable: str = COMMON_KEY
    where: str = ""
    """File and line that name the model; empty for `--model`."""
    folder: str = ""
    """The folder of that file."""

    @property
    def model_name(self) -> str:
        """The name without the provider, for meta lines."""
        return self.model.partition("/")[2]

    def key_in(self, environment: Mapping[str, str] = os.environ, file: Collection[str] = ()) -> str:
        """Return the name of the variable with the API key: the model's own variable, else the common one.

        The own variable may be spelled `HOP_KEY_X_Y` or `HOP_KEY_x-y`. `file` has the variable names of a
        `.env` file; the environment takes precedence. If no variable is set, the result is the one to name
        in an error message: the own one, if a shell can set a variable of that name.
        """
        own = [name for name, value in environment.items() if value and normalised(name) == self.key_variable]
        if own:
            return min(own, key=lambda name: name != self.key_variable)
        if self.key_variable in file:
            return self.key_variable
        has_common_key = environment.get(COMMON_KEY) or COMMON_KEY in file
        can_be_set = self.key_variable.isascii() and self.key_variable.isidentifier()
        return self.key_variable if can_be_set and not has_common_key else COMMON_KEY


class Profile(Struct, frozen=True, kw_only=True):
    """A pair of models to compare: `run` answers, `verify` verifies. Both are names under `llms`."""

    name: str
    run: str
    verify: str


class HopSettings(Struct, frozen=True, kw_only=True):
    """The content of a settings file.

    `notices` are its warnings. `env_file` is the path of a `.env` with API keys, or "". `shared_endpoint`
    sets OPENAI_BASE_URL to the run's model, for functions that create their own client.
    """

    llms: dict[str, LlmSettings]
    profiles: dict[str, Profile]
    defaults: dict[str, Any] = field(default_factory=dict)
    shared_endpoint: bool = False
    notices: tuple[str, ...] = ()
    env_file: str = ""

    def select_profiles(self, names: Iterable[str] = ()) -> list[Profile]:
        """Return the named profiles, each once. Without names return all, in the order of the file."""
        selected = list(dict.fromkeys(names)) or list(self.profiles)
        missing = [name for name in selected if name not in self.profiles]
        if missing:
            raise UsageError("\n".join(unknown("profile", name, list(self.profiles)) for name in missing))
        return [self.profiles[name] for name in selected]

    def models(self, profile: Profile) -> tuple[LlmSettings, LlmSettings]:
        """Return the model that answers and the model that verifies."""
        return self.llms[profile.run], self.llms[profile.verify]


def default_settings(model: str, base_url: str | None = None) -> HopSettings:
    """Return settings for a project without a file: one profile, in which `--model` answers and verifies."""
    llm = LlmSettings(name=DEFAULT, model=full_model(model), base_url=base_url)
    profile = Profile(name=DEFAULT, run=DEFAULT, verify=DEFAULT)
    return HopSettings(llms={DEFAULT: llm}, profiles={DEFAULT: profile})


def find_settings(path: str | None, code_folder: Path, task: Path) -> Path | None:
    """Return the settings file: `path` if given, else the first one found, else None.

    The search covers the folder of the function, the task folder, its parents, and the current folder.
    """
    if path is not None:
        if not Path(path).is_file():
            raise UsageError(f"there is no settings file {path!r}{similar_file(Path(path))}")
        return Path(path)
    task = task.resolve()
    folders = [code_folder.resolve(), task, *list(task.parents)[:_FOLDERS_ABOVE], Path.cwd()]
    for folder in folders:
        for name in NAMES:
            if (folder / name).is_file():
                return folder / name
    return None


def load_settings(path: Path) -> HopSettings:
    """Return the settings of a file. Raises InputError with every problem in it."""
    return _SettingsReader(path).settings()


def settings_problems(path: Path) -> list[Problem]:
    """Return all errors and warnings of a settings file. Raises InputError if it is not YAML."""
    reader = _SettingsReader(path)
    with suppress(InputError):
        reader.settings()
    reader.check_model_files()
    return list(dict.fromkeys(reader.problems))


def full_model(name: str, base_url: str | None = None) -> str:
    """Return `PROVIDER/NAME`. A name that does not start with a known provider gets `openai/` in front."""
    return with_provider(name, base_url) if name else ""


def key_variable(name: str) -> str:
    """Return the variable of a model's API key: `HOP_KEY_X_Y_Z` for an llm named `x-y.z`."""
    return normalised(f"{OWN_KEY}{name}")


class _SettingsReader:
    def __init__(self, path: Path) -> None:
        self._yaml = load_yaml(path)
        self.problems: list[Problem] = []

    def settings(self) -> HopSettings:
        value = self._yaml.value
        self._check_keys(value, SETTINGS_KEYS)
        for path in _find_secrets(value):
            message = "remove the API key from this file; set HOP_KEY_<LLM> or OPENAI_API_KEY instead"
            self._add(path, message)
        defaults = self._params(value, "defaults")
        llms = {name: self._llm(name, entry, defaults) for name, entry in self._block("llms")}
        profiles = {name: self._profile(name, entry) for name, entry in self._block("profiles")}
        shared_endpoint = self._typed(value, "shared_endpoint", bool)
        refuse(self.problems, self._yaml.path)
        return HopSettings(
            llms=llms,
            profiles=profiles,
            defaults=defaults,
            shared_endpoint=shared_endpoint or False,
            notices=tuple(map(str, dict.fromkeys(self.problems))),
            env_file=_env_file(self._yaml.path),
        )

    def check_model_files(self) -> None:
        """Add a problem for each llm whose Python function or file of replies does not exist.

        A run says so of the llms that its profiles use. It does not need the others.
        """
        for name, entry in self._block("llms"):
            model = entry.get("model")
            if isinstance(model, str) and (problem := model_file_problem(model.strip(), self._yaml.path)):
                self._add(("llms", name, "model"), problem)

    def _add(self, path: KeyPath, message: str, level: str = "error") -> None:
        self.problems.append(self._yaml.problem(path, message, level))

    def _typed(self, value: dict[str, Any], key: str, schema: Any, path: KeyPath = ()) -> Any:
        """Return the value of a key, or None if it is absent. Adds a problem if it has another type."""
        if value.get(key) is None:
            return None
        return convert(value[key], schema, self._yaml, self.problems, (*path, key))

    def _check_keys(self, value: dict[str, Any], names: tuple[str, ...], path: KeyPath = ()) -> None:
        for key in value:
            if key not in names:
                self._add((*path, str(key)), unknown("key", str(key), sorted(names)))

    def _block(self, block: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the mappings of a block by name. Adds a problem for every other entry."""
        entries = self._typed(self._yaml.value, block, dict[Any, Any])
        if not entries:
            # If the block has a wrong type, _typed has already added a problem.
            if entries is not None or self._yaml.value.get(block) is None:
                self._add((block,), f"settings need at least one entry under `{block}`")
            return
        for name, entry in entries.items():
            if not isinstance(name, str) or not name.strip():
                self._add((block, str(name)), f"a name must be a text; put {name!r} in quotes")
            elif not isinstance(entry, dict):
                self._add((block, name), f"expected a mapping, found {entry!r}")
            else:
                yield name, entry

    def _llm(self, name: str, entry: dict[str, Any], defaults: dict[str, Any]) -> LlmSettings:
        path = ("llms", name)
        for key in entry:
            if key not in LLM_KEYS and not _SECRET.fullmatch(str(key)):
                message = unknown("key", str(key), list(LLM_KEYS))
                self._add((*path, str(key)), f"{message} (put request parameters under `params`)")
        model = self._typed(entry, "model", str, path)
        if not (model and model.strip()) and (model is not None or entry.get("model") is None):
            self._add((*path, "model"), "an llm needs a model: its name, or PROVIDER/NAME")
        for key in _UNUSED_KEYS:
            if key in entry:
                message = "this key is ignored: the provider of the model decides the protocol"
                self._add((*path, key), message, "warning")
        params = self._params(entry, "params", path)
        url = self._url(entry, path)
        return LlmSettings(
            name=name,
            model=full_model((model or "").strip(), url),
            base_url=url,
            params=defaults | params,
            json_schema=self._typed(entry, "json_schema", bool, path),
            key_variable=key_variable(name),
            where=self._yaml.where(*path, "model"),
            folder=str(self._yaml.path.parent),
        )

    def _url(self, entry: dict[str, Any], path: KeyPath) -> str | None:
        url: str | None = self._typed(entry, "base_url", str, path)
        if url is None:
            return None
        if "@" in (url.partition("//")[2] or url).partition("/")[0]:
            message = "remove the credentials from base_url: it is saved in the run folder. Set HOP_KEY_<LLM> instead"
            self._add((*path, "base_url"), message)
        else:
            try:
                split_urls(url)
            except UsageError as error:
                self._add((*path, "base_url"), str(error))
        return url

    def _params(self, entry: dict[str, Any], key: str, path: KeyPath = ()) -> dict[str, Any]:
        params: dict[Any, Any] = self._typed(entry, key, dict[Any, Any], path) or {}
        for name, value in params.items():
            if not isinstance(name, str):
                self._add((*path, key, str(name)), f"a parameter name must be a text; put {name!r} in quotes")
            elif not _is_json(value):
                self._add((*path, key, name), f"expected a JSON value, found {value!r}")
        return params

    def _profile(self, name: str, entry: dict[str, Any]) -> Profile:
        path = ("profiles", name)
        self._check_keys(entry, PROFILE_KEYS, path)
        run = self._side(entry, "run", path)
        if entry.get("run") is None:
            self._add((*path, "run"), "a profile needs the llm that answers: `run: NAME`")
        return Profile(name=name, run=run, verify=self._side(entry, "verify", path) or run)

    def _side(self, entry: dict[str, Any], side: str, path: KeyPath) -> str:
        name: str | None = self._typed(entry, side, str, path)
        llms = self._yaml.value.get("llms")
        names = [str(llm) for llm in llms] if isinstance(llms, dict) else []
        if name is not None and name not in names:
            self._add((*path, side), unknown("llm", name, names))
        return name or ""


def _env_file(settings: Path) -> str:
    """Return the path of the `.env` in the folder of the settings, else in the current folder, else ""."""
    candidates = (folder / NAME for folder in (settings.resolve().parent, Path.cwd()))
    return str(next((path for path in candidates if path.is_file()), ""))


def _find_secrets(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of every key or value that looks like a credential.

    The names of llms and profiles are not searched: a model may be called `token`.
    """
    if isinstance(value, str) and _SECRET_TEXT.match(value):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            if path not in (("llms",), ("profiles",)) and _SECRET.fullmatch(str(key)):
                yield (*path, str(key))
            else:
                yield from _find_secrets(item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_secrets(item, (*path, index))


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, (str, int))

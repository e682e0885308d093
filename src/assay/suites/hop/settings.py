"""`settings.yaml`: the models of a HOP project, and profiles that say which one runs and which verifies."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from assay.core import registry
from assay.core.envfile import COMMON_KEY, NAME, OWN_KEY, normalised
from assay.core.errors import InputError, Problem, UsageError
from assay.core.registry import unknown
from assay.core.schema import KeyPath, convert, refuse
from assay.core.yamlfile import load_yaml

DEFAULT = "default"
NAMES = ("settings.yaml", "settings.yml")
_FOLDERS_ABOVE = 3
SETTINGS_KEYS = ("defaults", "llms", "profiles", "shared_endpoint")
PROFILE_KEYS = ("run", "verify", "description")
_UNUSED_KEYS = ("protocol", "inference_engine")
LLM_KEYS = ("model", "base_url", "params", "json_schema", "description", *_UNUSED_KEYS)
_SECRET = re.compile(
    r"(.*[_-])?(api[_-]?keys?|secret([_-]key)?|password|passwd|authorization|credentials?)"
    r"|((access|auth|bearer|api)[_-])?token|key",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(r"\s*(sk-\w|bearer\s)", re.IGNORECASE)


class LlmSettings(Struct, frozen=True, kw_only=True):
    """A model under the name that profiles use. `params` are those of its own over the defaults."""

    name: str
    model: str
    base_url: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    json_schema: bool | None = None
    """Whether its endpoint holds replies to a schema; unsaid, its provider knows."""
    key_variable: str = COMMON_KEY

    @property
    def model_name(self) -> str:
        """Without its provider, as meta lines show it."""
        return self.model.partition("/")[2]

    def key_in(self, environment: Mapping[str, str] = os.environ, file: Collection[str] = ()) -> str:
        """The variable that holds its key: its own, however it is spelt, else the one common to all.

        `file` has the names of a `.env`; the environment wins over it. Where neither has one it is the one to
        set, if a shell can do that.
        """
        own = [name for name, value in environment.items() if value and normalised(name) == self.key_variable]
        if own:
            return min(own, key=lambda name: name != self.key_variable)
        if self.key_variable in file:
            return self.key_variable
        common = environment.get(COMMON_KEY) or COMMON_KEY in file
        settable = self.key_variable.isascii() and self.key_variable.isidentifier()
        return self.key_variable if settable and not common else COMMON_KEY


class Profile(Struct, frozen=True, kw_only=True):
    """What is compared: the names of the llm that runs and of the one that verifies."""

    name: str
    run: str
    verify: str


class HopSettings(Struct, frozen=True, kw_only=True):
    """Everything a settings file says; `notices` are for people, `env_file` may hold keys.

    `shared_endpoint`: OPENAI_BASE_URL leads to the run's model, for functions that cannot be told an address.
    """

    llms: dict[str, LlmSettings]
    profiles: dict[str, Profile]
    defaults: dict[str, Any] = field(default_factory=dict)
    shared_endpoint: bool = False
    notices: tuple[str, ...] = ()
    env_file: str = ""

    def chosen(self, names: Iterable[str] = ()) -> list[Profile]:
        """The profiles of these names, each once; without names every one, in the order of the file."""
        wanted = list(dict.fromkeys(names)) or list(self.profiles)
        wrong = [name for name in wanted if name not in self.profiles]
        if wrong:
            raise UsageError("\n".join(unknown("profile", name, list(self.profiles)) for name in wrong))
        return [self.profiles[name] for name in wanted]

    def models(self, profile: Profile) -> tuple[LlmSettings, LlmSettings]:
        """The one that runs and the one that verifies."""
        return self.llms[profile.run], self.llms[profile.verify]


def default_settings(model: str, base_url: str | None = None) -> HopSettings:
    """For a project without a file: one profile, in which `--model` does both."""
    llm = LlmSettings(name=DEFAULT, model=full_model(model), base_url=base_url)
    profile = Profile(name=DEFAULT, run=DEFAULT, verify=DEFAULT)
    return HopSettings(llms={DEFAULT: llm}, profiles={DEFAULT: profile})


def find_settings(named: str | None, beside: Path, task: Path) -> Path | None:
    """The file to read: the one that is named; else beside the target, in the task's folder, above it, or here."""
    if named is not None:
        if not Path(named).is_file():
            raise UsageError(f"there is no settings file {named!r}")
        return Path(named)
    task = task.resolve()
    folders = [beside.resolve(), task, *list(task.parents)[:_FOLDERS_ABOVE], Path.cwd()]
    for folder in folders:
        for name in NAMES:
            if (folder / name).is_file():
                return folder / name
    return None


def load_settings(path: Path) -> HopSettings:
    """The settings of a file; raises InputError with every problem in it."""
    return _SettingsReader(path).settings()


def settings_problems(path: Path) -> list[Problem]:
    """Everything to say of a file, warnings too; raises InputError if it is no YAML."""
    reader = _SettingsReader(path)
    with suppress(InputError):
        reader.settings()
    return list(dict.fromkeys(reader.problems))


def full_model(name: str) -> str:
    """`PROVIDER/NAME`; a name whose first part is no provider of ours is one of an OpenAI-like endpoint."""
    provider, slash, _ = name.partition("/")
    if not name or (slash and provider in registry.names("model")):
        return name
    return f"openai/{name}"


def key_variable(name: str) -> str:
    """`HOP_KEY_X_Y_Z` for an llm named `x-y.z`."""
    return normalised(f"{OWN_KEY}{name}")


class _SettingsReader:
    def __init__(self, path: Path) -> None:
        self._yaml = load_yaml(path)
        self.problems: list[Problem] = []

    def settings(self) -> HopSettings:
        value = self._yaml.value
        self._known(value, SETTINGS_KEYS)
        for path in _find_secrets(value):
            self._add(path, "a key does not belong in this file; set HOP_KEY_<LLM> or OPENAI_API_KEY instead")
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

    def _add(self, path: KeyPath, message: str, level: str = "error") -> None:
        self.problems.append(self._yaml.problem(path, message, level))

    def _typed(self, value: dict[str, Any], key: str, schema: Any, path: KeyPath = ()) -> Any:
        """The value of a key; None where it is absent, and with a problem where it has another type."""
        if value.get(key) is None:
            return None
        return convert(value[key], schema, self._yaml, self.problems, (*path, key))

    def _known(self, value: dict[str, Any], names: tuple[str, ...], path: KeyPath = ()) -> None:
        for key in value:
            if key not in names:
                self._add((*path, str(key)), unknown("key", str(key), sorted(names)))

    def _block(self, block: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The mappings of a block by name; everything else in it is a problem."""
        entries = self._typed(self._yaml.value, block, dict[Any, Any])
        if not entries:
            if entries is not None or self._yaml.value.get(block) is None:
                self._add((block,), f"settings need at least one of the {block}")
            return
        for name, entry in entries.items():
            if not isinstance(name, str) or not name.strip():
                self._add((block, str(name)), f"a name is a text; put {name!r} in quotes")
            elif not isinstance(entry, dict):
                self._add((block, name), f"expected a mapping, found {entry!r}")
            else:
                yield name, entry

    def _llm(self, name: str, entry: dict[str, Any], defaults: dict[str, Any]) -> LlmSettings:
        path = ("llms", name)
        for key in entry:
            if key not in LLM_KEYS and not _SECRET.fullmatch(str(key)):
                message = unknown("key", str(key), list(LLM_KEYS))
                self._add((*path, str(key)), f"{message} (parameters of requests stand in `params`)")
        model = self._typed(entry, "model", str, path)
        if not (model and model.strip()) and (model is not None or entry.get("model") is None):
            self._add((*path, "model"), "an llm needs a model: its name, or PROVIDER/NAME")
        for key in _UNUSED_KEYS:
            if key in entry:
                message = "every endpoint is spoken to as its provider is; this is not acted on"
                self._add((*path, key), message, "warning")
        params = self._params(entry, "params", path)
        return LlmSettings(
            name=name,
            model=full_model((model or "").strip()),
            base_url=self._url(entry, path),
            params=defaults | params,
            json_schema=self._typed(entry, "json_schema", bool, path),
            key_variable=key_variable(name),
        )

    def _url(self, entry: dict[str, Any], path: KeyPath) -> str | None:
        url: str | None = self._typed(entry, "base_url", str, path)
        if url is None:
            return None
        if not url.startswith(("http://", "https://")):
            self._add((*path, "base_url"), f"an endpoint begins with http:// or https://, not {url!r}")
        elif "@" in url.partition("//")[2].partition("/")[0]:
            message = "a password in an endpoint would be written down; set HOP_KEY_<LLM> instead"
            self._add((*path, "base_url"), message)
        return url

    def _params(self, entry: dict[str, Any], key: str, path: KeyPath = ()) -> dict[str, Any]:
        params: dict[Any, Any] = self._typed(entry, key, dict[Any, Any], path) or {}
        for name, value in params.items():
            if not isinstance(name, str):
                self._add((*path, key, str(name)), f"a parameter's name is a text; put {name!r} in quotes")
            elif not _is_json(value):
                self._add((*path, key, name), f"expected a JSON value, found {value!r}")
        return params

    def _profile(self, name: str, entry: dict[str, Any]) -> Profile:
        path = ("profiles", name)
        self._known(entry, PROFILE_KEYS, path)
        run = self._side(entry, "run", path)
        if entry.get("run") is None:
            self._add((*path, "run"), "a profile names the llm that runs: `run: NAME`")
        return Profile(name=name, run=run, verify=self._side(entry, "verify", path) or run)

    def _side(self, entry: dict[str, Any], side: str, path: KeyPath) -> str:
        name: str | None = self._typed(entry, side, str, path)
        llms = self._yaml.value.get("llms")
        known = [str(llm) for llm in llms] if isinstance(llms, dict) else []
        if name is not None and name not in known:
            self._add((*path, side), unknown("llm", name, known))
        return name or ""


def _env_file(settings: Path) -> str:
    """The `.env` beside the settings, else the one here; empty if there is none."""
    places = (folder / NAME for folder in (settings.resolve().parent, Path.cwd()))
    return str(next((place for place in places if place.is_file()), ""))


def _find_secrets(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Where something stands that looks like a key; an llm or a profile may have any name."""
    if isinstance(value, str) and _SECRET_TEXT.match(value):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            if path not in (("llms",), ("profiles",)) and _SECRET.fullmatch(str(key)):
                yield (*path, str(key))
            else:
                yield from _find_secrets(item, (*path, str(key)))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _find_secrets(item, (*path, place))


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, (str, int))

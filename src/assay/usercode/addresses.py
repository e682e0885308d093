"""Which models of a run its base URL is for. The only place that decides it, because a key is sent there.

    url = base_url_of(role, spec.model, spec.base_url, roles)     # None: the vendor's own address or variables

A base URL is for the vendor that it was given for. One of a role is for that role. That of the run is for its main
model, and for models of providers with the same key. Without a main model, or with one that has no endpoint, it is for
the models that answer or embed; without those it is for the judge. If they are of several vendors, it is for OpenAI's.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.core import registry
from assay.core.errors import UsageError
from assay.core.roles import SEVERAL, Role
from assay.usercode.plugins import describe_provider

OPENAI = "openai"


def base_url_of(role: Role, main: str, base_url: str | None, roles: Iterable[Role] = ()) -> str | None:
    """Return the base URL for a role, or None if none was given for its vendor.

    `main` is the run's model, `base_url` the run's base URL, `roles` are all models of the run. Raises UsageError if
    nobody can say which of the models it is for.
    """
    if role.base_url and role.base_url != SEVERAL:
        return role.base_url
    # A suite takes the endpoint of the connected main model for its roles. That one has no address if it is several.
    if role.base_url == SEVERAL or not base_url:
        return base_url
    return base_url if same_vendor(role.model, _owner(main, [*roles, role])) else None


def same_vendor(model: str, other: str) -> bool:
    """Return whether two models PROVIDER/NAME have the same provider, or providers that send the same key."""
    one, two = _provider(model), _provider(other)
    if one == two:
        return True
    keys = _keys(one)
    return bool(keys) and keys == _keys(two)


def _owner(main: str, roles: list[Role]) -> str:
    """Return a model of the vendor that the run's base URL is for."""
    if main and _calls_endpoint(main):
        return main
    for mark in ("ask", "score"):
        vendors: list[str] = []
        for role in roles:
            has_own = role.base_url and role.base_url != SEVERAL
            if role.mark != mark or has_own or not _calls_endpoint(role.model):
                continue
            if not any(same_vendor(role.model, vendor) for vendor in vendors):
                vendors.append(role.model)
        if len(vendors) > 1:
            if any(same_vendor(OPENAI, vendor) for vendor in vendors):
                return OPENAI
            names = " and ".join(sorted(map(_provider, vendors)))
            raise UsageError(
                f"a base URL is for one vendor, but this run has models of {names}. Remove it, and set the vendors' "
                "own variables for addresses (docs/providers.md)"
            )
        if vendors:
            return vendors[0]
    return OPENAI


def _provider(model: str) -> str:
    return model.partition("/")[0]


def _keys(provider: str) -> tuple[str, ...]:
    return describe_provider(provider).keys if registry.is_known("model", provider) else ()


def _calls_endpoint(model: str) -> bool:
    """Return whether a model is behind an address. A run may be of a provider that is no longer installed."""
    provider = _provider(model)
    return not registry.is_known("model", provider) or describe_provider(provider).calls_endpoint

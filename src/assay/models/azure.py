"""Provider `azure/NAME`: chat models of Azure OpenAI. NAME is the name of the deployment.

Requests go to `/openai/deployments/NAME/chat/completions?api-version=…`. A base URL that ends with `/openai/v1` means
Azure's newer API, which has no version in the query and the deployment's name in `model`.
"""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, urlencode, urlsplit

from assay.core.roles import CHAT, EMBEDDINGS, About, Connection
from assay.models.http.vendor import Vendor, key_headers, vendor_url
from assay.models.openai import OpenAIModel

VENDOR = Vendor(
    "Azure OpenAI",
    "",
    ("AZURE_OPENAI_API_KEY",),
    ("AZURE_OPENAI_ENDPOINT",),
    tokens=("AZURE_OPENAI_AD_TOKEN",),
)
ABOUT = About(
    summary="chat models of Azure OpenAI, by the name of the deployment",
    needs="AZURE_OPENAI_ENDPOINT or --base-url, such as https://NAME.openai.azure.com; AZURE_OPENAI_API_KEY or "
    "AZURE_OPENAI_AD_TOKEN",
    can=frozenset({CHAT, EMBEDDINGS}),
    example="azure/my-gpt-4o",
    keys=VENDOR.keys,
    args=frozenset({"api_version"}),
)
# The newest version without `preview` in its name.
API_VERSION = "2024-10-21"


def connect(connection: Connection) -> OpenAIModel:
    """Return the model `azure/NAME`. Opens no connection yet. Raises UsageError without an endpoint or a key."""
    # Portals show the URL of a whole request, with the version in its query.
    given = urlsplit(vendor_url(connection, VENDOR))
    # Cut the path down to the resource. Only the path: a host may be called openai, too.
    resource, *rest = re.split(r"/openai(?=/|$)", given.path.rstrip("/"), maxsplit=1)
    if rest and f"{rest[0]}/".startswith("/v1/"):
        path, query = f"{resource}/openai/v1", f"?{given.query}" if given.query else ""
    else:
        version = (
            connection.args.get("api_version")
            or dict(parse_qsl(given.query)).get("api-version")
            or os.environ.get("AZURE_OPENAI_API_VERSION")
            or os.environ.get("OPENAI_API_VERSION")
            or API_VERSION
        )
        query = "?" + urlencode({"api-version": version})
        path = f"{resource}/openai/deployments/{connection.name}"
    url = f"{given.scheme}://{given.netloc}{path}"
    headers = key_headers(connection, VENDOR, "api-key")
    return OpenAIModel(connection, VENDOR, ABOUT, url=url, headers=headers, query=query)

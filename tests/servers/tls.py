"""Certificates of the tests, valid from 2020 to 2120: one that a CA of ours signed, and one that signed itself.

The signed one is for models.example, localhost, 127.0.0.1 and ::1, the other one for localhost.
"""

from __future__ import annotations

import ssl
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden" / "tls"
CA_FILE = FOLDER / "ca.pem"


def server_context(name: str = "signed") -> ssl.SSLContext:
    """Return what a server with this certificate needs: `signed`, or `cert`, which signed itself."""
    key = {"signed": "signed_key.pem", "cert": "key.pem"}[name]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / f"{name}.pem", FOLDER / key)
    return context

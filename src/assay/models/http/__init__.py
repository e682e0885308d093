"""Requests over HTTP: the client, dialects of vendors, and requests that are adapted to an endpoint."""

"""Weights of local models: downloaded, kept in a cache, checked."""

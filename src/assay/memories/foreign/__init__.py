"""Packages of others at work, each behind the contract of a memory."""

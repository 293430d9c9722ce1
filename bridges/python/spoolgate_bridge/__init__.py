"""A bridge between the outbox of a spoolgate home and an exchange. README.md says how to run it."""

__version__ = "0.1.0"

"""A client of spoolgate: signed requests to a gate between programs and money, mail and services."""

from ._core import AsyncGate, Gate, GateError, Held, NotSent, RateLimited, Refused, Root, Unknown
from ._wire import Key, KeyFileError, Request, sign
from .tools import tools

__all__ = [
    "AsyncGate",
    "Gate",
    "GateError",
    "Held",
    "Key",
    "KeyFileError",
    "NotSent",
    "RateLimited",
    "Refused",
    "Request",
    "Root",
    "Unknown",
    "sign",
    "tools",
]
__version__ = "0.3.0"

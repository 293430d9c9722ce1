"""The actions of a gate as tools for a model, in the form that any framework can take."""

from __future__ import annotations

import inspect
import json
import os
from decimal import Decimal
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from ._core import GateError, Held, NotSent, RateLimited, Refused, Unknown

with open(os.path.join(os.path.dirname(__file__), "tools.json"), encoding="utf-8") as _file:
    TOOLS: List[Dict[str, Any]] = json.load(_file)
GROUPS = sorted({group for tool in TOOLS for group in tool["groups"]})


def tools(gate: Any, groups: Optional[Sequence[str]] = None) -> List[Dict[str, Any]]:
    """Returns the tools of some groups, or all: ``[{name, description, input_schema, call}]``.

    ``call`` takes the arguments as a mapping or as JSON text, and returns a text for the model: what happened, an empty
    line, and the answer's data. A refusal is a text too. With an ``AsyncGate``, ``call`` is awaited.
    """
    unknown = sorted(set(groups or ()) - set(GROUPS))
    if unknown:
        raise ValueError(f"there is no group {unknown[0]!r}; the groups are {', '.join(GROUPS)}")
    return [
        {**{name: tool[name] for name in ("name", "description", "input_schema")}, "call": _call(gate, tool["action"])}
        for tool in TOOLS
        if groups is None or set(groups) & set(tool["groups"])
    ]


def _call(gate: Any, action: str) -> Any:
    def begin(arguments: Union[str, Mapping[str, Any], None]) -> Any:
        if isinstance(arguments, str):
            # Digits of numbers are kept, as a mapping that a framework made of JSON cannot.
            arguments = json.loads(arguments or "{}", parse_float=Decimal)
        return gate.ask(action, arguments or {})

    def call(arguments: Union[str, Mapping[str, Any], None] = None) -> str:
        try:
            return _done(begin(arguments))
        except (GateError, ValueError, TypeError) as error:
            return _failed(error)

    async def call_async(arguments: Union[str, Mapping[str, Any], None] = None) -> str:
        try:
            return _done(await begin(arguments))
        except (GateError, ValueError, TypeError) as error:
            return _failed(error)

    return call_async if inspect.iscoroutinefunction(gate._drive) else call


def _done(body: Any) -> str:
    would_be = body.get("would_be") if isinstance(body, dict) else None
    if isinstance(would_be, dict):
        return _text(f"dry run: the answer would be {would_be.get('status')}; nothing was done", body)
    order = body.get("order_id") if isinstance(body, dict) else None
    return _text(f"accepted: {order}" if order else "the gate answered", body)


def _failed(error: Exception) -> str:
    if isinstance(error, Held):
        said = f"held as {error.hold_id} until {error.expires_at}: a person decides; nothing was done yet"
    elif isinstance(error, RateLimited):
        said = f"not decided, too much at a time: wait {error.retry_after_ms or 1000} ms"
    elif isinstance(error, Refused):
        said = f"refused, {error.root.name}: {error.root.message}"
        if error.value_and_limit:
            said += f" ({error.value_and_limit})"
        if error.max_size is not None:
            said += f"; a size of at most {error.max_size} would pass" if error.max_size else "; no size would pass"
    elif isinstance(error, Unknown):
        return "no answer came: it is unknown whether it was done. Do not repeat it; look at the orders and the portfolio first"
    elif isinstance(error, NotSent):
        return f"not sent, nothing was done: {error}"
    else:
        return f"not sent, nothing was done: the arguments are wrong: {error}"
    return _text(said, error.data)


def _text(said: str, data: Any) -> str:
    if data in (None, {}):
        return said
    return f"{said}\n\n{json.dumps(_loud(data), ensure_ascii=False, default=str)}"


def _loud(data: Any) -> Any:
    """Leaves out checks that passed without a word."""
    if isinstance(data, list):
        return [_loud(part) for part in data]
    if not isinstance(data, dict):
        return data
    passed = data.get("checks_passed")
    passed = (
        [row for row in passed if not isinstance(row, dict) or row.get("reason") or row.get("warning")]
        if isinstance(passed, list)
        else passed
    )
    found = {name: _loud(part) for name, part in data.items() if name != "checks_passed"}
    return {**found, "checks_passed": passed} if passed else found

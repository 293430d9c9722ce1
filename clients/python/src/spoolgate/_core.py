"""A gate as its clients see it: each call is a signed request, and each refusal an exception."""

from __future__ import annotations

import asyncio
import re
import time
from decimal import Decimal
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Union

from ._methods import BODIES, AsyncCalls, Calls
from ._spool import Answer, NothingSent, Path, Socket, Spool, Steps
from ._wire import Json, Key, Request, sign

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
FRESH_S = 240.0  # a gate refuses requests that are older than 300 s by its own clock


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: Any) -> List[Dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


class Root(NamedTuple):
    """What refused a request first of all: the check that failed, or the code if no check did."""

    name: str
    message: str
    value: Optional[str] = None
    limit: Optional[str] = None
    unit: Optional[str] = None


class GateError(Exception):
    """An error of a request. Keep ``request.bytes`` to send it again."""

    def __init__(self, message: str, request: Request, gate: Any) -> None:
        super().__init__(f"{request.action} `{request.id}`: {message}")
        self.request, self._gate = request, gate


class NotSent(GateError):
    """Nothing was handed in, and the id is not used up."""


class Unknown(GateError):
    """No answer came in time: the gate may have decided the request, or may still decide it."""

    def again(self) -> Any:
        """Sends the same bytes again. What was decided is answered again, and nothing is done twice."""
        return self._gate.send(self.request)


class Refused(GateError):
    """The gate refused. ``retry`` says what may be sent now: ``same_id``, ``new_id``, ``after`` or ``never``."""

    def __init__(self, answer: Answer, request: Request, gate: Any) -> None:
        error, data = _dict(answer.whole.get("error")), _dict(answer.whole.get("data"))
        super().__init__(f"{error.get('code')}: {error.get('message')}", request, gate)
        self.answer: Dict[str, Any] = answer.whole
        self.data: Dict[str, Any] = data
        self.code: str = str(error.get("code"))
        self.message: str = str(error.get("message"))
        self.retry: str = str(data.get("retry", "never"))
        wait_ms = data.get("retry_after_ms", data.get("retryAfterMs"))
        self.retry_after_ms: Optional[int] = wait_ms if isinstance(wait_ms, int) else None
        self.faults: List[Dict[str, Any]] = _rows(data.get("faults"))
        # What an adapter of the operator answers is here too, so nothing is taken for granted: a decision must be reported.
        body = _dict(data.get("Rejected")) or _dict(data.get("Held"))
        rows = [row for row in _rows(body.get("checks_failed")) if isinstance(row.get("check_name"), str)]
        row = next((row for row in rows if "follows_from" not in row), rows[0] if rows else None)
        self.root = Root(self.code, self.message)
        if row is not None:
            said = row.get("reason") or self.message
            self.root = Root(row["check_name"], said, row.get("value"), row.get("limit"), row.get("unit"))
        size = _dict(body.get("headroom")).get("max_size")
        self.max_size: Optional[Decimal] = Decimal(size) if isinstance(size, str) and NUMBER.fullmatch(size) else None
        self._last = answer

    @property
    def value_and_limit(self) -> str:
        """The measured value of the check that failed, and its limit."""
        root = self.root
        return (
            f"{root.value} {root.unit}, limit {root.limit}" if root.value is not None and root.limit is not None else ""
        )


class Held(Refused):
    """A rule holds the request until a person decides, at the latest at ``expires_at``."""

    def __init__(self, answer: Answer, request: Request, gate: Any) -> None:
        super().__init__(answer, request, gate)
        held = _dict(self.data.get("Held"))
        self.hold_id: str = str(held.get("hold_id", ""))
        self.expires_at: str = str(held.get("expires_at", ""))

    def wait(self, seconds: float) -> Any:
        """Waits for the final answer, and returns or raises it; raises itself again if none came."""
        return self._gate._drive(self._gate._final(self, time.monotonic() + seconds))


class RateLimited(Refused):
    """Too much at a time. The request was not decided, and its id is not used up."""

    _next: Optional[Request] = None

    def again(self) -> Any:
        """Waits as long as the gate asks, then sends the same bytes, or the payload under a fresh id if they are too old."""
        return self._gate._drive(self._gate._after(self))


class _Gate:
    """What the plain and the asynchronous gate have in common."""

    def __init__(
        self,
        home: Optional[Path] = None,
        *,
        key: Union[Key, Path],
        agent: Optional[str] = None,
        socket: Optional[Path] = None,
        wait: float = 60.0,
    ) -> None:
        """
        :param home: the gate's home, for its spool
        :param key: the key file of the principal that signs; only its owner may have access to it
        :param agent: the principal whose own spool takes the requests (``spool:`` in principals.yaml); None: the flat spool
        :param socket: the path of the gate's socket, in place of its home
        :param wait: how many seconds to wait for an answer
        """
        self.key = key if isinstance(key, Key) else Key(key)
        self.wait = wait
        if (home is None) == (socket is None):
            raise ValueError("name either the home of the gate or its socket")
        self._door: Any = Spool(home, agent) if home is not None else Socket(socket or "")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r}>"

    def sign(
        self, action: str, payload: Json, *, id: Optional[str] = None, causality: Optional[Json] = None
    ) -> Request:
        """Signs a request without sending it. Keep its ``bytes`` to send them again after a crash of your own."""
        return sign(self.key, action, payload, id, causality)

    def send(self, request: Union[Request, bytes]) -> Any:
        """Sends a signed request, and returns the body of its answer or raises."""
        if not isinstance(request, Request):
            request = Request.parse(request)
        return self._drive(self._ask(request))

    def ask(self, action: str, payload: Json, *, id: Optional[str] = None, causality: Optional[Json] = None) -> Any:
        """Signs and sends a request of any action."""
        return self.send(self.sign(action, payload, id=id, causality=causality))

    def _call(self, action: str, payload: Mapping[str, Any], id: Optional[str], causality: Optional[Json]) -> Any:
        return self.ask(action, payload, id=id, causality=causality)

    def _drive(self, steps: Steps) -> Any:
        raise NotImplementedError

    def _ask(self, request: Request) -> Steps:
        try:
            answer = yield from self._door.ask(request, time.monotonic() + self.wait)
        except NothingSent as why:
            raise NotSent(str(why), request, self) from None
        if answer is None:
            said = f"no answer within {self.wait:g} s; does a gate run? The same bytes may be sent again: again()"
            raise Unknown(said, request, self)
        return self._outcome(answer, request)

    def _final(self, held: Held, deadline: float) -> Steps:
        try:
            answer = yield from self._door.next_answer(held.request, held._last, deadline)
        except NothingSent:
            answer = None
        if answer is None:
            raise held
        return self._outcome(answer, held.request)

    def _after(self, limited: RateLimited) -> Steps:
        yield (limited.retry_after_ms or 1000) / 1000
        if limited._next is None:
            limited._next = request = limited.request
            if limited.retry != "after" or request.age_s >= FRESH_S:
                limited._next = sign(self.key, request.action, request.payload, causality=request.causality)
        # Chosen once: if this falls silent, a second request under a third id could be done beside it.
        return (yield from self._ask(limited._next))

    def _outcome(self, answer: Answer, request: Request) -> Any:
        if answer.outcome == "done":
            data = answer.whole.get("data")
            name = BODIES.get(request.action)
            return data[name] if name and isinstance(data, dict) and name in data else data
        kind = {"held": Held, "rate_limited": RateLimited}.get(answer.outcome, Refused)
        raise kind(answer, request, self)


class Gate(_Gate, Calls):
    """A gate. Each method signs a request, waits for the answer and returns its body; a refusal is an exception.

    >>> gate = Gate("/srv/gate", key="bot.key", agent="trend-bot")  # doctest: +SKIP
    >>> gate.portfolio()["equity"]  # doctest: +SKIP
    '5000'
    """

    def _drive(self, steps: Steps) -> Any:
        try:
            while True:
                time.sleep(next(steps))
        except StopIteration as end:
            return end.value


class AsyncGate(_Gate, AsyncCalls):
    """The same for asyncio: each method, ``send``, ``ask``, ``again`` and ``wait`` are awaited."""

    async def _drive(self, steps: Steps) -> Any:
        try:
            while True:
                await asyncio.sleep(next(steps))
        except StopIteration as end:
            return end.value

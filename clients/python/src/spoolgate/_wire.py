"""Keys, signatures, JSON and answers, as docs/wire.md of spoolgate says. Nothing here touches the spool."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import struct
import time
from decimal import Decimal
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple, Union

REQUEST_BYTES_MAX = 10_000_000
CAUSALITY_BYTES_MAX = 8192
DEPTH_MAX = 64
ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._:-]{0,127}(?<!\.error)(?<!\.decision)")
ACTION = re.compile(r"[a-z._]{1,64}")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z")
TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.S)
WHITE_SPACE = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', re.S)
STATUS = {"success": "done", "error": "refused", "requires_approval": "held", "rate_limited": "rate_limited"}
Json = Union[str, bytes, Mapping[str, Any]]
Bytes = bytes  # `Request` has a member of this name


class KeyFileError(ValueError):
    """A key file that cannot be used. No message holds anything of the secret."""


class Key:
    """The key of a principal. The secret is in no attribute, message or representation."""

    __slots__ = ("principal", "key_id", "sign")
    sign: Callable[[bytes], str]

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        shown = os.fspath(path)
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise KeyFileError(f"key file `{shown}` is not a regular file")
            if mode & 0o077:
                raise KeyFileError(
                    f"key file `{shown}` has mode {mode & 0o7777:04o}, so others can use it: chmod 600 it"
                )
            data = file.read(4097)
        parts: Any = None
        try:
            parts = json.loads(data, object_pairs_hook=_once) if len(data) <= 4096 else None
        except (ValueError, RecursionError):
            pass  # raised below, outside of this block: the parser's error holds the whole text
        names = ["algorithm", "key_id", "principal", "secret"]
        if (
            not isinstance(parts, dict)
            or sorted(parts) != names
            or not all(isinstance(part, str) for part in parts.values())
        ):
            raise KeyFileError(f"`{shown}` is not a key file; use one that `spoolgate keys add NAME --out FILE` wrote")
        if not re.fullmatch("[0-9a-f]{64}", parts["secret"]):
            raise KeyFileError(f"the secret in `{shown}` is not 64 lower-case hex digits")
        self.principal: str = parts["principal"]
        self.key_id: str = parts["key_id"]
        self.sign = _signer(parts["algorithm"], bytes.fromhex(parts["secret"]), shown)

    def __repr__(self) -> str:
        return f"<Key {self.key_id} of {self.principal}>"

    def __reduce__(self) -> Any:
        raise TypeError("a key is not pickled")


def _signer(algorithm: str, secret: bytes, shown: str) -> Callable[[bytes], str]:
    if algorithm == "hmac-sha256":
        begun = hmac.new(secret, digestmod="sha256")

        def sign_shared(message: bytes) -> str:
            mac = begun.copy()
            mac.update(message)
            return mac.hexdigest()

        return sign_shared
    if algorithm != "ed25519":
        raise KeyFileError(f"the algorithm of `{shown}` is unknown to this version")
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise KeyFileError(f"`{shown}` is an Ed25519 key, which needs `pip install spoolgate[ed25519]`") from None
    own = Ed25519PrivateKey.from_private_bytes(secret)
    return lambda message: "ed25519:" + base64.b64encode(own.sign(message)).decode()


class Request(NamedTuple):
    """A signed request. ``bytes`` is all that is needed to send it again, also in another process."""

    id: str
    at: str
    action: str
    payload: str
    causality: Optional[str]
    signing_string: str
    signature: str
    bytes: bytes

    @property
    def file_name(self) -> str:
        """Its name in the spool, and that of its answer."""
        return f"{'+' if self.id[0] in '-_' else ''}{self.id}.json"

    @property
    def age_s(self) -> float:
        """Its age by this machine's clock."""
        signed = datetime.datetime.strptime(self.at[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
        return time.time() - signed.timestamp()

    @classmethod
    def parse(cls, data: Bytes) -> Request:
        """The request of bytes that were kept."""
        parts = _members(data.decode())
        id, at, action, signature = (json.loads(parts[name]) for name in ("id", "timestamp", "action", "signature"))
        _check(id, at, action)
        payload = _object(parts["payload"], "the payload")
        causality = _object(parts["causality"], "the causality") if "causality" in parts else None
        return cls(
            id, at, action, payload, causality, _signing_string(id, at, action, payload, causality), signature, data
        )


def _members(text: str) -> Dict[str, str]:
    """The members of an object, each value as it is written."""
    found: Dict[str, str] = {}
    space, read = re.compile(r"[ \t\r\n]*"), json.JSONDecoder(object_pairs_hook=_once).raw_decode

    def behind(at: int, token: str) -> int:
        at = space.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] not in tuple(token):
            raise ValueError(f"{token} is missing at character {at}")
        return space.match(text, at + 1).end()  # type: ignore[union-attr]

    at, end = behind(0, "{"), 0
    while text[end - 1 : end] != "}":
        name, at = read(text, at)
        at = behind(at, ":")
        _, end = read(text, at)
        found[name], at = text[at:end], behind(end, ",}")
        end = space.match(text, end).end() + 1  # type: ignore[union-attr]
    return found


def _signing_string(id: str, at: str, action: str, payload: str, causality: Optional[str]) -> str:
    behind = "" if causality is None else f"|{_sha256(causality)}|-"
    return f"{id}|{at}|{action}|{_sha256(payload)}{behind}"


def _check(id: str, at: str, action: str) -> None:
    for what, text, form in (("id", id, ID), ("time", at, TIME), ("action", action, ACTION)):
        if not form.fullmatch(text):
            raise ValueError(f"{text!r} is not the {what} of a request")


def sign(
    key: Key,
    action: str,
    payload: Json,
    id: Optional[str] = None,
    causality: Optional[Json] = None,
    at: Optional[str] = None,
) -> Request:
    """Signs a request. By default its id is random and its time is now; nothing is sent.

    A payload that is text keeps every byte but the white space between its tokens.
    """
    id = secrets.token_hex(16) if id is None else id
    if at is None:
        at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    _check(id, at, action)
    body, member = _object(payload, "the payload"), ""
    caused = None if causality is None else _object(causality, "the causality")
    if caused is not None:
        if len(caused.encode()) > CAUSALITY_BYTES_MAX:
            raise ValueError(f"the causality has more than {CAUSALITY_BYTES_MAX} bytes")
        member = f',"causality":{caused}'
    message = _signing_string(id, at, action, body, caused)
    signature = key.sign(message.encode())
    whole = (
        f'{{"id":"{id}","timestamp":"{at}","action":"{action}","payload":{body},'
        f'"source":{json.dumps(key.principal)},"signature":"{signature}"{member}}}'
    ).encode()
    if len(whole) > REQUEST_BYTES_MAX:
        raise ValueError(f"the request has {len(whole)} bytes, the limit is {REQUEST_BYTES_MAX}")
    return Request(id, at, action, body, caused, message, signature, whole)


def to_json(value: Any, depth: int = 1) -> str:
    """Minified JSON. Numbers are ``int`` or ``Decimal``, which keep their digits: a binary float is a ``TypeError``."""
    if isinstance(value, str):
        value.encode()  # a lone surrogate is no text
    if value is None or isinstance(value, (bool, int, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a number of JSON")
        return format(value, "f")
    if isinstance(value, float):
        raise TypeError(f"{value!r} is a binary float, whose digits are not exact; use Decimal('...') or text")
    if depth > DEPTH_MAX:
        raise ValueError(f"more than {DEPTH_MAX} nested objects and lists")
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("the names of members are texts")
        return "{%s}" % ",".join(f"{to_json(name)}:{to_json(inner, depth + 1)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(to_json(inner, depth + 1) for inner in value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _object(value: Json, what: str) -> str:
    if isinstance(value, Mapping):
        return to_json(value, 2)
    text = value.decode("utf-8") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        raise TypeError(f"{what} is not an object")
    text.encode()
    try:
        parsed = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(f"{what} has too many nested objects and lists") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"{what} is not an object")
    depth = 1
    for token in TOKEN.findall(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token, 0)
        if depth > DEPTH_MAX:
            raise ValueError(f"{what} has too many nested objects and lists")
    return WHITE_SPACE.sub(r"\1", text)


def _once(pairs: Any) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_answer(data: bytes) -> Optional[Tuple[str, Dict[str, Any]]]:
    """Outcome and content of an answer; ``None`` if the bytes are none yet. Numbers with a point become ``Decimal``."""
    try:
        whole = json.loads(data, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    outcome = STATUS.get(str(whole.get("status"))) if isinstance(whole, dict) else None
    return (outcome, whole) if outcome else None


def frame(content: bytes) -> bytes:
    """A frame of the socket."""
    return struct.pack(">I", len(content)) + content

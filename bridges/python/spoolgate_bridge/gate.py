"""The gate's side of a bridge: its folder of instructions, its spool, signatures, signs of life.

Nothing in here knows an exchange. docs/outbox.md of spoolgate describes the files.
"""
import datetime
import hashlib
import hmac
import json
import os
import re
import secrets
import sys
import threading
import time
from decimal import Decimal

from .venue import CannotStart, moment, now

ANSWER_WAIT_S = 2.0  # before the same bytes are sent again
# Refusals in a row after which a key counts as refused. One is not enough: anybody who may write into the inbox can drop a
# file under the id of somebody else's request, and have that refused.
KEY_REFUSALS = 3
KEY_CODES = {"SIGNATURE_INVALID", "NOT_PERMITTED", "WRONG_SPOOL"}
ALIVE_S = 2.0
STUCK_S = 30.0  # of the main loop, after which `.alive` says that the venue is down


class KeyRefused(Exception):
    """The gate refuses what this key signs. Nothing gets better by itself: a person has to change the key or the rules."""


def say(text):
    """Prints a message for the operator."""
    print(f"{now()} {text}", file=sys.stderr, flush=True)


def read_key(path):
    with open(path, encoding="utf-8") as file:
        key = json.load(file)
    if key["algorithm"] != "hmac-sha256":
        raise ValueError(
            f"`{path}` is a key for {key['algorithm']}, and Python's standard library signs with shared keys only; make the"
            " key with `spoolgate keys add NAME --out FILE`, without --ed25519"
        )
    return key


def envelope(key, request_id, action, payload, stamp=None):
    """Returns a request as bytes, signed at `stamp` or now. `payload` is JSON text without spaces."""
    stamp = stamp or now()
    message = f"{request_id}|{stamp}|{action}|{hashlib.sha256(payload.encode()).hexdigest()}"
    signature = hmac.new(bytes.fromhex(key["secret"]), message.encode(), "sha256").hexdigest()
    text = json.dumps
    return (
        f'{{"id":{text(request_id)},"timestamp":{text(stamp)},"action":{text(action)},"payload":{payload},'
        f'"source":{text(key["principal"])},"signature":{text(signature)}}}\n'
    ).encode()


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def remove(path):
    """Removes a file that may be gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def sync_folder(path):
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Spool:
    """Requests to a gate and its answers."""

    def __init__(self, home, key):
        self.key = key
        self.inbox = os.path.join(home, "spool", "in")
        self.answers = os.path.join(home, "spool", "out")
        if not os.path.isdir(self.inbox):
            raise CannotStart(f"`{home}` is not a home of spoolgate: it has no folder spool/in")
        self.next_drop = {}
        self.key_refusals, self.refusal = 0, ""

    def exchange(self, request_id, content):
        """Sends a request, again every 2 s, and returns its answer, or None as long as there is none.

        Raises `KeyRefused` in the call after the last of too many refusals, so that the caller has dealt with that one.
        """
        if self.key_refusals >= KEY_REFUSALS:
            raise KeyRefused(self.refusal)
        path = os.path.join(self.answers, f"{request_id}.json")
        answer = self.read(path)
        if answer is None:
            # Refused before its signature was verified. What an earlier run left there is no answer to this one.
            refused = os.path.join(self.answers, f"{request_id}.json.error.json")
            answer = self.read(refused)
            if answer is not None:
                remove(refused)
                answer = answer if request_id in self.next_drop else None
        if answer is not None and answer["status"] == "rate_limited":
            # The id is not used up: the same bytes go again when the gate says so.
            remove(path)
            wait = (answer.get("data") or {}).get("retryAfterMs", 1000) / 1000
            self.next_drop[request_id] = time.monotonic() + wait
            return None
        if answer is not None:
            self.next_drop.pop(request_id, None)
            code, message = outcome(answer)
            self.key_refusals = self.key_refusals + 1 if code in KEY_CODES else 0
            self.refusal = f"{code}: {message}"
            return answer
        if time.monotonic() >= self.next_drop.get(request_id, 0):
            self.drop(request_id, content)
            self.next_drop[request_id] = time.monotonic() + ANSWER_WAIT_S
        return None

    @staticmethod
    def read(path):
        """Returns an answer, or None if there is none, or one that is still being written."""
        try:
            with open(path, encoding="utf-8") as file:
                answer = json.loads(file.read(), parse_float=Decimal)
        except (FileNotFoundError, ValueError):
            return None
        return answer if isinstance(answer, dict) and "status" in answer else None

    def drop(self, request_id, content):
        # Under a name that the gate passes over, then renamed: it never sees half a file.
        hidden = os.path.join(self.inbox, f".{request_id}.tmp")
        try:
            with open(hidden, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            remove(hidden)  # a full disk is not filled further
            raise
        os.rename(hidden, os.path.join(self.inbox, f"{request_id}.json"))

    def is_dropped(self, request_id):
        """Whether a request lies in the inbox, perhaps since an earlier run."""
        return os.path.exists(os.path.join(self.inbox, f"{request_id}.json"))

    def withdraw(self, request_id):
        """Takes back a request that the gate has not read."""
        self.next_drop.pop(request_id, None)
        remove(os.path.join(self.inbox, f"{request_id}.json"))


def outcome(answer):
    """Returns the code of an answer, `booked` if it is a success, and the gate's words."""
    error = answer.get("error") or {}
    return "booked" if answer["status"] == "success" else error.get("code") or answer["status"], error.get("message")


class Outbox:
    """The folder of a bridge, `HOME/spool/outbox/<bridge>`."""

    def __init__(self, home, bridge):
        self.folder = os.path.join(home, "spool", "outbox", bridge)
        self.taken = os.path.join(self.folder, "taken")
        os.makedirs(self.taken, exist_ok=True)

    def take(self, keep):
        """Takes every file and hands its content to `keep`, which must have stored it durably when it returns.

        A file is ours once it is renamed: then the gate can no longer take it back. So nothing is read before that, and
        a file that is gone when we rename it belongs to the gate. Returns whether there was one.
        """
        has_taken = False
        for name in sorted(name for name in os.listdir(self.folder) if name.endswith(".json") and name[0] != "."):
            try:
                os.rename(os.path.join(self.folder, name), os.path.join(self.taken, name))
                has_taken = True
            except FileNotFoundError:
                pass
        if has_taken:
            sync_folder(self.folder)
            sync_folder(self.taken)
        return self.finish(keep) or has_taken

    def finish(self, keep):
        """Keeps and removes what lies in `taken/`, also from a run that was killed."""
        names = sorted(name for name in os.listdir(self.taken) if name.endswith(".json"))
        told = []
        for name in names:
            path = os.path.join(self.taken, name)
            try:
                with open(path, encoding="utf-8") as file:
                    one = json.loads(file.read(), parse_float=Decimal)
                told.append(one if "ping" in one else instruction(one))
            except (ValueError, KeyError, TypeError, ArithmeticError) as error:
                say(f"`{path}` cannot be read as an instruction ({error!r}); kept as `{name}.bad`")
                os.rename(path, f"{path}.bad")
        keep(told)
        for name in names:
            remove(os.path.join(self.taken, name))
        return bool(names)

    def gate_epoch(self):
        """Returns the epoch of a valid `.gate`, or None: the gate is silent."""
        try:
            with open(os.path.join(self.folder, ".gate"), encoding="utf-8") as file:
                told = json.load(file)
            if moment(told["valid_until"]) > datetime.datetime.now(datetime.timezone.utc):
                return int(told["epoch"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None


def instruction(told):
    """Returns an instruction if all that is used of it is there."""
    strings = ["order_id", "client_order_id", "symbol", "side", "order_type", "size", "time_in_force", "line"]
    if told["instruction"] not in ("place", "replace", "cancel") or not all(isinstance(told[k], str) for k in strings):
        raise ValueError("a member is missing or is not text")
    if not isinstance(told["version"], int) or not isinstance(told["epoch"], int) or not isinstance(told["reduce_only"], bool):
        raise ValueError("`version`, `epoch` or `reduce_only` has another type")
    for key in ("size", "price", "trigger"):
        if told[key] is not None:
            Decimal(told[key])
    if told["valid_until"] is not None:
        moment(told["valid_until"])
    if not re.fullmatch(r"[0-9]+", told["line"]):
        raise ValueError("`line` is not a number")
    return told


class Alive(threading.Thread):
    """Writes `.alive` every 2 s from a thread of its own, so that a slow venue does not make the bridge look dead."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.run_id = folder, secrets.token_hex(8)
        self.is_venue_up, self.nonce = False, None
        self.turned_at = time.monotonic()  # the last turn of the main loop
        self.ended = threading.Event()
        self.lock = threading.Lock()

    def run(self):
        while not self.ended.is_set():
            self.write()
            self.ended.wait(ALIVE_S)

    def write(self):
        is_up = self.is_venue_up and time.monotonic() - self.turned_at < STUCK_S
        told = {"at": now(), "run": self.run_id, "venue": "ok" if is_up else "down", "nonce": self.nonce}
        hidden = os.path.join(self.folder, ".alive.tmp")
        try:
            with self.lock:
                with open(hidden, "w", encoding="utf-8") as file:
                    file.write(compact(told) + "\n")
                os.rename(hidden, os.path.join(self.folder, ".alive"))
        except OSError as error:
            say(f"`{self.folder}/.alive` cannot be written: {error}")

    def state(self, nonce=None, is_venue_up=None):
        """Changes what is said, and says it at once if it is news."""
        before = (self.nonce, self.is_venue_up)
        self.nonce = self.nonce if nonce is None else nonce
        self.is_venue_up = self.is_venue_up if is_venue_up is None else is_venue_up
        if before != (self.nonce, self.is_venue_up):
            self.write()

    def end(self):
        self.ended.set()
        self.join(timeout=ALIVE_S)
        self.is_venue_up = False
        self.write()

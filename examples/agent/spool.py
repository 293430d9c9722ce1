"""Talk to a gate through its spool: sign a request, drop it, wait for the answer. Standard library only.

A module for agent.py and feed.py beside it; nothing in here knows about trading.

    gate = Spool(home, key)                       # key: what `spoolgate keys add NAME --out FILE` wrote, as a dict
    data = gate.ask("portfolio.get", {})          # the answer's data; raises Refused where the gate says no
"""
import json, os, secrets, sys, time
from decimal import Decimal

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from sign_request import sign


class Refused(Exception):
    """The gate decided, and said no. `data` holds the failed checks and the headroom where there are any."""

    def __init__(self, answer):
        error = answer.get("error") or {}
        self.code = error.get("code", answer.get("status"))
        self.message = error.get("message", "")
        self.data = answer.get("data") or {}
        self.line = answer.get("auditRef")
        super().__init__(f"{self.code}: {self.message} (ledger line {self.line})")


class Silent(Exception):
    """No answer came in time: whether the request was decided is not known, and the same file may be sent again."""


class Spool:
    def __init__(self, home, key, timeout_s=60.0, look_every_s=0.002):
        self.inbox = os.path.join(home, "spool", "in")
        self.answers = os.path.join(home, "spool", "out")
        self.key, self.timeout_s, self.look_every_s = key, timeout_s, look_every_s
        # Ids are used once for ever, so a later run must not begin where this one did.
        self.run, self.count = secrets.token_hex(4), 0

    def ask(self, action, payload):
        self.count += 1
        request_id = f"{self.key['principal']}-{self.run}-{self.count:05d}"
        envelope = sign(self.key, action, json.dumps(payload, separators=(",", ":")), request_id)
        deadline = time.monotonic() + self.timeout_s
        while True:
            self.drop(request_id, envelope)
            answer = self.wait(request_id, deadline)
            if answer["status"] != "rate_limited":
                break
            # The id is not used up: the very same bytes are sent again when the gate says so. What lies there until
            # then is the old answer.
            os.unlink(os.path.join(self.answers, f"{request_id}.json"))
            time.sleep((answer.get("data") or {}).get("retryAfterMs", 1000) / 1000)
        if answer["status"] != "success":
            raise Refused(answer)
        return answer.get("data")

    def drop(self, request_id, envelope):
        # Under a name that the gate passes over, then renamed: it never sees half a file.
        hidden = os.path.join(self.inbox, f"{request_id}.tmp")
        with open(hidden, "w", encoding="utf-8") as file:
            file.write(envelope)
        os.rename(hidden, os.path.join(self.inbox, f"{request_id}.json"))

    def wait(self, request_id, deadline):
        path = os.path.join(self.answers, f"{request_id}.json")
        while time.monotonic() < deadline:
            try:
                with open(path, encoding="utf-8") as file:
                    return json.loads(file.read(), parse_float=Decimal)
            except FileNotFoundError:
                pass
            # What fails before its signature verifies is answered under the file's name.
            try:
                with open(os.path.join(self.answers, f"{request_id}.error.json"), encoding="utf-8") as file:
                    raise Refused(json.load(file))
            except FileNotFoundError:
                time.sleep(self.look_every_s)
        raise Silent(f"{request_id}: no answer within {self.timeout_s} s; does `spoolgate watch` run over this home?")


def read_key(path):
    with open(path, encoding="utf-8") as file:
        key = json.load(file)
    if key["algorithm"] != "hmac-sha256":
        raise ValueError(f"{path} is an {key['algorithm']} key; Python's standard library signs with shared ones only")
    return key

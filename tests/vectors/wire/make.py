#!/usr/bin/env python3
"""Writes v1.json beside it: what docs/wire.md promises, computed without any code of the gate or its clients.

usage: python3 make.py

Needs `cryptography`, which signs with Ed25519. To add vectors, add rows below and run it: it refuses to change or drop
a vector that v1.json has, because clients elsewhere rely on them.
"""

import base64, hashlib, hmac, json, os, re, struct, sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "v1.json")
NOW = "2026-03-02T12:00:00.000Z"
ORDER_OF_ED25519 = 2**252 + 27742317777372353535851937790883648493

sha256 = lambda data: hashlib.sha256(data).hexdigest()
minified = lambda text: re.sub(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', r"\1", text, flags=re.S)


class Key:
    def __init__(self, name, principal, algorithm, secret):
        self.name, self.principal, self.algorithm, self.secret = name, principal, algorithm, bytes.fromhex(secret)
        self.public = None
        if algorithm == "ed25519":
            self.own = Ed25519PrivateKey.from_private_bytes(self.secret)
            self.public = self.own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, message):
        if self.public is None:
            return hmac.new(self.secret, message.encode(), "sha256").hexdigest()
        return "ed25519:" + base64.b64encode(self.own.sign(message.encode())).decode()

    def entry(self):
        key_id = sha256(b"spoolgate key id " + self.algorithm.encode() + (self.public or self.secret))[:16]
        file = {"principal": self.principal, "key_id": key_id, "algorithm": self.algorithm, "secret": self.secret.hex()}
        found = {"name": self.name, "principal": self.principal, "algorithm": self.algorithm}
        found["key_file"] = json.dumps(file, separators=(",", ":")) + "\n"
        if self.public:
            found["public"] = self.public.hex()
        return found


KEYS = [
    Key("shared", "trend-bot", "hmac-sha256", bytes(range(32)).hex()),
    Key("own", "trend-bot", "ed25519", "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"),
    Key("high", "trend-bot", "hmac-sha256", "ff" * 31 + "00"),
    Key("other", "research-bot", "hmac-sha256", "a5" * 32),
    Key("other-own", "research-bot", "ed25519", "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"),
]
KEY = {key.name: key for key in KEYS}

DEEP = '{"a":' * 62 + "{}" + "}" * 62
PAYLOADS = {
    "empty": "{}",
    "white-space": " { \t\r\n } \n",
    "an-order": ' {\r\n\t"strategy" : "trend", "symbol":"BTC-USD",\n "side":"buy","size": 0.0100000000,"order_type" :"limit",'
    '"price":6760.50,"stop_price":6600,"thesis_slug":"btc-range-long","planned_entry":6760.5,"planned_stop":6600.00 }',
    "amounts-as-text": '{"size":"0.10","price":"6760.50"}',
    "one-tenth": '{"n":0.1}',
    "one-tenth-with-zero": '{"n":0.10}',
    "minus-zero": '{"n":[-0,-0.0,0,0.0]}',
    "exponents": '{"n":[1e21,1E+3,1000.0e0,1e-400,123e400]}',
    "large-numbers": '{"n":[9007199254740993,12345678901234567890123456789.5,0.10000000000000000001]}',
    "integers": '{"n":[1,1.0,100,1000000000000000000000]}',
    "escapes": r'{"s":"\"\\\/\b\f\n\r\t","q":"\\\" ","end":"\\"}',
    "escape-lower": r'{"s":"\u00e9\ud83d\ude00"}',
    "escape-upper": r'{"s":"\u00E9\uD83D\uDE00"}',
    "unescaped": '{"s":"é😀"}',
    "escaped-ascii": r'{"s":"\u0041\u0022\u005c"}',
    "escaped-null": r'{"s":"\u0000\u001f"}',
    "line-separators": '{"s":"\u2028\u2029","\u2028":1}',
    "no-white-space-of-json": '{"s":"\u00a0\u0085\ufeff\u3000\u200b"}',
    "delete-and-c1": '{"s":"\x7f\x80\x9f"}',
    "decomposed": '{"s":"e\u0301"}',
    "composed": '{"s":"\u00e9"}',
    "spaces-in-texts": '{"s": " two  spaces , : {} [] ", "t" : "tab\\t end" }',
    "a-bar": '{"s":"a|b|-"}',
    "keys-in-order": '{"z":1,"a":2,"Z":3,"A":4}',
    "keys-like-numbers": '{"2":"b","10":"c","1":"a","-1":"d"}',
    "keys-of-prototypes": '{"__proto__":{"x":1},"constructor":2,"toString":3,"hasOwnProperty":4}',
    "empty-key": '{"":"", " ":0}',
    "keys-beyond-ascii": '{"ł":1,"日本語":2,"😀":3,"\\u00e9":4}',
    "literals": '{"l":[true,false,null,[],{},[[]],[{}]]}',
    "nested-63": DEEP,
    "long": '{"s":"' + "0123456789" * 200 + '"}',
    "right-to-left": '{"s":"\u202eevil\u202c\u2066x\u2069"}',
    "html": '{"s":"<script>&amp;</script>\'"}',
}
CAUSALITY = {
    "causality": '{"root_task_id":"t-1","parent_task_id":null}',
    "causality-empty": "{}",
    "causality-white-space": '{ "root_task_id" : "t 1" ,\n"spawn_depth":0.0 }',
    "causality-beyond-ascii": '{"capability_id":"é\u2028\\u00e9"}',
    "causality-8192": '{ "a":"' + "x" * (8192 - 8) + '" }',
}
IDS = ["-V1StGXR8", "_", "-", "--help", "0", "a:b.c_d-e", "x.errors", "x.error.1", "a..", "r" * 128, "-" + "r" * 127]
TIMES = ["2026-03-02T12:00:00Z", "2026-03-02T12:00:00.5Z", "2026-03-02T12:00:00.123456789Z", "2024-02-29T23:59:59.999Z"]
ACTIONS = ["portfolio.get", "admission.cache_clear", "a", "z" * 64, "._"]


def envelope(key, payload, causality=None, id="r-1", time=NOW, action="order.submit"):
    """The text of a request with payload and causality as they are, and the steps to its signature."""
    digest = sha256(minified(payload).encode())
    message = f"{id}|{time}|{action}|{digest}"
    if causality is not None:
        message += f"|{sha256(minified(causality).encode())}|-"
    signature = key.sign(message)
    quoted = [json.dumps(text) for text in (id, time, action, key.principal, signature)]
    member = "" if causality is None else f',"causality":{causality}'
    return (
        (
            f'{{"id":{quoted[0]},"timestamp":{quoted[1]},"action":{quoted[2]},"payload":{payload},'
            f'"source":{quoted[3]},"signature":{quoted[4]}{member}}}'
        ),
        digest,
        message,
        signature,
    )


def stem(id):
    return "+" + id if id[0] in "-_" else id


def request(name, key, payload, causality=None, id="r-1", time=NOW, action="order.submit"):
    sent, digest, message, signature = envelope(KEY[key], payload, causality, id, time, action)
    found = {"name": name, "key": key, "payload": payload}
    if causality is not None:
        found |= {"causality": causality, "causality_min": minified(causality)}
    return found | {
        "sent": sent,
        "payload_min": minified(payload),
        "payload_sha256": digest,
        "signing_string": message,
        "signature": signature,
        "file_name": f"{stem(id)}.json",
    }


def requests():
    for n, (name, payload) in enumerate(PAYLOADS.items()):
        yield request(name, ["shared", "own", "high"][n % 3], payload, id=f"r-{name}")
    for name in ("an-order", "line-separators", "escapes"):
        yield request(f"{name}-own", "own", PAYLOADS[name], id=f"r-{name}")
    for n, (name, causality) in enumerate(CAUSALITY.items()):
        yield request(name, ["shared", "own"][n % 2], '{"n":0.10}', causality, id=f"r-{name}")
    for n, id in enumerate(IDS):
        yield request(f"id-{n + 1}", ["shared", "own"][n % 2], "{}", id=id, action="portfolio.get")
    for n, time in enumerate(TIMES):
        yield request(f"time-{n + 1}", "shared", "{}", time=time, action="portfolio.get")
    for n, action in enumerate(ACTIONS):
        yield request(f"action-{n + 1}", "own", "{}", action=action)


def refused():
    """Files that a gate with these keys refuses at NOW."""
    shared, own, ping = KEY["shared"], KEY["own"], "portfolio.get"
    count = 0

    def bad(name, code, data, file_name=None, answered_as=None):
        file_name = file_name or f"x-{name}.json"
        data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
        return {
            "name": name,
            "bytes_base64": base64.b64encode(data).decode(),
            "file_name": file_name,
            "code": code,
            "answered_as": answered_as or f"{file_name}.error.json",
        }

    def good(payload="{}", key=shared, **more):
        nonlocal count
        count += 1
        return envelope(key, payload, **({"id": f"n-{count}", "action": ping} | more))[0]

    for name, cut in [
        ("half-at-1", 1),
        ("half-in-key", 4),
        ("half-in-text", 30),
        ("half-in-payload", 83),
        ("half-but-brace", -1),
    ]:
        yield bad(name, "MALFORMED_JSON", good('{"n":"é"}')[:cut])
    whole = good('{"n":"é"}').encode()
    yield bad("half-in-character", "MALFORMED_JSON", whole[: whole.index("é".encode()) + 1])
    for name, data in {
        "empty": b"",
        "only-white-space": b" \n\t\r ",
        "byte-order-mark": b"\xef\xbb\xbf" + good().encode(),
        "latin-1": good('{"n":"é"}').encode("latin-1"),
        "utf-16": good().encode("utf-16"),
        "a-null-byte": good() + "\0",
        "trailing-data": good() + "x",
        "two-objects": good() + good(),
        "a-list": f"[{good()}]",
        "a-text": '"{}"',
        "a-number": "1",
        "comment": good("{/**/}"),
        "single-quotes": good().replace('"', "'"),
        "trailing-comma": good()[:-1] + ",}",
        "key-twice": good().replace('"id":', '"id":"n-0","id":'),
        "key-twice-escaped": good().replace('"id":', '"i\\u0064":"n-0","id":'),
        "key-twice-in-payload": good('{"a":1,"a":1}'),
        "key-twice-deep": good('{"a":[{"b":1,"\\u0062":2}]}'),
        "high-surrogate": good('{"s":"\\ud83d"}'),
        "low-surrogate": good('{"s":"\\ude00"}'),
        "surrogates-turned": good('{"s":"\\ude00\\ud83d"}'),
        "surrogate-as-bytes": good('{"s":"?"}').replace("?", "\ud83d"),
        "nan": good('{"n":NaN}'),
        "infinity": good('{"n":-Infinity}'),
        "leading-zero": good('{"n":01}'),
        "plus": good('{"n":+1}'),
        "no-digit-before-point": good('{"n":.5}'),
        "no-digit-behind-point": good('{"n":1.}'),
        "hexadecimal": good('{"n":0x1f}'),
        "line-feed-in-text": good('{"s":"a\nb"}'),
        "unknown-escape": good(r'{"s":"\x41"}'),
        "upper-case-u": good(r'{"s":"\U0041"}'),
        "nested-64": good('{"a":' + DEEP + "}"),
        "no-break-space": good("{\u00a0}"),
    }.items():
        yield bad(name, "MALFORMED_JSON", data)

    for member in ("id", "timestamp", "action", "payload", "source", "signature"):
        parts = json.loads(good())
        del parts[member]
        yield bad(f"without-{member}", "MALFORMED_ENVELOPE", json.dumps(parts))
        yield bad(f"null-{member}", "MALFORMED_ENVELOPE", json.dumps(json.loads(good()) | {member: None}))
    for n, id in enumerate(
        ["", "a/b", "../x", "a b", "+a", ".a", ":a", "é", "a|b", "x.error", "x.decision", "a\n", "a\0", "r" * 129]
    ):
        yield bad(
            f"bad-id-{n + 1}", "MALFORMED_ENVELOPE", good(id=id) if id else good().replace(f'"n-{count}"', '""', 1)
        )
    for n, time in enumerate(
        [
            "2026-03-02T12:00:00",
            "2026-03-02T12:00:00+00:00",
            "2026-03-02t12:00:00z",
            "2026-03-02 12:00:00Z",
            "2026-03-02T12:00:60Z",
            "2026-02-30T12:00:00Z",
            "2026-03-02T24:00:00Z",
            "2026-03-02T12:00:00.Z",
            "2026-03-02T12:00:00.0123456789Z",
            "1772452800",
        ]
    ):
        yield bad(f"bad-time-{n + 1}", "MALFORMED_ENVELOPE", good(time=time))
    for n, action in enumerate(["", "Portfolio.get", "portfolio-get", "a" * 65, "portfolio.get "]):
        yield bad(f"bad-action-{n + 1}", "MALFORMED_ENVELOPE", good(action=action))
    for n, payload in enumerate(["[]", "null", '"{}"', "1"]):
        yield bad(f"bad-payload-{n + 1}", "MALFORMED_ENVELOPE", good(payload))
        yield bad(f"bad-causality-{n + 1}", "MALFORMED_ENVELOPE", good(causality=payload))
    yield bad("causality-8193", "MALFORMED_ENVELOPE", good(causality='{"a":"' + "x" * (8193 - 8) + '"}'))
    yield bad("unknown-member", "MALFORMED_ENVELOPE", good()[:-1] + ',"seen":{}}')
    yield bad("bad-source", "MALFORMED_ENVELOPE", good().replace('"trend-bot"', '"Trend-Bot"'))
    yield bad("signature-empty", "MALFORMED_ENVELOPE", json.dumps(json.loads(good()) | {"signature": ""}))
    yield bad("signature-97", "MALFORMED_ENVELOPE", json.dumps(json.loads(good()) | {"signature": "a" * 97}))
    yield bad("signature-beyond-ascii", "MALFORMED_ENVELOPE", json.dumps(json.loads(good()) | {"signature": "é"}))

    def forged(name, data, **changed):
        parts = json.loads(data) | changed
        return bad(name, "SIGNATURE_INVALID", json.dumps(parts, ensure_ascii=False, separators=(",", ":")))

    def resigned(name, sign, key=shared, payload='{"n":0.10}'):
        """Signed over another string or in another form."""
        text, _, message, _ = envelope(key, payload, id=f"f-{name}", action=ping)
        parts = json.loads(text)
        signature = sign(message) if callable(sign) else sign
        return bad(name, "SIGNATURE_INVALID", text.replace(json.dumps(parts["signature"]), json.dumps(signature)))

    for name, changed in {
        "other-id": {"id": "f-other"},
        "other-time": {"timestamp": "2026-03-02T12:00:00.001Z"},
        "same-time-written-otherwise": {"timestamp": "2026-03-02T12:00:00Z"},
        "other-action": {"action": "orders.list"},
        "other-payload": {"payload": {"n": 1}},
        "other-source": {"source": "research-bot"},
        "unknown-source": {"source": "nobody"},
        "causality-added": {"causality": {}},
    }.items():
        yield forged(name, good(), **changed)
    parts = json.loads(good(causality="{}"))
    del parts["causality"]
    yield bad("causality-removed", "SIGNATURE_INVALID", json.dumps(parts))
    yield bad("number-shortened", "SIGNATURE_INVALID", good('{"n":0.10}').replace("0.10", "0.1"))
    yield bad("escape-resolved", "SIGNATURE_INVALID", good('{"s":"\\u00e9"}').replace("\\u00e9", "é"))
    yield bad("keys-sorted", "SIGNATURE_INVALID", good('{"z":1,"a":2}').replace('{"z":1,"a":2}', '{"a":2,"z":1}'))
    yield bad("space-within-text", "SIGNATURE_INVALID", good('{"s":"a b"}').replace("a b", "a  b"))
    mac = lambda key, message: hmac.new(key, message.encode(), "sha256")
    yield resigned("secret-not-decoded", lambda m: mac(shared.secret.hex().encode(), m).hexdigest())
    yield resigned("key-of-another", KEY["other"].sign)
    yield resigned("own-key-of-another", KEY["other-own"].sign)
    yield resigned("upper-case-hex", lambda m: shared.sign(m).upper())
    yield resigned("hex-cut", lambda m: shared.sign(m)[:-1])
    yield resigned("hex-pair-cut", lambda m: shared.sign(m)[:-2])
    yield resigned("hex-with-more", lambda m: shared.sign(m) + "00")
    yield resigned("hex-with-space", lambda m: " " + shared.sign(m))
    yield resigned("not-hex", "g" * 64)
    yield resigned("zeros", "0" * 64)
    yield resigned("base64-of-the-mac", lambda m: base64.b64encode(mac(shared.secret, m).digest()).decode())
    yield resigned("hmac-prefix", lambda m: "hmac-sha256:" + shared.sign(m))
    yield resigned("payload-not-hashed", lambda m: shared.sign(m.rsplit("|", 1)[0] + '|{"n":0.10}'))
    yield resigned("spaces-around-bars", lambda m: shared.sign(m.replace("|", " | ")))
    yield resigned("line-end-signed", lambda m: shared.sign(m + "\n"))
    yield resigned("white-space-hashed", lambda m: shared.sign(m.rsplit("|", 1)[0] + "|" + sha256(b'{"n": 0.10}')))
    yield resigned("hash-in-upper-case", lambda m: shared.sign(m.rsplit("|", 1)[0] + "|" + m.rsplit("|", 1)[1].upper()))
    yield resigned("minus-without-causality", lambda m: shared.sign(m + "|-"))
    raw = lambda m: own.own.sign(m.encode())
    yield resigned("ed25519-hex", lambda m: raw(m).hex()[:96], own)
    yield resigned("ed25519-without-prefix", lambda m: base64.b64encode(raw(m)).decode(), own)
    yield resigned("ed25519-prefix-upper", lambda m: own.sign(m).replace("ed25519:", "Ed25519:"), own)
    yield resigned("ed25519-without-padding", lambda m: own.sign(m).rstrip("="), own)
    yield resigned("ed25519-url-alphabet", lambda m: "ed25519:" + "-_" + own.sign(m)[10:], own)
    yield resigned("ed25519-cut", lambda m: "ed25519:" + base64.b64encode(raw(m)[:63]).decode(), own)
    yield resigned(
        "ed25519-other-bytes", lambda m: "ed25519:" + base64.b64encode(raw(m)[:32] + bytes(32)).decode(), own
    )

    def malleable(message):
        """The same signature with the group's order added to S: valid for lax verifiers, another text for the ledger."""
        signature = raw(message)
        s = int.from_bytes(signature[32:], "little") + ORDER_OF_ED25519
        return "ed25519:" + base64.b64encode(signature[:32] + s.to_bytes(32, "little")).decode()

    yield resigned("ed25519-malleable", malleable, own)
    yield resigned("mac-for-an-own-key", lambda m: mac(own.public, m).hexdigest(), own)
    yield resigned(
        "prehashed",
        lambda m: "ed25519:" + base64.b64encode(own.own.sign(hashlib.sha256(m.encode()).digest())).decode(),
        own,
    )

    for name in ["-V1.json", "_.json", "+a.json", "a b.json", "é.json", "a.JSON", "a", "a|b.json", "x" * 129 + ".json"]:
        known = sha256(name.encode())[:16]
        yield bad(f"name-{known}", "BAD_FILE_NAME", good(), name, f"{known}.error.json")

    def sealed(name, code, payload="{}", **more):
        """Signed well, and refused for what it says: the answer is named after the id."""
        id = more.get("id", f"s-{name}")
        return bad(name, code, good(payload, **({"id": id} | more)), f"x-{name}.json", f"{stem(id)}.json")

    size = lambda text: '{"order_id":"o-1","new_stop":%s}' % text
    yield sealed("action-unknown", "UNKNOWN_ACTION", action="portfolio.set")
    yield sealed("payload-unknown-member", "MALFORMED_PAYLOAD", '{"all":true}')
    yield sealed("payload-missing-member", "MALFORMED_PAYLOAD", action="market.get", id="-missing")
    for n, text in enumerate(
        [
            "0.30000000000000004",
            "1e3",
            "1E-2",
            '"1e3"',
            '" 1"',
            '"01"',
            '"+1"',
            '".5"',
            '"1."',
            "1000000000000",
            "0.12345678901",
            '"1,5"',
            "true",
            "null",
        ]
    ):
        yield sealed(
            f"amount-{n + 1}", "MALFORMED_PAYLOAD", size(text), action="order.tighten_stop", key=[shared, own][n % 2]
        )
    yield sealed("not-permitted", "NOT_PERMITTED", '{"reason":"x"}', action="clock.accept")
    yield sealed("stale", "TIMESTAMP_STALE", time="2026-03-02T11:54:59.999Z")
    yield sealed("ahead", "TIMESTAMP_STALE", time="2026-03-02T12:00:30.001Z")
    yield sealed("year-0", "TIMESTAMP_STALE", time="0000-01-01T00:00:00Z")
    yield sealed("year-9999", "TIMESTAMP_STALE", time="9999-12-30T00:00:00Z", key=own)


ROW = '{"check_name":"%s","passed":%s,"value":%s,"limit":%s,"source":"safety.yaml","unit":"usd"%s}'
PASSED = ROW % ("request_freshness", "true", '"26"', '"300000"', "")
TOO_LARGE = ROW % (
    "max_order_value",
    "false",
    '"20347.83"',
    '"1000"',
    ',"reason":"the order is worth more than one order may be"',
)
TOO_RISKY = ROW % (
    "max_single_trade_risk",
    "false",
    '"599.760"',
    '"100.00"',
    ',"reason":"the trade could lose too much down to its stop"',
)
FOLLOWS = ROW % ("max_order_value", "false", "null", "null", ',"reason":"not computed","follows_from":"market_data"')
NO_PRICE = ROW % ("market_data", "false", '"174000"', '"120000"', ',"reason":"the newest BTC-USD quote is 174 s old"')


def answer(name, outcome, data=None, code=None, status=None, message="words; what to do", whole=None, **found):
    status = status or {"done": "success", "refused": "error", "held": "requires_approval"}.get(outcome, outcome)
    text = f'{{"requestId":"r-1","timestamp":"{NOW}","status":"{status}"'
    text += f',"data":{data}' if data is not None else ""
    text += f',"error":{{"code":"{code}","message":"{message}"}}' if code else ""
    text += ',"auditRef":"23"}\n'
    return {"name": name, "bytes": text if whole is None else whole(text), "outcome": outcome} | found


def answers():
    accepted = '{"Accepted":{"order_id":"o-23","checks_passed":[%s]}}' % PASSED
    rejected = (
        lambda rows, room, retry="new_id": '{"Rejected":{"checks_failed":[%s],"checks_passed":[%s],"headroom":%s},"retry":"%s"}'
        % (rows, PASSED, room, retry)
    )
    room = '{"max_size":"0.0366","binding_check":"max_single_position"}'
    yield answer("accepted", "done", accepted, order_id="o-23")
    yield answer("nothing-to-say", "done")
    yield answer("data-null", "done", "null")
    yield answer("data-of-an-adapter", "done", '{"Accepted":[1,{"order_id":"o-1"}],"n":0.10}')
    yield answer("would-be-refused", "done", '{"would_be":{"status":"error","data":%s}}' % rejected(TOO_LARGE, room))
    yield answer(
        "too-large",
        "refused",
        rejected(f"{TOO_LARGE},{TOO_RISKY}", room),
        "CHECKS_FAILED",
        root="max_order_value",
        max_size="0.0366",
        retry="new_id",
    )
    yield answer(
        "no-room", "refused", rejected(TOO_LARGE, "null"), "CHECKS_FAILED", root="max_order_value", retry="new_id"
    )
    yield answer(
        "room-zero",
        "refused",
        rejected(TOO_LARGE, room.replace("0.0366", "0")),
        "CHECKS_FAILED",
        root="max_order_value",
        max_size="0",
        retry="new_id",
    )
    yield answer(
        "root-behind-its-followers",
        "refused",
        rejected(f"{FOLLOWS},{NO_PRICE}", "null"),
        "CHECKS_FAILED",
        root="market_data",
        retry="new_id",
    )
    yield answer(
        "all-follow", "refused", rejected(FOLLOWS, "null"), "CHECKS_FAILED", root="max_order_value", retry="new_id"
    )
    yield answer("no-rows", "refused", rejected("", "null"), "CHECKS_FAILED", root="CHECKS_FAILED", retry="new_id")
    yield answer(
        "malformed",
        "refused",
        '{"retry":"same_id","faults":[{"pointer":"/payload/size","got":"nothing","expected":"an amount"}]}',
        "MALFORMED_PAYLOAD",
        root="MALFORMED_PAYLOAD",
        retry="same_id",
    )
    yield answer(
        "denied-by-a-person", "refused", '{"retry":"never"}', "APPROVAL_DENIED", root="APPROVAL_DENIED", retry="never"
    )
    yield answer(
        "outcome-unknown", "refused", '{"retry":"never"}', "UNKNOWN_OUTCOME", root="UNKNOWN_OUTCOME", retry="never"
    )
    yield answer("no-data", "refused", None, "SIGNATURE_INVALID", root="SIGNATURE_INVALID", retry="never")
    yield answer(
        "held",
        "held",
        '{"Held":{"hold_id":"h-96","request_sha256":"%s","rules":["ask-first"],"expires_at":"%s","checks_failed":[%s],"checks_passed":[%s]},"retry":"never"}'
        % ("7c" * 32, NOW, TOO_LARGE, PASSED),
        "HELD",
        hold_id="h-96",
        root="max_order_value",
        retry="never",
    )
    yield answer(
        "rate-limited",
        "rate_limited",
        '{"retryAfterMs":57861,"retry":"after","retry_after_ms":57861}',
        "RATE_LIMITED",
        root="RATE_LIMITED",
        retry="after",
    )
    yield answer(
        "rate-limited-too-long",
        "rate_limited",
        '{"retryAfterMs":400000,"retry":"new_id","retry_after_ms":400000}',
        "RATE_LIMITED",
        root="RATE_LIMITED",
        retry="new_id",
    )
    yield answer("storage-low", "rate_limited", '{"retry":"after"}', "STORAGE_LOW", root="STORAGE_LOW", retry="after")
    yield answer(
        "removed-and-redacted",
        "done",
        '{"text":"x"}',
        whole=lambda text: text.replace(',"auditRef"', ',"removed":{"invisible":37},"redacted":true,"auditRef"'),
    )
    yield answer("large-numbers", "done", '{"n":[9007199254740993,0.10,1e400]}')
    yield answer("line-separators", "done", '{"s":"\u2028\\u2029"}')
    yield answer(
        "code-of-a-later-version",
        "refused",
        '{"retry":"new_id","more":1}',
        "BRAND_NEW",
        root="BRAND_NEW",
        retry="new_id",
    )
    yield answer(
        "members-of-a-later-version",
        "done",
        accepted,
        whole=lambda text: text.replace(',"auditRef"', ',"later":[1],"auditRef"'),
        order_id="o-23",
    )
    for name, data in {
        "data-is-a-list": "[1]",
        "data-is-a-text": '"Rejected"',
        "rejected-is-a-text": '{"Rejected":"no","retry":"never"}',
        "rows-are-no-rows": '{"Rejected":{"checks_failed":[1,null,{"passed":false}],"headroom":"x"},"retry":"never"}',
        "rows-are-no-list": '{"Rejected":{"checks_failed":{"check_name":"x"},"headroom":{"max_size":5}},"retry":"never"}',
        "size-is-no-number": '{"Rejected":{"headroom":{"max_size":"NaN"}},"retry":"never"}',
    }.items():
        yield answer(name, "refused", data, "ADAPTER_FAILED", root="ADAPTER_FAILED", retry="never")
    yield answer("held-without-a-hold", "held", '{"Held":null}', "HELD", root="HELD", retry="never")
    yield answer("without-line-end", "done", accepted, whole=lambda text: text.rstrip("\n"), order_id="o-23")
    for name, whole in {
        "empty-file": lambda text: "",
        "half-file": lambda text: text[:60],
        "all-but-the-brace": lambda text: text[:-2],
        "zeros-after-a-power-cut": lambda text: "\0" * len(text),
        "no-object": lambda text: f"[{text}]",
        "no-status": lambda text: "{}",
        "unknown-status": lambda text: text.replace("success", "maybe"),
    }.items():
        yield answer(name, "none", accepted, status="success", whole=whole)


def frames():
    for message in ["", "{}", "x" * 255, "x" * 256, '{"s":"é\u2028"}', "\0\0\0\2{}"]:
        data = message.encode()
        yield {"hex": (struct.pack(">I", len(data)) + data).hex(), "message": message}


def main():
    made = {
        "format": 1,
        "now": NOW,
        "keys": [key.entry() for key in KEYS],
        "frames": list(frames()),
        "requests": list(requests()),
        "refused": list(refused()),
        "answers": list(answers()),
    }
    lists = [name for name, value in made.items() if isinstance(value, list)]
    for name in lists:
        names = [entry.get("name", entry.get("hex")) for entry in made[name]]
        assert len(set(names)) == len(names), f"{name}: a name twice"
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as file:
            old = json.load(file)
        for name in lists:
            gone = [entry for entry in old[name] if entry not in made[name]]
            if gone:
                sys.exit(f"{name}: vectors are only ever added to, and this would change {gone[0]}")
    # One vector per line, so that a diff shows what was added.
    rows = lambda entries: ",\n".join(json.dumps(entry, ensure_ascii=True) for entry in entries)
    with open(FILE, "w", encoding="utf-8") as file:
        file.write('{"format":1,"now":%s,\n' % json.dumps(NOW))
        file.write(",\n".join(f'"{name}":[\n{rows(made[name])}]' for name in lists) + "}\n")
    print(", ".join(f"{len(made[name])} {name}" for name in lists))


if __name__ == "__main__":
    main()

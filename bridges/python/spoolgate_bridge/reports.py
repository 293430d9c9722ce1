"""What a bridge tells the gate: reports, one after the other, and snapshots when nothing else is left to say."""
import hashlib
import json
import re
import secrets
import time

from .gate import compact, envelope, outcome, say
from .venue import RateLimited, Refused, Unavailable, decimal_or_none, now, plain, rounded_up

SNAPSHOT_S = 60.0
SNAPSHOT_ANSWER_S = 10.0  # before a snapshot that the gate has not read is taken back
SNAPSHOT_AGAIN_S = 0.5  # after a refusal, and twice as long after each further one
STALE_SAID = 4  # refusals in a row as stale of which a person is told; one or two come about when things cross
# Before a report is sent again that the gate did not book, and twice as long after each further refusal, up to the second
# number: a person has to repair something.
REFUSED_WAIT_S, REFUSED_WAIT_MAX_S = 1.0, 30.0
TEXT_MAX = 400
LETTERS = {"new": "n", "replaced": "n", "trade": "t", "canceled": "c", "expired": "e", "rejected": "r"}
# What repeating and crossing reports bring about.
EXPECTED = {"booked", "REPORT_DUPLICATE", "REPORT_UNKNOWN"}
# The gate has it in its books, or has recorded that book and venue differ. After any other refusal it knows nothing of it.
FINAL = EXPECTED | {"REPORT_OUT_OF_ORDER", "REPORT_IMPOSSIBLE"}


class Reports:
    """Reports are signed once, kept in the journal, and sent until they are answered.

    A refusal by which the gate knows nothing of the report is no answer: the report is signed anew, with another request id
    and the same `exec_id`, and sent again after those of other orders.
    """

    def __init__(self, key, journal, spool, run_id, venue):
        self.key, self.journal, self.spool, self.run_id, self.venue = key, journal, spool, run_id, venue
        self.snapshot = None  # (request id, bytes, when it was sent)
        self.snapshot_at, self.snapshot_refusals = 0.0, 0
        self.waits = {}  # by order id: no report of it before this moment, and how long to wait after the next refusal
        # The report that waits for its answer, by its number. One that an earlier run has dropped comes first.
        unanswered = self.journal.all("SELECT n, bytes FROM reports WHERE answer IS NULL ORDER BY n")
        self.sending = next((row["n"] for row in unanswered if spool.is_dropped(json.loads(row["bytes"])["id"])), None)

    def pend(self, order_id, version, exec_type, text=None):
        """Reports as soon as the trades before it are booked."""
        self.journal.run(
            "INSERT INTO pending (order_id, version, exec_type, text) VALUES (?, ?, ?, ?)", order_id, version, exec_type, text
        )

    def flush(self):
        for row in self.journal.all("SELECT * FROM pending ORDER BY n"):
            # An acknowledgement waits for the versions before, an end for the whole order.
            below = row["version"] if row["exec_type"] in ("new", "replaced") else row["version"] + 1
            if self.journal.attempts("booked <> filled AND order_id = ? AND version < ?", row["order_id"], below):
                continue
            with self.journal:
                self.journal.run("DELETE FROM pending WHERE n = ?", row["n"])
                text = {} if row["text"] is None else {"text": row["text"]}
                self.add(row["order_id"], row["exec_type"], version=row["version"], **text)

    def add(self, order_id, exec_type, trade_id=None, at=None, **rest):
        """Signs a report. The same fact has the same id after a crash, so that a repetition is recognised."""
        exec_id = f"{LETTERS[exec_type]}-{trade_id or order_id + '.' + str(rest['version'])}"
        if not re.fullmatch(r"[A-Za-z0-9._/:-]{1,64}", exec_id):
            exec_id = f"{LETTERS[exec_type]}-{hashlib.sha256(exec_id.encode()).hexdigest()[:48]}"
        if "text" in rest:
            rest["text"] = re.sub(r"[^ -~]", " ", rest["text"])[:TEXT_MAX]
        payload = {
            "order_id": order_id, "exec_type": exec_type, "exec_id": exec_id, "transact_time": at or now(),
            "cum_qty": plain(self.journal.booked(order_id)), **rest,
        }
        n = self.journal.one("SELECT coalesce(max(n), 0) + 1 AS n FROM reports")["n"]
        self.journal.run(
            "INSERT OR IGNORE INTO reports VALUES (?, ?, ?, ?, ?, ?, NULL)",
            n, exec_id, order_id, rest.get("version"), exec_type,
            envelope(self.key, f"{self.key['principal']}-{self.journal.meta('id')}-{n}", "venue.report", compact(payload)),
        )

    def oldest(self):
        """Returns the report that waits for its answer, or the oldest unanswered one whose order need not wait."""
        if self.sending is None:
            waiting = [order_id for order_id, (at, _) in self.waits.items() if at > time.monotonic()]
            row = self.journal.one(
                f"SELECT n FROM reports WHERE answer IS NULL AND order_id NOT IN ({','.join('?' * len(waiting))})"
                " ORDER BY n LIMIT 1", *waiting,
            )
            self.sending = row and row["n"]
        return self.sending and self.journal.one("SELECT * FROM reports WHERE n = ?", self.sending)

    def send(self):
        """Sends the oldest report without an answer. Returns whether one was answered."""
        row = self.oldest()
        if row is None:
            return False
        told = json.loads(row["bytes"])
        # The same bytes again, unless the key is another one than in the run that signed them.
        content = envelope(self.key, told["id"], told["action"], compact(told["payload"]), told["timestamp"])
        answer = self.spool.exchange(told["id"], content)
        if answer is None:
            return False
        self.sending = None
        code, message = outcome(answer)
        if code not in EXPECTED:
            say(f"the gate refuses report {row['exec_id']}: {code}: {message}")
        if code not in FINAL:
            _, wait_s = self.waits.get(row["order_id"], (0.0, REFUSED_WAIT_S))
            self.waits[row["order_id"]] = time.monotonic() + wait_s, min(2 * wait_s, REFUSED_WAIT_MAX_S)
            self.sign_anew(row, told)
            return True
        self.waits.pop(row["order_id"], None)
        with self.journal:
            # The last number is that of the report which was answered last: a snapshot states it.
            self.journal.run("UPDATE reports SET answer = ?, n = (SELECT max(n) + 1 FROM reports) WHERE n = ?", code, row["n"])
            if code == "REPORT_UNKNOWN" and row["exec_type"] in ("new", "replaced"):
                # The gate does not have an order that works: it heard of its end while this instruction was on its way.
                self.journal.run(
                    "UPDATE attempts SET state = 'disowned' WHERE order_id = ? AND version = ? AND state = 'working'",
                    row["order_id"], row["version"],
                )
        return True

    def sign_anew(self, row, told):
        """Signs a report that the gate did not book under another request id: a refusal may have used the first one up."""
        payload = told["payload"]
        if payload.get("fee_currency") and "fee_value" not in payload:
            symbol = self.journal.one("SELECT symbol FROM attempts WHERE order_id = ?", row["order_id"])["symbol"]
            try:
                payload.update(value_of_fee(self.venue, symbol, payload["fee_currency"], decimal_or_none(payload["fee"])))
            except (RateLimited, Refused, Unavailable) as error:
                say(f"the venue does not say what the fee of {row['exec_id']} is worth: {error}")
        request_id = f"{self.key['principal']}-{self.journal.meta('id')}-{secrets.token_hex(8)}"
        content = envelope(self.key, request_id, told["action"], compact(payload))
        self.journal.run("UPDATE reports SET bytes = ? WHERE n = ?", content, row["n"])

    def has_news(self):
        """Whether something has happened that the gate has not heard, or that is not known yet."""
        return bool(
            self.journal.one("SELECT 1 FROM pending")
            or self.journal.one("SELECT 1 FROM reports WHERE answer IS NULL")
            or self.journal.attempts("state IN ('sending', 'disowned')")
            or self.journal.attempts("booked <> filled")
        )

    def is_snapshot_due(self):
        return self.snapshot is None and time.monotonic() >= self.snapshot_at and not self.has_news()

    def send_snapshot(self, **members):
        newest = self.journal.one("SELECT exec_id FROM reports WHERE answer IN ('booked', 'REPORT_DUPLICATE') ORDER BY n DESC")
        payload = {"run": self.run_id, "taken_at": now(), "after_exec": newest and newest["exec_id"], **members}
        request_id = f"{self.key['principal']}-{self.run_id}-{secrets.token_hex(4)}"
        content = envelope(self.key, request_id, "venue.snapshot", compact(payload))
        self.snapshot = (request_id, content, time.monotonic())
        self.snapshot_at = time.monotonic() + SNAPSHOT_S

    def follow_snapshot(self):
        """Returns whether a snapshot was answered."""
        if self.snapshot is None:
            return False
        request_id, content, sent_at = self.snapshot
        answer = self.spool.exchange(request_id, content)
        if answer is None and time.monotonic() - sent_at > SNAPSHOT_ANSWER_S:
            # It grows old in the gate's inbox: take another when the gate reads again.
            self.spool.withdraw(request_id)
            self.snapshot, self.snapshot_at = None, 0.0
        if answer is None:
            return False
        self.snapshot = None
        code, message = outcome(answer)
        if code == "booked":
            self.snapshot_refusals = 0
            return True
        self.snapshot_at = time.monotonic() + min(SNAPSHOT_AGAIN_S * 2**self.snapshot_refusals, SNAPSHOT_S)
        self.snapshot_refusals = min(self.snapshot_refusals + 1, 10)
        if code != "SNAPSHOT_STALE" or self.snapshot_refusals >= STALE_SAID:
            say(f"the gate refuses a snapshot, and takes no entries without one: {code}: {message}")
        return True


def fee_of(trade, venue):
    """Returns the members of a report that state the fee. One in a third currency is valued, never guessed."""
    told = {"fee": plain(rounded_up(trade.fee))}
    if trade.fee_currency != trade.symbol.partition("-")[2]:
        told["fee_currency"] = trade.fee_currency
    if trade.fee_value is not None:
        return {**told, "fee_value": plain(rounded_up(trade.fee_value))}
    return {**told, **value_of_fee(venue, trade.symbol, trade.fee_currency, trade.fee)}


def value_of_fee(venue, symbol, currency, fee):
    """Returns the member that states what a fee in a third currency is worth, if the venue has a price."""
    base, _, quote = symbol.partition("-")
    value = None if currency in (base, quote) else venue.value(currency, quote, fee)
    return {} if value is None else {"fee_value": plain(rounded_up(value))}

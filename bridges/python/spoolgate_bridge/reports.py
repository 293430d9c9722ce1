"""What a bridge tells the gate: reports, one after the other, and snapshots when nothing else is left to say."""
import hashlib
import re
import secrets
import time

from .gate import compact, envelope, say
from .venue import now, plain, rounded_up

SNAPSHOT_S = 60.0
SNAPSHOT_ANSWER_S = 10.0  # before a snapshot that the gate has not read is taken back
SNAPSHOT_AGAIN_S = 0.5
TEXT_MAX = 400
LETTERS = {"new": "n", "replaced": "n", "trade": "t", "canceled": "c", "expired": "e", "rejected": "r"}
# What repeating and crossing reports bring about. Any other refusal means that gate and venue differ.
EXPECTED = {"booked", "REPORT_DUPLICATE", "REPORT_UNKNOWN"}


class Reports:
    """Reports are signed once, kept in the journal, and sent until they are answered."""

    def __init__(self, key, journal, spool, run_id):
        self.key, self.journal, self.spool, self.run_id = key, journal, spool, run_id
        self.snapshot = None  # (request id, bytes, when it was sent)
        self.snapshot_at = 0.0

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
            envelope(self.key, self.request_id(n), "venue.report", compact(payload)),
        )

    def request_id(self, n):
        return f"{self.key['principal']}-{self.journal.meta('id')}-{n}"

    def send(self):
        """Sends the oldest report without an answer. Returns whether one was answered."""
        row = self.journal.one("SELECT * FROM reports WHERE answer IS NULL ORDER BY n LIMIT 1")
        answer = row and self.spool.exchange(self.request_id(row["n"]), row["bytes"])
        if not answer:
            return False
        error = answer.get("error") or {}
        code = "booked" if answer["status"] == "success" else error.get("code") or answer["status"]
        if code not in EXPECTED:
            say(f"the gate refuses report {row['exec_id']}: {code}: {error.get('message')}")
        with self.journal:
            self.journal.run("UPDATE reports SET answer = ? WHERE n = ?", code, row["n"])
            if code == "REPORT_UNKNOWN" and row["exec_type"] in ("new", "replaced"):
                # The gate does not have an order that works: it heard of its end while this instruction was on its way.
                self.journal.run(
                    "UPDATE attempts SET state = 'disowned' WHERE order_id = ? AND version = ? AND state = 'working'",
                    row["order_id"], row["version"],
                )
        return True

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
        error = answer.get("error") or {}
        if error.get("code") == "SNAPSHOT_STALE":
            self.snapshot_at = time.monotonic() + SNAPSHOT_AGAIN_S
        elif answer["status"] != "success":
            say(f"the gate refuses a snapshot: {error.get('code')}: {error.get('message')}")
        return True


def fee_of(trade, venue):
    """Returns the members of a report that state the fee. One in a third currency is valued, never guessed."""
    base, _, quote = trade.symbol.partition("-")
    told = {"fee": plain(rounded_up(trade.fee))}
    if trade.fee_currency != quote:
        told["fee_currency"] = trade.fee_currency
    if trade.fee_currency not in (base, quote):
        value = trade.fee_value
        if value is None:
            value = venue.value(trade.fee_currency, quote, trade.fee)
        if value is not None:
            told["fee_value"] = plain(rounded_up(value))
        else:
            say(f"no price for the fee of trade {trade.trade_id} in {trade.fee_currency}: the gate refuses the trade")
    return told

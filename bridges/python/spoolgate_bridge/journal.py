"""What a bridge must not forget: one sqlite database, on disk whenever a transaction is over."""
import fcntl
import json
import os
import secrets
import sqlite3
from decimal import Decimal

from .venue import CannotStart, plain_or_none

SCHEMA = """
-- One version of an order, as the gate states it. class: 0 cancel, 1 reduces, 2 entry. begun: what worked before may be
-- out of the market on its behalf.
CREATE TABLE IF NOT EXISTS instructions (order_id TEXT, version INTEGER, class INTEGER, line INTEGER, body TEXT,
  begun INTEGER DEFAULT 0, done INTEGER DEFAULT 0, PRIMARY KEY (order_id, version));
CREATE INDEX IF NOT EXISTS instructions_due ON instructions (order_id) WHERE done = 0;
-- The newest version that was carried out, and the whole size of the newest that worked.
CREATE TABLE IF NOT EXISTS orders (order_id TEXT PRIMARY KEY, version INTEGER, size TEXT);
-- One order at the venue. state: sending (no answer yet), working, over, gone (never arrived or refused), disowned (to be
-- taken out). filled: what the venue says. booked: the sum of its reported trades.
CREATE TABLE IF NOT EXISTS attempts (client_order_id TEXT PRIMARY KEY, order_id TEXT, version INTEGER, symbol TEXT,
  type TEXT, reduces INTEGER, size TEXT, sent_at TEXT, state TEXT, venue_id TEXT, filled TEXT, booked TEXT);
CREATE INDEX IF NOT EXISTS attempts_of ON attempts (order_id);
CREATE INDEX IF NOT EXISTS attempts_in ON attempts (state);
CREATE INDEX IF NOT EXISTS attempts_short ON attempts (order_id) WHERE booked <> filled;
CREATE INDEX IF NOT EXISTS attempts_at ON attempts (venue_id);
CREATE TABLE IF NOT EXISTS trades (trade_id TEXT PRIMARY KEY);
-- Acknowledgements and ends that wait until the trades before them are booked.
CREATE TABLE IF NOT EXISTS pending (n INTEGER PRIMARY KEY, order_id TEXT, version INTEGER, exec_type TEXT, text TEXT);
-- Signed reports; answer: `booked`, or the code of the refusal.
CREATE TABLE IF NOT EXISTS reports (n INTEGER PRIMARY KEY, exec_id TEXT UNIQUE, order_id TEXT, version INTEGER,
  exec_type TEXT, bytes BLOB, answer TEXT);
CREATE INDEX IF NOT EXISTS reports_unanswered ON reports (n) WHERE answer IS NULL;
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
"""


class Journal:
    """`with journal:` is a transaction; one inside another is part of it. Without, each statement is one."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.lock = open(os.path.join(folder, "lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotStart(f"another bridge works with `{folder}`") from error
        path = os.path.join(folder, "journal.db")
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.row_factory = sqlite3.Row
        try:
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=FULL")
            self.db.executescript(SCHEMA)
            faults = self.db.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.OperationalError:
            raise  # the disk is full, or locked, which ends
        except sqlite3.DatabaseError as error:
            faults = str(error)
        if faults != "ok":
            raise CannotStart(f"`{path}` is damaged ({faults}); the section on a lost journal in README.md says what to do")
        self.depth = 0
        if self.meta("id") is None:
            # Ids of requests are used once for ever, also if this folder is lost and made anew.
            self.set_meta("id", secrets.token_hex(4))

    def __enter__(self):
        if self.depth == 0:
            self.db.execute("BEGIN IMMEDIATE")
        self.depth += 1

    def __exit__(self, kind, *_):
        self.depth -= 1
        if self.depth == 0:
            self.db.execute("ROLLBACK" if kind else "COMMIT")

    def close(self):
        self.db.close()
        self.lock.close()

    def all(self, query, *values):
        return self.db.execute(query, values).fetchall()

    def one(self, query, *values):
        return self.db.execute(query, values).fetchone()

    def run(self, query, *values):
        self.db.execute(query, values)

    def meta(self, key):
        row = self.one("SELECT value FROM meta WHERE key = ?", key)
        return row and row["value"]

    def set_meta(self, key, value):
        self.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, value)

    def attempts(self, condition, *values):
        return self.all(f"SELECT * FROM attempts WHERE {condition} ORDER BY version", *values)

    def attempt(self, client_order_id):
        return self.one("SELECT * FROM attempts WHERE client_order_id = ?", client_order_id)

    def set_attempt(self, client_order_id, state=None, venue_id=None, filled=None, booked=None):
        """Changes what is given and keeps the rest."""
        self.run(
            "UPDATE attempts SET state = coalesce(?, state), venue_id = coalesce(?, venue_id),"
            " filled = coalesce(?, filled), booked = coalesce(?, booked) WHERE client_order_id = ?",
            state, venue_id, plain_or_none(filled), plain_or_none(booked), client_order_id,
        )

    def instruction_of(self, attempt):
        row = self.one(
            "SELECT body FROM instructions WHERE order_id = ? AND version = ?", attempt["order_id"], attempt["version"]
        )
        return json.loads(row["body"])

    def is_done(self, attempt):
        """Whether the instruction of an attempt is over and done with."""
        query = "SELECT done FROM instructions WHERE order_id = ? AND version = ?"
        return bool(self.one(query, attempt["order_id"], attempt["version"])["done"])

    def filled(self, order_id):
        """Returns what all versions of an order have filled, as the venue says."""
        return sum((Decimal(row["filled"]) for row in self.attempts("order_id = ?", order_id)), Decimal(0))

    def booked(self, order_id):
        """Returns what of it was reported."""
        return sum((Decimal(row["booked"]) for row in self.attempts("order_id = ?", order_id)), Decimal(0))

    def order(self, order_id):
        return self.one("SELECT * FROM orders WHERE order_id = ?", order_id)

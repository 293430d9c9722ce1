"""The bridge itself: carries out the instructions of a gate at a venue and reports what the venue does.

Each turn of the main loop takes files, asks for lost answers, carries out, looks at the venue, and reports. Every step may
be cut off at any point and is done again in the next turn or the next run:

- A place is journaled as `sending` before it is sent. If no answer comes, the venue is asked for the client order id
  before anything else is sent for that order.
- A fill is booked, and its report signed, in one transaction, once per trade id.
- A report is sent with the same bytes until it is answered, and the next one only then.

Words: an *instruction* is one version of an order; an *attempt* is one order at the venue. A replace is a cancel and a new
attempt, because most venues cannot change a stop in place.
"""
import datetime
import json
import signal
import time
from decimal import Decimal

from . import snapshot
from .gate import Alive, KeyRefused, Outbox, Spool, compact, say
from .journal import Journal
from .reports import Reports, fee_of
from .venue import (
    CANCELED, CLOSED, EXPIRED, OPEN, REJECTED,
    RateLimited, Refused, Request, Unavailable, decimal_or_none, moment, now, plain, stamp,
)

OVERLAP = datetime.timedelta(seconds=60)
IDLE_LOOK_S = 10.0  # between two requests to a venue that works nothing of ours
RETRY_S = 0.5  # before an order is tried again whose cancel did not work, or whose fate is not known
BACKOFF_S, BACKOFF_MAX_S = 0.5, 8.0
RECONNECT_S = 0.05  # after the first failure: an exchange may close a connection at any time
FAREWELL_S = 5.0
LAG_WARNING_S = 30.0
MISSING_S = 30.0  # before an order that works is taken for canceled because the venue does not know it
ENDS = {CLOSED: "canceled", CANCELED: "canceled", EXPIRED: "expired", REJECTED: "rejected"}


class Bridge:
    """Between one gate and one venue."""

    def __init__(self, home, key, state, venue):
        spool, self.outbox = Spool(home, key), Outbox(home, key["principal"])
        self.venue, self.journal = venue, Journal(state)
        self.alive = Alive(self.outbox.folder)
        self.reports = Reports(key, self.journal, spool, self.alive.run_id, venue)
        self.epoch = int(self.journal.meta("epoch") or 0)
        self.is_gate_valid = False
        self.is_stopping = False
        self.failures, self.backoff_s = 0, BACKOFF_S
        self.not_before = 0.0  # no request to the venue before this moment
        self.retry_at = {}  # by order id and by client order id
        self.look_at, self.trades_at, self.timer_at = 0.0, 0.0, 0.0
        # A timer that an earlier run armed may still run.
        self.is_timer_armed = venue.timer_s > 0
        self.missing_since, self.lags = {}, {}  # by client order id

    # -- the main loop

    def run(self):
        """Works until SIGTERM or SIGINT, and ends in order. Raises `KeyRefused` after it has ended in order for that."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "is_stopping", True))
        self.alive.start()
        try:
            self.outbox.finish(self.keep)
            while not self.is_stopping:
                if not self.step():
                    time.sleep(0.02)
            self.farewell()
        except KeyRefused:
            self.farewell(is_heard=False)
            raise
        finally:
            self.alive.end()
            self.journal.close()

    def step(self):
        """One turn. Returns whether there was something to do."""
        self.alive.turned_at = time.monotonic()
        self.see_gate()
        is_busy = self.outbox.take(self.keep)
        is_busy = self.refuse_late() or is_busy
        is_busy = self.at_venue(self.work) or is_busy
        self.reports.flush()
        return any([self.reports.send(), self.reports.follow_snapshot(), is_busy])

    def work(self):
        """The part of a turn that needs the venue. Whatever protects comes first."""
        self.begin()
        self.resolve_lost()
        is_busy = self.carry_out()
        self.withdraw_entries()
        self.look()
        self.keep_timer()
        if self.reports.is_snapshot_due():
            self.take_snapshot()
        return is_busy

    def begin(self):
        """Notes, before anything is placed, since when there can be trades, by the venue's clock."""
        if self.journal.meta("trades_from") is None:
            self.journal.set_meta("trades_from", self.venue.time())

    def at_venue(self, work):
        """Runs what needs the venue, unless it was down or impatient a moment ago. Returns what that returns, or False."""
        if time.monotonic() < self.not_before:
            return False
        try:
            result = work()
        except RateLimited as error:
            self.back_off(f"the venue asks for fewer requests: {error}", self.backoff_s)
            return False
        except (Unavailable, Refused) as error:
            self.failures += 1
            if self.failures > 1:
                self.alive.state(is_venue_up=False)
            self.back_off(f"the venue does not answer: {error}", RECONNECT_S if self.failures == 1 else self.backoff_s)
            return False
        if self.failures or not self.alive.is_venue_up:
            self.reports.snapshot_at = 0.0
        if self.failures > 1:
            # The venue was down, so what failed was not one order's fault: a stop waits no longer.
            self.retry_at.clear()
        self.failures, self.backoff_s = 0, BACKOFF_S
        self.alive.state(is_venue_up=True)
        return result

    def back_off(self, why, wait_s):
        if self.backoff_s == BACKOFF_S:
            say(why)
        self.not_before = time.monotonic() + wait_s
        self.backoff_s = min(self.backoff_s * 2, BACKOFF_MAX_S)

    def farewell(self, is_heard=True):
        """Takes entries out of the market, because nobody would place their stops. Stops and exits stay.

        `is_heard`: the gate reads what this bridge signs.
        """
        deadline, self.not_before = time.monotonic() + FAREWELL_S, 0.0

        def leave():
            self.begin()
            self.resolve_lost()
            self.withdraw_entries()
            self.look()

        while time.monotonic() < deadline:
            self.alive.turned_at, self.is_gate_valid = time.monotonic(), False
            self.at_venue(leave)
            self.reports.flush()
            if is_heard:
                self.reports.send()
            is_told = not is_heard or not self.reports.has_news()
            if is_told and not self.journal.attempts("state IN ('sending', 'working') AND reduces = 0"):
                break
            time.sleep(0.02)
        if self.is_timer_armed:
            self.at_venue(self.disarm)

    # -- instructions

    def see_gate(self):
        epoch = self.outbox.gate_epoch()
        self.is_gate_valid = epoch is not None and epoch >= self.epoch
        self.see_epoch(epoch or 0)

    def see_epoch(self, epoch):
        if epoch > self.epoch:
            self.epoch = epoch
            self.journal.set_meta("epoch", str(epoch))

    def keep(self, told):
        """Stores what was taken. An instruction that comes again is known by order and version."""
        with self.journal:
            for one in told:
                if "ping" in one:
                    self.alive.state(nonce=str(one["ping"]))
                else:
                    kind = 0 if one["instruction"] == "cancel" else 1 if one["reduce_only"] else 2
                    self.journal.run(
                        "INSERT OR IGNORE INTO instructions (order_id, version, class, line, body) VALUES (?, ?, ?, ?, ?)",
                        one["order_id"], one["version"], kind, int(one["line"]), compact(one),
                    )
                self.see_epoch(int(one.get("epoch", 0)))

    def due(self):
        """Returns the newest version of every order that is not done: cancels, then what reduces, then entries.

        An order is left alone as long as the answer to a request is missing: it may work, and is asked for first.
        """
        return self.journal.all(
            "SELECT * FROM instructions AS newest WHERE done = 0"
            " AND version = (SELECT max(version) FROM instructions WHERE order_id = newest.order_id)"
            " AND NOT EXISTS (SELECT 1 FROM attempts WHERE order_id = newest.order_id AND state = 'sending')"
            " ORDER BY class, line"
        )

    def may_send(self, told):
        is_late = told["valid_until"] is not None and moment(told["valid_until"]) <= moment(now())
        is_entry = told["instruction"] != "cancel" and not told["reduce_only"]
        return not is_late and told["epoch"] >= self.epoch and (self.is_gate_valid or not is_entry)

    def refuse_late(self):
        """Answers what may no longer be sent, which needs no venue. Returns whether there was any."""
        has_refused = False
        for row in self.due():
            told = json.loads(row["body"])
            if self.may_send(told):
                continue
            has_refused = True
            if row["begun"] and not self.journal.attempts("state = 'working' AND order_id = ?", told["order_id"]):
                # The version before is out of the market, so this is not the `expired` after which it goes on.
                self.end(told, "rejected", "venue: it was too late for the new order when the old one had been taken out")
                continue
            with self.journal:
                self.done(told)
                self.reports.add(told["order_id"], "rejected", version=told["version"], text="expired")
        return has_refused

    def carry_out(self):
        """Returns whether anything was done. Entries wait as long as anything that protects is stuck."""
        has_done = False
        is_stuck = bool(self.journal.attempts("state = 'sending' AND reduces = 1"))
        for row in self.due():
            order_id, is_entry = row["order_id"], row["class"] == 2
            if is_entry and is_stuck or time.monotonic() < self.retry_at.get(order_id, 0):
                is_stuck = is_stuck or not is_entry
                continue
            # If it fails, the others have a turn before it is tried again.
            self.retry_at[order_id] = time.monotonic() + max(RETRY_S, 2 * self.backoff_s)
            try:
                is_done = self.carry_out_one(json.loads(row["body"]))
            except RateLimited:
                self.retry_at.pop(order_id)
                raise
            if is_done:
                has_done = True
                self.retry_at.pop(order_id, None)
            else:
                is_stuck = is_stuck or not is_entry
                self.retry_at[order_id] = time.monotonic() + RETRY_S
        return has_done

    def carry_out_one(self, told):
        """Returns whether the instruction is done."""
        if not self.may_send(told):
            return False  # the next turn refuses it
        order_id, verb = told["order_id"], told["instruction"]
        working = self.journal.attempts("state IN ('working', 'disowned') AND order_id = ?", order_id)
        if working:
            self.journal.run(
                "UPDATE instructions SET begun = 1 WHERE order_id = ? AND version = ?", order_id, told["version"]
            )
        if not all([self.take_out(attempt) for attempt in working]):
            return False
        if verb == "cancel":
            self.end(told, "canceled")
            return True
        before, filled, wanted = self.journal.order(order_id), self.journal.filled(order_id), Decimal(told["size"])
        if verb == "replace" and before is not None and Decimal(before["size"]) <= filled < wanted:
            self.end(told, "rejected", "venue: the order had filled before it could grow")
            return True
        if wanted <= filled:
            with self.journal:
                self.acknowledge(told)
            return True
        return self.place(told, wanted - filled)

    def place(self, told, size):
        """Sends a new order. Returns whether the instruction is done."""
        if told["reduce_only"] and self.is_timer_armed:
            self.disarm()
        if not self.may_send(told):  # taking out the old order has taken time
            return False
        request = Request(
            told["client_order_id"], told["symbol"], told["side"], told["order_type"], size,
            decimal_or_none(told["price"]), decimal_or_none(told["trigger"]),
            "ioc" if told["time_in_force"] == "ioc" else "gtc",
        )
        self.journal.run(
            "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'sending', NULL, '0', '0')",
            request.client_order_id, told["order_id"], told["version"], told["symbol"], told["order_type"],
            told["reduce_only"], plain(size), now(),
        )
        try:
            order = self.venue.place(request)
        except RateLimited:
            self.journal.set_attempt(request.client_order_id, state="gone")
            raise
        except Refused as error:
            order = None
            if error.code == "duplicate":
                order = self.venue.order(request.client_order_id, request.symbol, None)
            if order is None:
                with self.journal:
                    self.journal.set_attempt(request.client_order_id, state="gone")
                    self.end(told, "rejected", f"venue: {error.code}: {error}")
                return True
        self.exists(self.journal.attempt(request.client_order_id), order)
        return True

    def resolve_lost(self):
        """Asks for the orders whose answers were lost, and takes out what the gate does not have."""
        for attempt in self.journal.attempts("state IN ('sending', 'disowned')"):
            name = attempt["client_order_id"]
            if time.monotonic() < self.retry_at.get(name, 0):
                continue
            self.retry_at[name] = time.monotonic() + max(RETRY_S, 2 * self.backoff_s)
            if attempt["state"] == "disowned":
                self.take_out(attempt)
                continue
            order = self.venue.order(name, attempt["symbol"], None)
            if order is not None:
                self.exists(attempt, order)
            elif self.has_settled(attempt):
                self.journal.set_attempt(name, state="gone")
                self.retry_at.pop(name)
                self.retry_at.pop(attempt["order_id"], None)
            else:
                self.retry_at[name] = time.monotonic() + RETRY_S

    def has_settled(self, attempt):
        return moment(now()) >= moment(attempt["sent_at"]) + datetime.timedelta(seconds=self.venue.settle_s)

    def exists(self, attempt, order):
        """The venue has the order of an attempt. `order` is None if a trade shows it."""
        with self.journal:
            self.journal.set_attempt(attempt["client_order_id"], state="working")
            self.acknowledge(self.journal.instruction_of(attempt))
            if order is not None:
                self.see(attempt, order)
        self.look_at = 0.0

    def take_out(self, attempt, is_instructed=True):
        """Cancels an attempt, and reports its end unless an instruction does. Returns whether it is certain to be over."""
        ids = (attempt["client_order_id"], attempt["symbol"], attempt["venue_id"])
        try:
            order = self.venue.cancel(*ids)
        except Refused as error:
            say(f"the venue does not cancel {attempt['order_id']}.{attempt['version']}: {error}")
            order = None
        if order is None or order.status == OPEN:
            order = self.venue.order(*ids)
        if order is not None and order.status == OPEN or order is None and not self.has_settled(attempt):
            return False
        filled = Decimal(attempt["filled"]) if order is None else max(order.filled, Decimal(attempt["filled"]))
        with self.journal:
            self.journal.set_attempt(attempt["client_order_id"], state="over", filled=filled)
            if not is_instructed:
                self.over(attempt, CANCELED, "")
        self.look_at = self.trades_at = 0.0
        return True

    def withdraw_entries(self):
        """While the gate is silent, no entry works: nobody would place its stop."""
        if self.is_gate_valid:
            return
        for attempt in self.journal.attempts("state = 'working' AND reduces = 0"):
            self.take_out(attempt, is_instructed=False)

    def done(self, told):
        self.journal.run(
            "UPDATE instructions SET done = 1 WHERE order_id = ? AND version <= ?", told["order_id"], told["version"]
        )

    def acknowledge(self, told):
        """The venue works the order as this version says."""
        self.done(told)
        self.journal.run(
            "INSERT INTO orders VALUES (?, ?, ?) ON CONFLICT (order_id) DO UPDATE SET version = excluded.version,"
            " size = excluded.size WHERE excluded.version > version",
            told["order_id"], told["version"], told["size"],
        )
        self.reports.pend(told["order_id"], told["version"], "new" if told["instruction"] == "place" else "replaced")

    def end(self, told, exec_type, text=None):
        """This version ends the order."""
        with self.journal:
            self.done(told)
            self.journal.run(
                "INSERT INTO orders VALUES (?, ?, ?) ON CONFLICT (order_id) DO UPDATE SET version = excluded.version"
                " WHERE excluded.version > version",
                told["order_id"], told["version"], told["size"],
            )
            self.reports.pend(told["order_id"], told["version"], exec_type, text)

    # -- what the venue does

    def look(self):
        """Looks at open orders and trades when it is time, or when a fill is known whose trade is not."""
        live, has_looked = self.journal.attempts("state = 'working'"), time.monotonic() >= self.look_at
        if has_looked and live:
            self.look_at_orders(live)
        is_short = bool(self.journal.attempts("booked <> filled"))
        if time.monotonic() >= self.trades_at or has_looked and is_short:
            self.look_at_trades()
        elif has_looked and not live:
            self.venue.time()
        if has_looked:
            self.look_at = time.monotonic() + (self.venue.poll_s if live or is_short else IDLE_LOOK_S)

    def look_at_orders(self, live):
        opens = self.open_orders(False)
        for attempt in live:
            name = attempt["client_order_id"]
            order = opens.get(name) or opens.get(attempt["venue_id"])
            if order is None:
                order = self.venue.order(name, attempt["symbol"], attempt["venue_id"])
            if order is not None:
                self.missing_since.pop(name, None)
                self.see(attempt, order)
            elif time.monotonic() - self.missing_since.setdefault(name, time.monotonic()) >= MISSING_S:
                say(f"the venue no longer knows {attempt['order_id']}.{attempt['version']}, which is taken for canceled")
                self.take_out(attempt, is_instructed=False)

    def open_orders(self, is_whole_account):
        """Returns what is open by client order id, or by the venue's id, and sees to orders that should not be."""
        opens = {order.client_order_id or order.venue_id: order for order in self.venue.open_orders(is_whole_account)}
        for name in opens:
            attempt = self.journal.attempt(name)
            if attempt is None or attempt["state"] not in ("gone", "over"):
                continue
            # The list may be older than the end of the order; or a request has arrived later than it could have.
            order = self.venue.order(name, attempt["symbol"], attempt["venue_id"])
            if order is None or order.status != OPEN:
                continue
            if self.journal.is_done(attempt):
                say(f"{attempt['order_id']}.{attempt['version']} works at the venue and should not: it is taken out")
                self.journal.set_attempt(name, state="disowned", venue_id=order.venue_id)
            else:
                self.exists(attempt, order)
        return opens

    def see(self, attempt, order):
        """Books how an order is. What the venue said before is not taken back: answers come late."""
        name = attempt["client_order_id"]
        known = self.journal.attempt(name)
        filled = max(order.filled, Decimal(known["filled"]))
        with self.journal:
            self.journal.set_attempt(name, venue_id=order.venue_id, filled=filled)
            if order.status != OPEN:
                self.over(attempt, order.status, order.text)

    def over(self, attempt, status, text):
        """An attempt has ended without an instruction to end it."""
        order_id = attempt["order_id"]
        with self.journal:
            self.journal.set_attempt(attempt["client_order_id"], state="over")
            order = self.journal.order(order_id)
            if self.journal.filled(order_id) < Decimal(order["size"]):
                text = f"venue: {text or 'rejected'}" if status == REJECTED else None
                self.reports.pend(order_id, order["version"], ENDS[status], text)

    def look_at_trades(self):
        # Trades may come late, also behind later ones: as long as one is missing, those since its order count as new.
        missing = [row["sent_at"] for row in self.journal.attempts("state = 'sending' OR booked <> filled")]
        since = moment(min([self.journal.meta("trades_from"), *missing], key=moment)) - OVERLAP
        for trade in sorted(self.venue.trades(stamp(since)), key=lambda trade: (moment(trade.at), trade.trade_id)):
            if self.journal.one("SELECT 1 FROM trades WHERE trade_id = ?", trade.trade_id):
                continue
            attempt = trade.client_order_id and self.journal.attempt(trade.client_order_id)
            if not attempt:
                attempt = self.journal.one(
                    "SELECT * FROM attempts WHERE venue_id = ? AND symbol = ?", trade.venue_id, trade.symbol
                )
            if attempt:
                self.book(attempt, trade)
        self.trades_at = time.monotonic() + self.venue.trades_s
        self.warn_of_lag()

    def book(self, attempt, trade):
        name, order_id = attempt["client_order_id"], attempt["order_id"]
        fee = fee_of(trade, self.venue)
        with self.journal:
            self.journal.run("INSERT INTO trades VALUES (?)", trade.trade_id)
            if attempt["state"] in ("sending", "gone"):
                self.exists(attempt, None)
                self.reports.flush()
            booked = Decimal(attempt["booked"]) + trade.size
            filled = max(booked, Decimal(attempt["filled"]))
            self.journal.set_attempt(name, booked=booked, filled=filled, venue_id=trade.venue_id)
            self.reports.add(
                order_id, "trade", trade_id=trade.trade_id, at=trade.at, last_qty=plain(trade.size),
                last_px=plain(trade.price), liquidity=trade.liquidity, **fee,
            )
            self.journal.set_meta("trades_from", max(self.journal.meta("trades_from"), trade.at, key=moment))

    def warn_of_lag(self):
        short = [row["client_order_id"] for row in self.journal.attempts("booked <> filled")]
        self.lags = {name: self.lags.get(name, time.monotonic()) for name in short}
        for name, since in self.lags.items():
            if time.monotonic() - since > LAG_WARNING_S:
                say(f"the venue shows a fill of `{name}` but no trade; its order stays open at the gate until it does")
                self.lags[name] = time.monotonic()

    # -- cancel-on-disconnect

    def keep_timer(self):
        """Such a timer cancels all orders, so it is armed only while nothing of ours protects or reduces."""
        if self.venue.timer_s == 0:
            return
        protects = self.journal.attempts("reduces = 1 AND state IN ('sending', 'working', 'disowned')")
        if protects or any(row["class"] == 1 for row in self.due()):
            if self.is_timer_armed:
                self.disarm()
        elif time.monotonic() >= self.timer_at:
            self.is_timer_armed = True
            self.venue.timer(self.venue.timer_s)
            self.timer_at = time.monotonic() + self.venue.timer_s / 3

    def disarm(self):
        self.venue.timer(0)
        self.is_timer_armed, self.timer_at = False, 0.0

    # -- snapshots

    def take_snapshot(self):
        """States what is at the venue. If something has happened meanwhile, that is told first."""
        opens = self.open_orders(True)
        balances, positions = self.venue.balances(), self.venue.positions()
        self.look_at = self.trades_at = 0.0
        self.look()
        if self.reports.has_news():
            return
        self.reports.send_snapshot(**snapshot.members(self.journal, opens, balances, positions))

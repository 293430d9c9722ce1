"""The Python bridge of this repository with one deliberate fault: `python3 faulty.py FAULT --home ...`.

`none` is the bridge as it is. Each function below breaks one rule of docs/outbox.md, and a test expects the suite of
`spoolgate bridge test` to notice it.
"""
import json
import os
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(__file__), "../../../bridges/python"))

from spoolgate_bridge import core, gate, reports, snapshot  # noqa: E402
from spoolgate_bridge.__main__ import main  # noqa: E402
from spoolgate_bridge.core import Bridge  # noqa: E402
from spoolgate_bridge.gate import Alive, Outbox, Spool, compact, instruction  # noqa: E402
from spoolgate_bridge.journal import Journal  # noqa: E402
from spoolgate_bridge.mock_venue import MockVenue  # noqa: E402
from spoolgate_bridge.reports import Reports  # noqa: E402
from spoolgate_bridge.venue import Refused, RateLimited, Unavailable, moment  # noqa: E402


def patch(owner, name, wrap):
    """Replaces a function by what `wrap` makes of it."""
    setattr(owner, name, wrap(getattr(owner, name)))


def in_sql(before, after):
    def wrap(of):
        return lambda self, query, *values: of(self, query.replace(before, after), *values)

    for name in ("all", "run"):
        patch(Journal, name, wrap)


def in_payload(change, of_action="venue.report"):
    """Changes reports or snapshots just before they are signed."""

    def wrap(of):
        def sign(key, request_id, action, payload, stamp=None):
            told = json.loads(payload)
            if action == of_action and stamp is None:  # not what was signed before
                change(told)
            return of(key, request_id, action, compact(told), stamp)

        return sign

    patch(reports, "envelope", wrap)


def in_instruction(**members):
    patch(Bridge, "may_send", lambda of: lambda self, told: of(self, {**told, **members}))


def read_before_rename():
    def take(self, keep):
        names = [name for name in os.listdir(self.folder) if name.endswith(".json")]
        told = []
        for name in names:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                one = json.load(file)
                told.append(one if "ping" in one else instruction(one))
        keep(told)
        for name in names:
            try:
                os.unlink(os.path.join(self.folder, name))
            except FileNotFoundError:
                pass
        return bool(names)

    patch(Outbox, "take", lambda of: take)


def taken_is_forgotten():
    patch(Bridge, "run", lambda of: lambda self: (clear(self.outbox.taken), of(self)))


def clear(folder):
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))


def file_twice():
    in_sql("INSERT OR IGNORE INTO instructions", "INSERT OR REPLACE INTO instructions")


def lower_versions():
    in_sql("WHERE order_id = newest.order_id)", "WHERE done = 0 AND order_id = newest.order_id)")


def whole_size():
    patch(Bridge, "place", lambda of: lambda self, told, size: of(self, told, core.Decimal(told["size"])))


def ignore_valid_until():
    in_instruction(valid_until=None)


def ignore_epoch():
    in_instruction(epoch=1_000_000)


def forget_epoch():
    patch(Bridge, "see_epoch", lambda of: lambda self, epoch: setattr(self, "epoch", epoch or self.epoch))


def fills_before_ack():
    """Misses what an order fills before the answer to its placing."""

    def place(of):
        def ignoring(self, request):
            order = of(self, request)
            for told in self.ask("trades", since="1970-01-01T00:00:00Z"):
                if told["client_order_id"] == request.client_order_id:
                    self.__dict__.setdefault("missed", set()).add(told["trade_id"])
            return order

        return ignoring

    def trades(of):
        return lambda self, since: [it for it in of(self, since) if it.trade_id not in getattr(self, "missed", ())]

    patch(MockVenue, "place", place)
    patch(MockVenue, "trades", trades)


def end_before_trades():
    def attempts(of):
        return lambda self, condition, *values: [] if "version < ?" in condition else of(self, condition, *values)

    patch(Journal, "attempts", attempts)
    patch(Bridge, "end", lambda of: lambda self, *told: (of(self, *told), self.reports.flush()))


def cursor():
    """Asks for trades after the newest that it knows."""

    def trades(of):
        def later(self, since):
            newest = getattr(self, "newest", None)
            found = [trade for trade in of(self, since) if newest is None or moment(trade.at) > newest]
            self.newest = max([moment(trade.at) for trade in found] + ([newest] if newest else []), default=None)
            return found

        return later

    patch(MockVenue, "trades", trades)


def trades_by_place():
    """Takes the place in the list for the trade."""

    def trades(of):
        def numbered(self, since):
            found = of(self, since)
            for n, trade in enumerate(found):
                trade.trade_id = str(n)
            return found

        return numbered

    patch(MockVenue, "trades", trades)


def no_fee_currency():
    in_payload(lambda told: told.pop("fee_currency", None))


def no_version():
    in_payload(lambda told: told["exec_type"] in ("canceled", "expired", "rejected") and told.pop("version"))


def own_words():
    in_payload(lambda told: "text" in told and told.update(text=told["text"].removeprefix("venue: ")))


def resend():
    def resolve_lost(self):
        for attempt in self.journal.attempts("state = 'sending'"):
            self.journal.set_attempt(attempt["client_order_id"], state="gone")

    patch(Bridge, "resolve_lost", lambda of: resolve_lost)


def lost_is_refused():
    def place(of):
        def sure(self, request):
            try:
                return of(self, request)
            except Unavailable as error:
                raise Refused("rejected", str(error)) from error

        return sure

    patch(MockVenue, "place", place)


def old_stays():
    """Places the new order of a replacement without taking the old one out."""

    def carry_out_one(of):
        def stay(self, told):
            self.stays = told["instruction"] != "cancel"
            return of(self, told)

        return stay

    patch(Bridge, "carry_out_one", carry_out_one)
    patch(Bridge, "take_out", lambda of: lambda self, *args, **more: getattr(self, "stays", False) or of(self, *args, **more))


def entries_first():
    patch(Bridge, "due", lambda of: lambda self: of(self)[::-1])


def limit_is_refusal():
    def place(of):
        def refused(self, request):
            try:
                return of(self, request)
            except RateLimited as error:
                raise Refused("rejected", str(error)) from error

        return refused

    patch(MockVenue, "place", place)


def send_at_once():
    def send(of):
        def all_of_them(self):
            for row in self.journal.all("SELECT * FROM reports WHERE answer IS NULL"):
                self.spool.exchange(self.request_id(row["n"]), row["bytes"])
            return of(self)

        return all_of_them

    patch(Reports, "send", send)


def new_bytes():
    def drop(of):
        def again(self, request_id, content):
            self.n = getattr(self, "n", 0) + 1
            of(self, request_id, content + b" " * self.n)

        return again

    patch(Spool, "drop", drop)


def send_once():
    patch(Spool, "drop", lambda of: lambda self, request_id, content: (
        None if request_id in self.__dict__.setdefault("dropped", set()) else of(self, request_id, content),
        self.dropped.add(request_id),
    ))


def forget_state():
    at = sys.argv.index("--state") + 1
    sys.argv[at] = tempfile.mkdtemp(dir=sys.argv[at])


def ignore_gate():
    patch(Bridge, "see_gate", lambda of: lambda self: (of(self), setattr(self, "is_gate_valid", True)))


def stops_end_when_silent():
    in_sql("state = 'working' AND reduces = 0", "state = 'working'")


def no_alive():
    patch(Alive, "write", lambda of: lambda self: None)


def one_alive():
    patch(Alive, "run", lambda of: Alive.write)


def no_nonce():
    patch(Alive, "state", lambda of: lambda self, nonce=None, is_venue_up=None: of(self, None, is_venue_up))


def always_up():
    patch(Alive, "state", lambda of: lambda self, nonce=None, is_venue_up=None: of(self, nonce, True))


def no_snapshot():
    patch(Reports, "is_snapshot_due", lambda of: lambda self: False)


def one_snapshot():
    patch(Reports, "is_snapshot_due", lambda of: lambda self: getattr(self, "is_first", True) and of(self))
    patch(Reports, "send_snapshot", lambda of: lambda self, **told: (setattr(self, "is_first", False), of(self, **told)))


def hide_foreign():
    in_payload(lambda told: told["foreign"].clear(), "venue.snapshot")


def cancel_foreign():
    def withdraw(of):
        def everything(self):
            of(self)
            for told in [] if self.is_gate_valid else self.venue.ask("open_orders"):
                name = told["client_order_id"]
                if name is not None and self.journal.attempt(name) is None:
                    self.venue.ask("cancel", client_order_id=name)

        return everything

    patch(Bridge, "withdraw_entries", withdraw)


def always_armed():
    patch(Bridge, "keep_timer", lambda of: lambda self: self.venue.timer(30))
    patch(Bridge, "disarm", lambda of: lambda self: None)


def never_armed():
    patch(Bridge, "keep_timer", lambda of: lambda self: None)


def again_is_dropped():
    """Believes that a file that is written again is always known."""

    def finish(of):
        def known(self, keep):
            for name in os.listdir(self.taken):
                if name.endswith(".again.json"):
                    os.unlink(os.path.join(self.taken, name))
            return of(self, keep)

        return known

    patch(Outbox, "finish", finish)


def stop_limit():
    patch(MockVenue, "place", lambda of: lambda self, request: (setattr(request, "price", request.price or request.trigger), of(self, request))[1])


def cancel_is_sure():
    def cancel(of):
        def sure(self, *ids):
            try:
                return of(self, *ids)
            except (Refused, Unavailable):
                order = self.order(*ids)
                order.status = "canceled"
                return order

        return sure

    patch(MockVenue, "cancel", cancel)


def floats():
    sums, said = {}, {}

    def add_up(told):
        order_id, last = told["order_id"], core.Decimal(told.get("last_qty", 0))
        if told["exec_id"] not in said:
            before = sums.setdefault(order_id, float(core.Decimal(told["cum_qty"]) - last))
            sums[order_id] = before + float(last)
            said[told["exec_id"]] = repr(sums[order_id])
        told["cum_qty"] = said[told["exec_id"]]

    in_payload(add_up)


def exponents():
    reports.plain = str


def no_rebates():
    in_payload(lambda told: told.get("fee", "0").startswith("-") and told.update(fee="0"))


def refused_is_answered():
    reports.FINAL = reports.FINAL | {"INTERNAL", "TIMESTAMP_STALE"}


def refused_id_again():
    patch(Reports, "sign_anew", lambda of: lambda self, row, told: None)


def refused_is_another():
    def sign_anew(of):
        def other(self, row, told):
            told["payload"]["exec_id"] += "-again"
            of(self, row, told)

        return other

    patch(Reports, "sign_anew", sign_anew)


def limited_is_answered():
    def read(of):
        def sure(path):
            answer = of(path)
            return answer and {**answer, "status": answer["status"].replace("rate_limited", "success")}

        return staticmethod(sure)

    patch(Spool, "read", read)


def key_for_ever():
    gate.KEY_REFUSALS = 1_000_000


def entries_stay_at_the_end():
    patch(Bridge, "farewell", lambda of: lambda self, is_heard=True: None)


def size_at_venue():
    patch(snapshot, "as_worked", lambda of: lambda journal, attempt, opens: {**of(journal, attempt, opens), "size": attempt["size"]})


def alive_in_loop():
    """Writes `.alive` between two requests, so not while one waits for its answer."""
    patch(Alive, "run", lambda of: lambda self: None)
    patch(Bridge, "step", lambda of: lambda self: (self.alive.write(), of(self))[1])


def none():
    pass


if __name__ == "__main__":
    globals()[sys.argv.pop(1)]()
    sys.exit(main())

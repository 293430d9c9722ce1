"""The core against a gate and a venue in the test."""
import contextlib
import io
import os
import time
import unittest
from decimal import Decimal

import rig
from spoolgate_bridge.venue import RateLimited, Refused, Unavailable, moment, plain, rounded_up


class Case(unittest.TestCase):
    def setUp(self):
        self.said = io.StringIO()  # what the bridge has to say to its operator
        quiet = contextlib.redirect_stderr(self.said)
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def rig(self, **kinds):
        made = rig.Rig(**kinds)
        self.addCleanup(made.close)
        return made


class Instructions(Case):
    def test_an_order_is_placed_filled_and_reported_in_this_order(self):
        r = self.rig(part="0.3")
        name = r.gate.tell("o-1", 1, size="0.5", price="100")
        r.turn()
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])
        r.price("99")
        r.turn()
        r.price("98")
        r.turn()
        self.assertEqual(r.gate.told()[1:], [("o-1", "trade", "0.3", "0.3"), ("o-1", "trade", "0.2", "0.5")])
        self.assertEqual(r.venue.placed()[0]["client_order_id"], name)
        self.assertEqual(os.listdir(os.path.join(r.gate.outbox, "taken")), [])
        self.assertEqual(r.gate.refused, [])

    def test_a_file_twice_is_one_order(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.gate.tell("o-1", 1, price="90", again=".again")
        r.turn()
        r.gate.tell("o-1", 1, price="90", again=".again")
        r.turn()
        self.assertEqual(len(r.venue.placed()), 1)
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])

    def test_the_highest_version_wins_and_lower_ones_are_skipped(self):
        r = self.rig()
        r.gate.tell("o-1", 2, "replace", size="0.2", price="91")
        r.turn()
        r.gate.tell("o-1", 1, size="0.5", price="90")
        r.turn()
        self.assertEqual([p["size"] for p in r.venue.placed()], ["0.2"])
        self.assertEqual(r.gate.told(), [("o-1", "replaced", 2, "0")])

    def test_a_file_that_the_gate_takes_back_first_is_not_carried_out(self):
        r = self.rig()
        r.gate.tell("o-1", 1)
        real = os.rename

        def rename(source, target):
            if "taken" in target:
                os.unlink(source)
            return real(source, target)

        os.rename = rename
        try:
            r.turn(1)
        finally:
            os.rename = real
        r.turn()
        self.assertEqual(r.venue.placed(), [])

    def test_what_lies_in_taken_at_a_start_is_carried_out(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        os.rename(os.path.join(r.gate.outbox, "o-1.1.json"), os.path.join(r.gate.outbox, "taken", "o-1.1.json"))
        r.start()
        r.turn()
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])

    def test_a_file_that_cannot_be_read_stops_nothing(self):
        r = self.rig()
        r.gate.write("o-9.1.json", {"order_id": "o-9"})
        r.gate.tell("o-1", 1, price="90")
        r.turn()
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])
        self.assertEqual(os.listdir(os.path.join(r.gate.outbox, "taken")), ["o-9.1.json.bad"])

    def test_late_instructions_are_expired_and_the_version_before_goes_on(self):
        r = self.rig()
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="90", side="sell")
        r.turn()
        r.gate.tell("o-1-stop", 2, "replace", order_type="stop", price=None, trigger="95", side="sell", valid_s=0)
        r.turn()
        self.assertEqual([o["trigger"] for o in r.open()], ["90"])
        self.assertEqual(r.gate.told()[1:], [("o-1-stop", "rejected", 2, "0")])
        self.assertEqual(r.gate.reports[1]["text"], "expired")
        self.assertEqual([op for op, _ in r.venue.asked if op in ("place", "cancel")], ["place"])

    def test_an_instruction_one_second_before_its_end_is_sent(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90", valid_s=1)
        r.turn(1)
        self.assertEqual(len(r.venue.placed()), 1)

    def test_late_instructions_are_answered_while_the_venue_is_down(self):
        r = self.rig()
        r.venue.always = {op: Unavailable("down") for op in ("place", "time", "trades", "open_orders")}
        r.gate.tell("o-1", 1, valid_s=0)
        r.turn()
        self.assertEqual(r.gate.reports[0]["text"], "expired")
        self.assertEqual(r.gate.alive()["venue"], "down")

    def test_time_that_passes_between_cancel_and_place_leaves_the_order_out(self):
        r = self.rig()
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="90", side="sell")
        r.turn()
        r.gate.tell("o-1-stop", 2, "replace", order_type="stop", price=None, trigger="95", side="sell", valid_s=0.3)
        r.venue.faults["cancel"] = [lambda ok: time.sleep(0.4) or ok]
        r.turn()
        self.assertEqual(r.open(), [])
        self.assertEqual(r.gate.told()[1:], [("o-1-stop", "rejected", 2, "0")])
        self.assertTrue(r.gate.reports[1]["text"].startswith("venue: "))

    def test_a_lower_epoch_is_refused_also_after_a_restart(self):
        r = self.rig()
        r.gate.speak(epoch=2)
        r.gate.tell("o-1", 1, price="90", epoch=2)
        r.turn()
        r.start()
        r.gate.tell("o-2-stop", 1, order_type="stop", price=None, trigger="90", side="sell", epoch=1)
        r.gate.tell("o-1", 2, "cancel", valid_s=None, epoch=1)
        r.turn()
        self.assertEqual(sorted(r.gate.told()[1:]), [("o-1", "rejected", 2, "0"), ("o-2-stop", "rejected", 1, "0")])
        self.assertEqual({x["text"] for x in r.gate.reports[1:]}, {"expired"})
        self.assertEqual(len(r.open()), 1)

    def test_cancels_and_exits_go_before_entries(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.turn()
        r.gate.tell("o-2", 1, price="91", reduces=False)
        r.gate.tell("o-3", 1, side="sell", price="200", reduces=True)
        r.gate.tell("o-1", 2, "cancel", valid_s=None)
        r.venue.asked.clear()
        r.turn()
        asked = [(op, m.get("side")) for op, m in r.venue.asked if op in ("place", "cancel")]
        self.assertEqual(asked, [("cancel", None), ("place", "sell"), ("place", "buy")])

    def test_under_a_rate_limit_exits_go_first_when_it_is_over(self):
        r = self.rig()
        r.gate.tell("o-2", 1, price="91", reduces=False)
        r.gate.tell("o-3", 1, side="sell", price="200", reduces=True)
        r.venue.faults["place"] = [RateLimited("429"), RateLimited("429")]
        r.turn()
        self.assertEqual([p["side"] for p in r.venue.placed()], ["sell", "sell", "sell", "buy"])
        self.assertEqual(len(r.open()), 2)


class Replacing(Case):
    def stop(self, r, version, size, trigger="90", verb="place", **more):
        return r.gate.tell("o-1-stop", version, verb, size=size, order_type="stop", price=None, trigger=trigger, side="sell", **more)

    def test_a_replace_is_a_cancel_and_a_new_order_for_what_is_left(self):
        r = self.rig(part="0.2")
        r.gate.tell("o-1-stop", 1, size="0.5", price="100", side="sell")
        r.turn()
        r.price("101")
        r.turn()
        r.gate.tell("o-1-stop", 2, "replace", size="0.6", price="120", side="sell")
        r.turn()
        self.assertEqual([(o["size"], o["price"]) for o in r.open()], [("0.4", "120")])
        self.assertEqual(r.gate.told()[1:], [("o-1-stop", "trade", "0.2", "0.2"), ("o-1-stop", "replaced", 2, "0.2")])
        r.price("121")
        r.price("122")
        r.turn()
        self.assertEqual(r.gate.told()[3:], [("o-1-stop", "trade", "0.2", "0.4"), ("o-1-stop", "trade", "0.2", "0.6")])

    def test_what_fills_during_the_cancel_is_not_sold_twice(self):
        r = self.rig(part="0.2")
        r.gate.tell("o-1-stop", 1, size="0.5", price="101", side="sell")
        r.turn()
        r.gate.tell("o-1-stop", 2, "place", size="0.4", price="120", side="sell")
        real = r.exchange.do_cancel
        r.exchange.do_cancel = lambda told: (r.exchange.fill(r.exchange.find(told), Decimal(101)), real(told))[1]
        r.turn()
        self.assertEqual([o["size"] for o in r.open()], ["0.2"])
        self.assertEqual(r.gate.told()[1:], [("o-1-stop", "trade", "0.2", "0.2"), ("o-1-stop", "new", 2, "0.2")])

    def test_a_replace_that_grows_what_has_filled_is_rejected(self):
        r = self.rig()
        r.gate.tell("o-1-stop", 1, size="0.5", price="100", side="sell")
        r.turn(1)
        r.price("100")
        r.gate.tell("o-1-stop", 2, "replace", size="0.7", price="100", side="sell")
        r.turn()
        self.assertEqual(r.gate.told(), [
            ("o-1-stop", "new", 1, "0"), ("o-1-stop", "trade", "0.5", "0.5"), ("o-1-stop", "rejected", 2, "0.5"),
        ])

    def test_a_place_above_1_goes_on_where_the_order_had_filled(self):
        r = self.rig()
        r.gate.tell("o-1-target", 1, size="0.5", price="100", side="sell", tif="ioc")
        r.turn(1)
        r.price("100")
        r.turn()
        r.gate.tell("o-1-target", 2, "place", size="0.7", price="100", side="sell", tif="ioc")
        r.turn()
        self.assertEqual(r.venue.placed()[1]["size"], "0.2")
        self.assertEqual(r.gate.told()[2:], [("o-1-target", "new", 2, "0.5")])

    def test_a_version_below_what_has_filled_leaves_nothing(self):
        r = self.rig(part="0.3")
        r.gate.tell("o-1-stop", 1, size="0.5", price="100", side="sell")
        r.turn()
        r.price("100")
        r.gate.tell("o-1-stop", 2, "place", size="0.2", price="100", side="sell")
        r.turn()
        self.assertEqual(r.open(), [])
        self.assertEqual(r.gate.told(), [
            ("o-1-stop", "new", 1, "0"), ("o-1-stop", "trade", "0.3", "0.3"), ("o-1-stop", "new", 2, "0.3"),
        ])

    def test_a_refused_replace_leaves_the_order_out_of_the_market(self):
        r = self.rig()
        self.stop(r, 1, "0.5")
        r.turn()
        self.stop(r, 2, "0.5", trigger="120", verb="replace")  # would trigger at once
        r.turn()
        self.assertEqual(r.open(), [])
        self.assertEqual(r.gate.told()[1:], [("o-1-stop", "rejected", 2, "0")])
        self.assertTrue(r.gate.reports[1]["text"].startswith("venue: rejected: "))

    def test_locked_balance_a_replace_takes_out_first(self):
        r = self.rig(balances={"USD": Decimal(0), "BTC": Decimal("0.5")})
        self.stop(r, 1, "0.5")
        r.turn()
        self.stop(r, 2, "0.3", verb="place")
        r.turn()
        r.gate.tell("o-2", 1, side="sell", size="0.2", price="200", reduces=True)
        r.turn()
        self.assertEqual([x[1] for x in r.gate.told()], ["new", "new", "new"])
        r.gate.tell("o-3", 1, side="sell", size="0.1", price="200", reduces=True)
        r.turn()
        self.assertTrue(r.gate.reports[-1]["text"].startswith("venue: insufficient: "))


class Ends(Case):
    def test_every_cancel_is_answered(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.turn()
        r.gate.tell("o-1", 2, "cancel", valid_s=None)
        r.gate.tell("o-7", 4, "cancel", valid_s=None)  # never there
        r.turn()
        self.assertEqual(sorted(r.gate.told()[1:]), [("o-1", "canceled", 2, "0"), ("o-7", "canceled", 4, "0")])

    def test_trades_come_before_the_end(self):
        r = self.rig(part="0.3")
        r.gate.tell("o-1", 1, price="100")
        r.turn(1)
        r.price("100")
        r.venue.faults["trades"] = [lambda ok: []] * 3
        r.gate.tell("o-1", 2, "cancel", valid_s=None)
        r.turn(2)
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])
        r.turn()
        self.assertEqual(r.gate.told()[1:], [("o-1", "trade", "0.3", "0.3"), ("o-1", "canceled", 2, "0.3")])

    def test_a_cancel_of_what_has_filled(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="100")
        r.turn(1)
        r.price("100")
        r.gate.tell("o-1", 2, "cancel", valid_s=None)
        r.turn()
        self.assertEqual(r.gate.told()[1:], [("o-1", "trade", "0.5", "0.5"), ("o-1", "canceled", 2, "0.5")])

    def test_the_rest_of_an_ioc_order_expires(self):
        r = self.rig(part="0.2")
        r.gate.tell("o-1", 1, price="100", tif="ioc")
        r.turn(1)
        r.price("100")
        r.turn()
        self.assertEqual(r.gate.told()[1:], [("o-1", "trade", "0.2", "0.2"), ("o-1", "expired", 1, "0.2")])

    def test_an_order_that_the_venue_ends_on_its_own(self):
        r = self.rig()
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="90", side="sell")
        r.turn()
        r.exchange.db.execute("UPDATE orders SET status = 'canceled'")
        r.turn()
        self.assertEqual(r.gate.told()[1:], [("o-1-stop", "canceled", 1, "0")])

    def test_an_order_that_the_gate_does_not_know_is_taken_out(self):
        r = self.rig()
        r.gate.codes["n-o-1-stop.1"] = "REPORT_UNKNOWN"
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="90", side="sell")
        r.turn()
        self.assertEqual(r.open(), [])

    def test_a_cancel_that_the_venue_refuses_is_tried_again_and_entries_wait(self):
        r = self.rig()
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="90", side="sell")
        r.turn()
        r.gate.tell("o-1-stop", 2, "cancel", valid_s=None)
        r.gate.tell("o-1", 1, price="90")
        r.venue.faults["cancel"] = [Refused("rejected", "later")] * 2
        r.turn(2)
        self.assertEqual(len(r.venue.placed()), 1)
        r.turn()
        self.assertEqual([x[:3] for x in r.gate.told()[1:]], [("o-1-stop", "canceled", 2), ("o-1", "new", 1)])


class Lost(Case):
    def test_a_place_that_worked_is_not_sent_again(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.venue.faults["place"] = ["lost after"]
        r.turn()
        self.assertEqual([op for op, _ in r.venue.asked if op in ("place", "order")][:2], ["place", "order"])
        self.assertEqual((len(r.venue.placed()), len(r.open())), (1, 1))
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])

    def test_a_place_that_did_not_work_is_sent_again_under_the_same_id(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.venue.faults["place"] = ["lost before"]
        r.turn()
        asked = [(op, m["client_order_id"]) for op, m in r.venue.asked if op in ("place", "order")]
        self.assertEqual([op for op, _ in asked][:3], ["place", "order", "place"])
        self.assertEqual(len({name for _, name in asked}), 1)
        self.assertEqual(len(r.open()), 1)

    def test_nothing_is_sent_again_before_the_request_can_no_longer_arrive(self):
        r = self.rig()
        r.venue.settle_s = 0.5
        r.gate.tell("o-1", 1, price="90")
        r.venue.faults["place"] = ["lost before"]
        r.turn()
        self.assertEqual(len(r.venue.placed()), 1)
        time.sleep(0.5)
        r.turn()
        self.assertEqual(len(r.venue.placed()), 2)

    def test_a_late_lost_place_reports_what_the_venue_says(self):
        for fault, due in (("lost after", ("new", 0)), ("lost before", ("rejected", 0))):
            r = self.rig()
            r.gate.tell("o-1", 1, price="90", valid_s=0.3)
            r.venue.faults["place"] = [fault]
            r.turn(1)
            time.sleep(0.3)
            r.turn()
            self.assertEqual([x[1] for x in r.gate.told()], [due[0]], fault)

    def test_a_duplicate_is_an_order_that_is_there(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.venue.faults["place"] = ["lost after"]
        r.venue.faults["order"] = [Refused("not_found", "not yet")]
        r.turn()
        self.assertEqual((len(r.open()), r.gate.told()), (1, [("o-1", "new", 1, "0")]))

    def test_a_trade_before_the_answer_to_its_order(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="100")

        def fill_and_lose(ok):
            r.price("100")
            raise Unavailable("lost")

        r.venue.faults["place"] = [fill_and_lose]
        r.venue.faults["order"] = [Refused("not_found", "not yet")]
        r.venue.settle_s = 60
        r.turn()
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0"), ("o-1", "trade", "0.5", "0.5")])

    def test_after_an_outage_a_stop_waits_no_longer(self):
        r = self.rig()
        r.turn()
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="90", side="sell")
        r.venue.always = {op: Unavailable("down") for op in ("place", "timer", "time", "trades", "open_orders", "balances")}
        for _ in range(6):
            r.bridge.not_before = r.bridge.look_at = 0.0
            r.bridge.step()
        self.assertFalse(r.bridge.alive.is_venue_up)
        r.venue.always = {}
        for _ in range(2):
            r.bridge.not_before = r.bridge.look_at = 0.0
            r.bridge.step()
        self.assertEqual(len(r.open()), 1)

    def test_one_order_that_cannot_be_asked_for_holds_up_no_other(self):
        r = self.rig()
        r.gate.tell("o-5", 1, side="sell", price="200", reduces=True)
        r.venue.faults["place"] = ["lost before"]
        r.venue.always["order"] = Unavailable("cannot be read")

        def turn_after_the_wait():
            bridge = r.bridge
            wait = max(0, bridge.not_before - time.monotonic())
            bridge.not_before = 0.0
            bridge.retry_at = {name: at - wait for name, at in bridge.retry_at.items()}
            bridge.step()

        for _ in range(8):
            turn_after_the_wait()
        r.gate.tell("o-6", 1, side="sell", price="201", reduces=True)
        turn_after_the_wait()
        turn_after_the_wait()
        self.assertEqual([o["price"] for o in r.open()], ["201"])

    def test_a_lost_cancel_is_asked_for(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.turn()
        r.gate.tell("o-1", 2, "cancel", valid_s=None)
        r.venue.faults["cancel"] = ["lost after"]
        r.turn()
        self.assertEqual(r.gate.told()[1:], [("o-1", "canceled", 2, "0")])

    def test_repeated_and_late_trades_are_booked_once(self):
        r = self.rig(part="0.1")
        r.gate.tell("o-1", 1, price="100", size="0.3")
        r.turn()
        for _ in range(3):
            r.price("100")
        r.venue.faults["trades"] = [lambda ok: [ok[2]], lambda ok: [ok[2], ok[2]], lambda ok: [ok[1], ok[2]]]
        r.turn()
        self.assertEqual([x[1:] for x in r.gate.told()[1:]], [("trade", "0.1", "0.1"), ("trade", "0.1", "0.2"), ("trade", "0.1", "0.3")])
        self.assertEqual([x["exec_id"] for x in r.gate.reports[1:]], ["t-T3", "t-T2", "t-T1"])

    def test_a_request_that_arrives_too_late_is_taken_out_again(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90", valid_s=0.3)
        r.venue.faults["place"] = ["lost before"]
        r.turn(1)
        time.sleep(0.3)
        r.turn()
        self.assertEqual(r.gate.told(), [("o-1", "rejected", 1, "0")])
        late = {**r.venue.placed()[0]}
        r.exchange.do_place(late)
        r.bridge.reports.snapshot_at = 0
        r.turn()
        self.assertEqual(r.open(), [])
        self.assertEqual((r.gate.snapshots[-1]["orders"], r.gate.snapshots[-1]["foreign"]), ([], []))

    def test_a_list_that_is_older_than_the_end_of_an_order(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.turn()
        old = r.open()
        r.gate.tell("o-1", 2, "cancel", valid_s=None)
        r.turn()
        r.bridge.reports.snapshot_at = 0
        r.venue.faults["open_orders"] = [lambda ok: old] * 2
        r.turn()
        self.assertEqual((r.gate.snapshots[-1]["orders"], r.gate.snapshots[-1]["foreign"]), ([], []))
        self.assertEqual(len(r.gate.reports), 2)

    def test_an_order_that_the_venue_does_not_know_for_a_moment_is_not_given_up(self):
        r = self.rig()
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="90", side="sell")
        r.turn()
        r.venue.always = {"open_orders": lambda ok: [], "order": Refused("not_found", "none")}
        r.turn()
        self.assertEqual(len(r.gate.reports), 1)
        r.bridge.missing_since = {name: since - 30 for name, since in r.bridge.missing_since.items()}
        r.turn()
        self.assertEqual(r.gate.told()[1:], [("o-1-stop", "canceled", 1, "0")])
        self.assertEqual(r.open(), [])

    def test_an_older_answer_takes_nothing_back(self):
        r = self.rig(part="0.1")
        r.gate.tell("o-1", 1, price="100", size="0.3")
        r.turn()
        old = r.open()
        r.price("100")
        r.turn()
        r.venue.faults["open_orders"] = [lambda ok: old] * 3
        r.turn()
        self.assertEqual(r.gate.refused, [])
        self.assertEqual(r.gate.told()[-1], ("o-1", "trade", "0.1", "0.1"))

    def test_trades_are_asked_for_with_an_overlap_and_not_past_one_that_is_missing(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.turn(1)
        sent_at = r.bridge.journal.attempts("1")[0]["sent_at"]
        r.bridge.journal.run("UPDATE attempts SET filled = '0.1'")
        r.bridge.journal.set_meta("trades_from", rig.after(500))
        r.turn(1)
        since = [m["since"] for op, m in r.venue.asked if op == "trades"][-1]
        self.assertEqual((moment(sent_at) - moment(since)).total_seconds(), 60)


class Gates(Case):
    def test_a_silent_gate_gets_no_entries_and_keeps_its_stops(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="80", side="sell")
        r.turn()
        r.gate.speak(seconds=-1)
        r.gate.tell("o-2", 1, price="90", reduces=False)
        r.gate.tell("o-3", 1, side="sell", price="200", reduces=True)
        r.turn()
        self.assertEqual(sorted(o["type"] + o["side"] for o in r.open()), ["limitsell", "stopsell"])
        told = {x["order_id"]: (x["exec_type"], x.get("text")) for x in r.gate.reports}
        self.assertEqual(told["o-1"], ("canceled", None))
        self.assertEqual(told["o-2"], ("rejected", "expired"))
        self.assertEqual(told["o-3"], ("new", None))

    def test_a_gate_of_a_lower_epoch_is_silent(self):
        r = self.rig()
        r.gate.speak(epoch=3)
        r.turn(1)
        r.gate.speak(epoch=2)
        r.gate.tell("o-1", 1, price="90", epoch=3)
        r.turn()
        self.assertEqual(r.gate.reports[0]["text"], "expired")

    def test_a_missing_gate_file_is_silence(self):
        r = self.rig()
        os.unlink(os.path.join(r.gate.outbox, ".gate"))
        r.gate.tell("o-1", 1, price="90")
        r.turn()
        self.assertEqual((r.gate.reports[0]["text"], r.open()), ("expired", []))

    def test_pings_are_answered_in_alive(self):
        r = self.rig()
        r.gate.write("ping.41.json", {"ping": "41", "epoch": 1})
        r.turn(1)
        self.assertEqual(r.gate.alive()["nonce"], "41")
        self.assertFalse(os.path.exists(os.path.join(r.gate.outbox, "ping.41.json")))
        self.assertEqual(os.listdir(os.path.join(r.gate.outbox, "taken")), [])

    def test_reports_go_one_by_one_with_the_same_bytes(self):
        r = self.rig()
        r.gate.is_answering = False
        r.gate.tell("o-1", 1, price="90")
        r.gate.tell("o-2", 1, price="91", reduces=False)
        r.turn()
        inbox = os.path.join(r.gate.home, "spool", "in")
        names = os.listdir(inbox)
        self.assertEqual(len(names), 1)
        with open(os.path.join(inbox, names[0]), "rb") as file:
            first = file.read()
        r.start()
        r.turn()
        with open(os.path.join(inbox, names[0]), "rb") as file:
            self.assertEqual(file.read(), first)
        r.gate.is_answering = True
        r.turn()
        self.assertEqual(len(r.gate.reports), 2)

    def test_a_refused_report_does_not_hold_up_the_next(self):
        r = self.rig()
        r.gate.codes["n-o-1.1"] = "REPORT_IMPOSSIBLE"
        r.gate.tell("o-1", 1, price="90")
        r.gate.tell("o-2", 1, price="91", reduces=False)
        r.turn()
        self.assertEqual(r.gate.told(), [("o-2", "new", 1, "0")])


class Snapshots(Case):
    def test_a_snapshot_says_what_is_there(self):
        r = self.rig(part="0.2")
        r.turn()
        self.assertEqual(r.gate.snapshots[0]["after_exec"], None)
        r.gate.tell("o-1", 1, price="100")
        r.turn(2)
        r.price("100")
        r.turn()
        r.exchange.do_place({"symbol": "BTC-USD", "client_order_id": None, "side": "buy", "type": "limit", "size": "1",
                             "price": "50", "trigger": None, "time_in_force": "gtc"})
        r.bridge.reports.snapshot_at = 0
        r.turn()
        newest = r.gate.snapshots[-1]
        self.assertEqual(newest["orders"], [{
            "order_id": "o-1", "version": 1, "cum_qty": "0.2", "size": "0.5", "price": "100", "trigger": None,
        }])
        self.assertEqual([(f["side"], f["size"]) for f in newest["foreign"]], [("buy", "1")])
        self.assertEqual(newest["after_exec"], "t-T1")
        self.assertEqual(newest["positions"], [])
        self.assertEqual({b["currency"] for b in newest["balances"]}, {"USD", "BTC"})
        self.assertEqual(sorted(newest), sorted(
            ["run", "taken_at", "after_exec", "balances", "positions", "orders", "foreign"]))

    def test_the_whole_size_counts_all_versions(self):
        r = self.rig(part="0.2")
        r.gate.tell("o-1-stop", 1, size="0.5", price="100", side="sell")
        r.turn()
        r.price("100")
        r.turn()
        r.gate.tell("o-1-stop", 2, "replace", size="0.6", price="120", side="sell")
        r.turn()
        r.bridge.reports.snapshot_at = 0
        r.turn()
        order = r.gate.snapshots[-1]["orders"][0]
        self.assertEqual((order["version"], order["cum_qty"], order["size"]), (2, "0.2", "0.6"))

    def test_none_while_something_is_untold(self):
        r = self.rig()
        r.gate.is_answering = False
        r.gate.tell("o-1", 1, price="90")
        r.turn()
        self.assertIsNone(r.bridge.reports.snapshot)
        r.gate.is_answering = True
        r.turn()
        self.assertEqual(r.gate.snapshots[-1]["after_exec"], "n-o-1.1")

    def test_a_trade_while_it_is_taken_is_told_first(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="100")
        r.turn()
        count = len(r.gate.snapshots)
        r.bridge.reports.snapshot_at = 0
        r.venue.faults["balances"] = [lambda ok: r.price("100") or ok]
        r.turn(1)
        self.assertIsNone(r.bridge.reports.snapshot)
        r.turn()
        self.assertEqual(r.gate.snapshots[count]["after_exec"], "t-T1")
        self.assertEqual(r.gate.snapshots[count]["orders"], [])

    def test_one_after_a_reconnect(self):
        r = self.rig()
        r.turn()
        count = len(r.gate.snapshots)
        r.venue.faults["trades"] = [Unavailable("down")] * 3
        r.turn()
        self.assertEqual(len(r.gate.snapshots), count + 1)
        self.assertEqual(r.gate.alive()["venue"], "ok")


class Timers(Case):
    def test_the_timer_runs_only_while_nothing_protects(self):
        r = self.rig()
        r.turn()
        self.assertEqual([m["seconds"] for op, m in r.venue.asked if op == "timer"], [30])
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="80", side="sell")
        r.turn()
        asked = [(op, m.get("seconds")) for op, m in r.venue.asked if op in ("timer", "place")]
        self.assertEqual(asked, [("timer", 30), ("timer", 0), ("place", None)])
        r.gate.tell("o-1-stop", 2, "cancel", valid_s=None)
        r.turn()
        self.assertEqual([m["seconds"] for op, m in r.venue.asked if op == "timer"], [30, 0, 30])

    def test_a_stop_is_not_placed_before_the_timer_is_off(self):
        r = self.rig()
        r.turn()
        r.venue.faults["timer"] = [Unavailable("down")]
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="80", side="sell")
        r.turn(1)
        self.assertEqual(r.venue.placed(), [])
        r.turn()
        self.assertEqual(len(r.open()), 1)

    def test_a_timer_of_an_earlier_run_is_disarmed(self):
        r = self.rig()
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="80", side="sell")
        r.turn()
        r.venue.asked.clear()
        r.start()
        r.turn()
        self.assertEqual([m["seconds"] for op, m in r.venue.asked if op == "timer"], [0])


class Fees(Case):
    def test_a_fee_in_the_account_currency_names_none(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="100")
        r.turn(1)
        r.price("100")
        r.turn()
        self.assertEqual(r.gate.reports[1]["fee"], "0.05")
        self.assertNotIn("fee_currency", r.gate.reports[1])

    def test_a_fee_in_coins_names_them(self):
        r = self.rig(is_base_fee=True)
        r.gate.tell("o-1", 1, price="100")
        r.turn(1)
        r.price("100")
        r.turn()
        report = r.gate.reports[1]
        self.assertEqual((report["fee"], report["fee_currency"], "fee_value" in report), ("0.0005", "BTC", False))
        self.assertEqual(report["last_qty"], "0.5")

    def test_a_fee_in_a_third_currency_is_valued_or_left_without_a_value(self):
        for value, due in ((Decimal("0.123456789012"), "0.1234567891"), (None, None)):
            r = self.rig()
            r.venue.value = lambda currency, quote, amount: value
            r.venue.always["trades"] = lambda ok: [{**t, "fee_currency": "BNB"} for t in ok]
            r.gate.tell("o-1", 1, price="100")
            r.turn(1)
            r.price("100")
            r.turn()
            self.assertEqual((r.gate.reports[1]["fee_currency"], r.gate.reports[1].get("fee_value")), ("BNB", due))


class Amounts(unittest.TestCase):
    def test_plain(self):
        for text, due in (("1E+3", "1000"), ("0.10", "0.1"), ("0E-8", "0"), ("-0", "0"), ("0.0000000001", "0.0000000001")):
            self.assertEqual(plain(Decimal(text)), due)
        with self.assertRaises(ValueError):
            plain(Decimal("0.00000000001"))

    def test_fees_are_rounded_up(self):
        self.assertEqual(plain(rounded_up(Decimal("0.00000000011"))), "0.0000000002")
        self.assertEqual(rounded_up(Decimal("0.1")), Decimal("0.1"))

    def test_times(self):
        self.assertEqual(moment("2026-01-02T03:04:05.123456789Z").microsecond, 123456)
        for wrong in ("2026-01-02 03:04:05", "2026-01-02T03:04:05+01:00", ""):
            with self.assertRaises(ValueError):
                moment(wrong)


class NoFloats(unittest.TestCase):
    def test_no_binary_float_in_the_package(self):
        folder = os.path.join(os.path.dirname(__file__), os.pardir, "spoolgate_bridge")
        names = [name for name in os.listdir(folder) if name.endswith(".py")]
        self.assertGreater(len(names), 5)
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                self.assertNotIn("float(", file.read(), name)
        with open(os.path.join(folder, "ccxt_venue.py"), encoding="utf-8") as file:
            self.assertIn(".number = str", file.read())


if __name__ == "__main__":
    unittest.main()

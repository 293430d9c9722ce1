"""What the gate refuses to book, and what is damaged or full on this machine."""
import errno
import json
import os
import sqlite3
import time
from decimal import Decimal
from unittest import mock

import rig
from test_core import Case
from spoolgate_bridge import reports
from spoolgate_bridge.__main__ import is_lasting, key_refused
from spoolgate_bridge.core import Bridge
from spoolgate_bridge.gate import KEY_REFUSALS, KeyRefused
from spoolgate_bridge.venue import CannotStart, plain, rounded_down, rounded_up

NOT_BOOKED = ("TIMESTAMP_STALE", "REQUEST_ID_CONFLICT", "INTERNAL", "RULEBOOK_INVALID", "SIGNATURE_INVALID")


def turn(r, times=8):
    """Turns without the waits after refusals."""
    for _ in range(times):
        r.bridge.reports.waits.clear()
        r.turn(1)


class NotBooked(Case):
    def test_a_report_that_is_not_booked_is_signed_anew_until_it_is(self):
        for code in NOT_BOOKED:
            r = self.rig()
            turn(r)
            before = set(r.gate.bytes)
            r.gate.tell("o-1", 1, price="90")
            r.gate.refusals = [code] * (KEY_REFUSALS - 1)
            turn(r)
            self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")], code)
            sent = [json.loads(r.gate.bytes[name]) for name in r.gate.bytes if name not in before]
            sent = [told for told in sent if told["action"] == "venue.report"]
            self.assertEqual(len({told["id"] for told in sent}), KEY_REFUSALS, code)
            self.assertEqual({told["payload"]["exec_id"] for told in sent}, {"n-o-1.1"}, code)
            self.assertIn(code, self.said.getvalue())

    def test_one_that_is_signed_anew_outlives_a_restart(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.gate.refusals = ["INTERNAL"]
        r.turn(2)
        self.assertEqual(r.gate.told(), [])
        r.start()
        turn(r)
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])

    def test_it_holds_up_reports_of_its_own_order_only(self):
        r = self.rig()
        r.gate.codes["n-o-1.1"] = "MALFORMED_PAYLOAD"
        r.gate.tell("o-1", 1, price="100")
        r.turn(2)
        r.price("100")
        r.gate.tell("o-2", 1, price="90", reduces=False)
        r.turn()
        self.assertEqual(r.gate.told(), [("o-2", "new", 1, "0")])
        r.gate.codes.clear()
        turn(r)
        self.assertEqual(r.gate.told()[1:], [("o-1", "new", 1, "0"), ("o-1", "trade", "0.5", "0.5")])
        self.assertEqual(r.gate.snapshots[-1]["after_exec"], r.gate.reports[-1]["exec_id"])

    def test_a_report_on_its_way_at_a_crash_is_answered_before_another_is_sent(self):
        r = self.rig()
        r.gate.codes["n-o-1.1"] = "MALFORMED_PAYLOAD"
        r.gate.tell("o-1", 1, price="90")
        r.turn(3)
        r.gate.is_answering = False
        r.gate.tell("o-2", 1, price="90", reduces=False)
        r.turn()
        inbox = os.path.join(r.gate.home, "spool", "in")
        waiting = os.listdir(inbox)
        r.start()
        r.turn()
        self.assertEqual((len(waiting), os.listdir(inbox)), (1, waiting))

    def test_a_fee_in_a_third_currency_is_valued_when_there_is_a_price(self):
        r = self.rig()
        r.venue.always["trades"] = lambda ok: [{**t, "fee_currency": "BNB"} for t in ok]
        real = r.gate.book
        r.gate.book = lambda report: (
            "MALFORMED_PAYLOAD" if "fee_currency" in report and "fee_value" not in report else real(report)
        )
        r.gate.tell("o-1", 1, price="100")
        r.turn(1)
        r.price("100")
        turn(r)
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])
        r.venue.value = lambda currency, quote, amount: Decimal("0.5")
        turn(r)
        self.assertEqual((r.gate.told()[1:], r.gate.reports[1]["fee_value"]), ([("o-1", "trade", "0.5", "0.5")], "0.5"))

    def test_differences_that_the_gate_has_recorded_are_not_sent_again(self):
        for code in ("REPORT_OUT_OF_ORDER", "REPORT_IMPOSSIBLE", "REPORT_UNKNOWN"):
            r = self.rig()
            r.gate.codes["n-o-1.1"] = code
            r.gate.tell("o-1", 1, price="90")
            turn(r)
            self.assertFalse(r.bridge.journal.all("SELECT 1 FROM reports WHERE answer IS NULL"))


class Keys(Case):
    def test_a_key_that_is_refused_ends_the_bridge(self):
        for code in ("SIGNATURE_INVALID", "NOT_PERMITTED", "WRONG_SPOOL"):
            r = self.rig()
            r.gate.key_code = code
            r.gate.tell("o-1", 1, price="90")
            with self.assertRaisesRegex(KeyRefused, code):
                turn(r)
            # A person has repaired it: nothing is lost.
            r.gate.key_code = None
            r.start()
            turn(r)
            self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")], code)

    def test_a_file_that_somebody_drops_under_the_id_of_a_report_ends_nothing(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.gate.refusals = ["SIGNATURE_INVALID"] * (KEY_REFUSALS - 1)
        turn(r)
        self.assertEqual(r.bridge.reports.spool.key_refusals, 0)

    def test_what_an_earlier_run_was_refused_is_no_answer(self):
        r = self.rig()
        r.gate.is_answering = False
        r.gate.tell("o-1", 1, price="90")
        r.turn(2)
        name = os.listdir(os.path.join(r.gate.home, "spool", "in"))[0] + ".error.json"
        path = os.path.join(r.gate.home, "spool", "out", name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"status": "error", "error": {"code": "SIGNATURE_INVALID", "message": "no"}}, file)
        r.start()
        r.turn(1)
        self.assertEqual((os.path.exists(path), r.bridge.reports.spool.key_refusals), (False, 0))

    def test_another_key_signs_what_the_one_before_has_left(self):
        r = self.rig()
        r.gate.is_answering = False
        r.gate.tell("o-1", 1, price="90")
        r.turn(2)
        other = {**rig.KEY, "secret": "22" * 32}
        with mock.patch.object(rig, "KEY", other):
            r.start()
            r.turn(1)
            r.gate.is_answering = True
            turn(r)
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])

    def test_entries_are_out_of_the_market_when_it_ends(self):
        r = self.rig()
        r.gate.tell("o-1", 1, price="90")
        r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="80", side="sell")
        r.turn()
        r.bridge.reports.spool.key_refusals = KEY_REFUSALS
        r.bridge.farewell(is_heard=False)
        self.assertEqual([order["type"] for order in r.open()], ["stop"])

    def test_the_sentence_names_the_key_and_the_next_step(self):
        said = key_refused("x.key", rig.KEY, KeyRefused("SIGNATURE_INVALID: no"))
        for part in ("`x.key`", "key k1 of `exchange`", "SIGNATURE_INVALID", "spoolgate keys add exchange"):
            self.assertIn(part, said)


class StaleSnapshots(Case):
    def test_they_are_taken_more_and_more_rarely_and_told(self):
        r = self.rig()
        r.gate.take_snapshot = lambda snapshot: "SNAPSHOT_STALE"
        waits = []
        for _ in range(10):
            r.bridge.reports.snapshot_at = 0.0
            r.turn(2)
            waits.append(r.bridge.reports.snapshot_at - time.monotonic())
        self.assertTrue(all(0 < wait <= reports.SNAPSHOT_S for wait in waits), waits)
        self.assertGreater(waits[-1], reports.SNAPSHOT_S - 10)
        self.assertIn("takes no entries without one: SNAPSHOT_STALE", self.said.getvalue())


class Machine(Case):
    def test_an_answer_that_is_half_written_is_read_again(self):
        r = self.rig()
        r.gate.is_answering = False
        r.gate.tell("o-1", 1, price="90")
        r.turn(2)
        name = os.listdir(os.path.join(r.gate.home, "spool", "in"))[0]
        for half in ("", '{"status":', "[]"):
            with open(os.path.join(r.gate.home, "spool", "out", name), "w", encoding="utf-8") as file:
                file.write(half)
            r.turn(1)
        r.gate.is_answering = True
        r.turn()
        self.assertEqual(r.gate.told(), [("o-1", "new", 1, "0")])

    def test_a_damaged_journal_is_named(self):
        for damage in (b"x" * 4096, b"SQLite format 3\0" + b"\xff" * 5000):
            r = self.rig()
            r.gate.tell("o-1", 1, price="90")
            r.turn()
            r.bridge.journal.close()
            folder = os.path.join(r.folder, "state")
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))
            with open(os.path.join(folder, "journal.db"), "wb") as file:
                file.write(damage)
            with self.assertRaisesRegex(CannotStart, "journal.db` is damaged"):
                Bridge(r.gate.home, rig.KEY, folder, r.venue)

    def test_a_page_of_the_journal_that_is_damaged_is_found_at_the_start(self):
        r = self.rig()
        for n in range(1, 60):
            r.gate.tell(f"o-{n}", 1, price="90", reduces=False)
        r.turn()
        r.bridge.journal.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        r.bridge.journal.close()
        path = os.path.join(r.folder, "state", "journal.db")
        with open(path, "r+b") as file:
            file.seek(4096 * 4)
            file.write(b"\xff" * 4096 * (os.path.getsize(path) // 4096 - 4))
        with self.assertRaisesRegex(CannotStart, "is damaged"):
            Bridge(r.gate.home, rig.KEY, os.path.join(r.folder, "state"), r.venue)

    def test_a_disk_that_is_full_at_the_start_ends_by_itself(self):
        self.assertFalse(is_lasting(OSError(errno.ENOSPC, "full")))
        self.assertFalse(is_lasting(sqlite3.OperationalError("database or disk is full")))
        for error in (OSError(errno.EACCES, "no"), FileNotFoundError(errno.ENOENT, "no"), CannotStart("no"), ValueError("no")):
            self.assertTrue(is_lasting(error), error)

    def test_a_full_disk_leaves_no_half_requests(self):
        r = self.rig()
        r.gate.is_answering = False
        r.gate.tell("o-1", 1, price="90")
        with mock.patch.object(os, "fsync", side_effect=OSError(errno.ENOSPC, "full")):
            with self.assertRaises(OSError):
                r.bridge.reports.spool.drop("exchange-1", b"{}\n")
        self.assertEqual(os.listdir(os.path.join(r.gate.home, "spool", "in")), [])


class Amounts(Case):
    def test_a_rebate_is_never_more_than_it_was(self):
        self.assertEqual(plain(rounded_up(Decimal("-0.00000000019"))), "-0.0000000001")

    def test_balances_of_other_coins_have_as_many_decimals_as_they_like(self):
        self.assertEqual(plain(rounded_down(Decimal("1.000000000000000019"))), "1")
        r = self.rig(balances={"USD": Decimal(10)})
        r.venue.always["balances"] = lambda ok: ok + [{"currency": "X", "total": "123456789012345678.123456789012345678", "available": "0"}]
        r.turn()
        self.assertIn("123456789012345678.123456789", str(r.gate.snapshots))

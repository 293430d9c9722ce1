"""Quotes of a venue as requests to a gate."""
import contextlib
import io
import json
import unittest
from decimal import Decimal

import rig
from spoolgate_bridge import feed
from spoolgate_bridge.venue import Unavailable, moment, now


class Spool:
    """Answers every request at once."""

    def __init__(self):
        self.requests, self.answer = [], {"status": "success"}

    def exchange(self, request_id, content):
        rig.Gate.check_signature(json.loads(content), content)
        self.requests.append(json.loads(content))
        return self.answer

    def withdraw(self, request_id):
        self.requests.append(("withdrawn", request_id))


class Venue:
    def __init__(self, *quotes):
        self.quotes = list(quotes)

    def quote(self, symbol):
        quote = self.quotes.pop(0)
        if isinstance(quote, Exception):
            raise quote
        return Decimal(quote[0]), Decimal(quote[1]), quote[2]


class Feeds(unittest.TestCase):
    def feed(self, *quotes):
        self.spool = Spool()
        return feed.Feed(rig.KEY, self.spool, Venue(*quotes), ["BTC-USD"])

    def test_a_quote_is_a_signed_request(self):
        made = self.feed(("6790.50", "6791", "2026-01-02T03:04:05.678Z"))
        self.assertEqual(made.turn(), 1)
        (request,) = self.spool.requests
        self.assertEqual(request["action"], "market.update")
        self.assertEqual(request["payload"], {
            "symbol": "BTC-USD", "quotes": [{"time": "2026-01-02T03:04:05.678Z", "bid": "6790.5", "ask": "6791"}],
        })

    def test_a_quote_that_has_not_changed_is_not_given_again(self):
        same = ("1", "2", "2026-01-02T03:04:05Z")
        made = self.feed(same, same, ("1", "2", "2026-01-02T03:04:06Z"))
        self.assertEqual([made.turn(), made.turn(), made.turn()], [1, 0, 1])
        self.assertEqual(len({request["id"] for request in self.spool.requests}), 2)

    def test_a_clock_that_is_ahead_counts_as_now(self):
        made = self.feed(("1", "2", rig.after(100)))
        made.turn()
        self.assertLessEqual(moment(self.spool.requests[0]["payload"]["quotes"][0]["time"]), moment(now()))

    def test_a_refusal_is_said_and_the_next_quote_goes(self):
        made = self.feed(("1", "2", "2026-01-02T03:04:05Z"), ("1", "2", "2026-01-02T03:04:06Z"))
        self.spool.answer = {"status": "error", "error": {"code": "QUOTE_CROSSED", "message": "why"}}
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual([made.turn(), made.turn()], [1, 1])
        self.assertIn("QUOTE_CROSSED: why", said.getvalue())

    def test_a_gate_that_is_silent_gets_no_old_quotes_later(self):
        made = self.feed(("1", "2", "2026-01-02T03:04:05Z"))
        self.spool.answer, wait, feed.ANSWER_WAIT_S = None, feed.ANSWER_WAIT_S, 0.05
        self.addCleanup(setattr, feed, "ANSWER_WAIT_S", wait)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            made.turn()
        self.assertEqual(self.spool.requests[-1][0], "withdrawn")
        self.assertIn("spoolgate watch", said.getvalue())

    def test_a_venue_that_is_down_is_the_callers_to_wait_for(self):
        with self.assertRaises(Unavailable):
            self.feed(Unavailable("down")).turn()


if __name__ == "__main__":
    unittest.main()

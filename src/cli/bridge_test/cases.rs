//! The cases, in the order in which they are reported.

mod fills;
mod instructions;
mod life;
mod refusals;

use super::rig::{Outcome, Rig};

/// One case.
pub(super) struct Case {
    /// Its name on the command line.
    pub name: &'static str,
    /// What the protocol demands.
    pub due: &'static str,
    /// Plays it against a bridge that has just been started.
    pub run: fn(&mut Rig<'_>) -> Outcome,
}

/// All cases.
pub(super) const CASES: [Case; 28] = [
    Case {
        name: "take-by-rename",
        due: "an instruction that the gate takes back is never carried out",
        run: instructions::take_by_rename,
    },
    Case {
        name: "file-twice",
        due: "a file that comes again, also as `.again.json` and after a restart, changes nothing",
        run: instructions::file_twice,
    },
    Case {
        name: "versions-out-of-order",
        due: "the highest version is carried out, and lower ones that come later are not",
        run: instructions::versions_out_of_order,
    },
    Case {
        name: "place-again",
        due: "a `place` above version 1 works for its size less what has filled",
        run: instructions::place_again,
    },
    Case {
        name: "valid-until-past",
        due: "nothing is sent after `valid_until`, and a lower version goes on working",
        run: instructions::valid_until_past,
    },
    Case {
        name: "epoch-too-low",
        due: "a lower epoch than the highest seen is refused, also after a restart",
        run: instructions::epoch_too_low,
    },
    Case {
        name: "fill-before-ack",
        due: "an order that fills before the answer to its placing is reported in full",
        run: fills::fill_before_ack,
    },
    Case {
        name: "fill-during-cancel",
        due: "fills that cross a cancel are reported before the end",
        run: fills::fill_during_cancel,
    },
    Case {
        name: "partial-fills",
        due: "reports go one after the other, and the same bytes until they are answered",
        run: fills::partial_fills,
    },
    Case {
        name: "not-booked",
        due: "a report that is not booked comes again, under a fresh id and the same `exec_id`",
        run: refusals::not_booked,
    },
    Case {
        name: "key-refused",
        due: "a key that the gate refuses ends the bridge with 2, without entries, and loses nothing",
        run: refusals::key_refused,
    },
    Case {
        name: "polls-out-of-order",
        due: "a trade that is published late is reported, and no end before it",
        run: fills::polls_out_of_order,
    },
    Case {
        name: "repeated-trades",
        due: "each trade id is reported once, in whatever order and however often it is polled",
        run: fills::repeated_trades,
    },
    Case {
        name: "base-fee",
        due: "a fee in the base currency is reported with `fee_currency`, and a rebate below 0",
        run: fills::base_fee,
    },
    Case {
        name: "clock-off",
        due: "an exchange whose clock is 3 s off loses no trade and moves no `valid_until`",
        run: fills::clock_off,
    },
    Case {
        name: "lost-answer-worked",
        due: "an order whose answer was lost is asked for and reported as it is found",
        run: refusals::lost_answer_worked,
    },
    Case {
        name: "lost-answer-not-worked",
        due: "a request that did not arrive is sent again once the exchange does not know the order",
        run: refusals::lost_answer_not_worked,
    },
    Case {
        name: "replace-refused",
        due: "a refused replacement leaves no order in the market and is reported as `rejected`",
        run: refusals::replace_refused,
    },
    Case {
        name: "stop-refused",
        due: "a refused stop is reported as `rejected` with `venue: `, and the exit is carried out",
        run: refusals::stop_refused,
    },
    Case {
        name: "balance-locked",
        due: "`insufficient` is reported as `rejected` with `venue: `; a replacement frees its own lock",
        run: refusals::balance_locked,
    },
    Case {
        name: "rate-limit",
        due: "under a rate limit an exit goes before the entries, and nothing is refused for it",
        run: refusals::rate_limit,
    },
    Case {
        name: "sigkill",
        due: "killed at any of 12 moments, the bridge doubles nothing and loses nothing",
        run: life::sigkill,
    },
    Case {
        name: "gate-silent",
        due: "without a valid `.gate` entries are cancelled and not placed; stops and exits work",
        run: life::gate_silent,
    },
    Case {
        name: "alive-and-ping",
        due: "`.alive` is written anew and answers a ping",
        run: life::alive_and_ping,
    },
    Case {
        name: "venue-down",
        due: "`.alive` says `down` while the exchange is not there, and nothing is lost",
        run: life::venue_down,
    },
    Case {
        name: "snapshot",
        due: "a correct snapshot is sent after a start, a reconnect and `SNAPSHOT_STALE`",
        run: life::snapshot,
    },
    Case {
        name: "foreign-order",
        due: "orders that the bridge did not place are in the snapshot and left alone",
        run: life::foreign_order,
    },
    Case {
        name: "timer-while-flat",
        due: "cancel-on-disconnect is armed for entries, and never while a stop works",
        run: life::timer_while_flat,
    },
];

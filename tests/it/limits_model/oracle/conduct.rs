//! The checks of how often and when a strategy trades.

use super::*;

impl<'a> Judge<'a> {
    pub(super) fn time_window(&self) -> Said {
        let now_ms = self.around.now_ms;
        let of_strategy = self.strategy().map(|strategy| &strategy.restricted);
        let windows = self
            .sums
            .rules
            .safety
            .restricted
            .iter()
            .chain(of_strategy.into_iter().flatten());
        let spans: Vec<(i64, i64)> = windows.map(|window| span(&window.to_string())).collect();
        let is_within = |ms: i64| {
            let at = ms.rem_euclid(86_400_000);
            spans.iter().any(|(from, to)| {
                if from < to {
                    *from <= at && at < *to
                } else {
                    *from <= at || at < *to
                }
            })
        };
        let passed = !is_within(now_ms);
        Said {
            is_near: passed && (is_within(now_ms - 1) || is_within(now_ms + 1)),
            ..plain(passed)
        }
    }

    pub(super) fn order_rate(&self) -> Said {
        let (memory, safety) = (self.sums.memory, &self.sums.rules.safety);
        let recent: Vec<_> = memory
            .accepted
            .iter()
            .filter(|it| self.around.now_ms - it.at_ms < 60_000)
            .collect();
        let own = recent
            .iter()
            .filter(|it| it.source == self.around.source)
            .count();
        let all = counted(recent.len() + 1, safety.max_entries_per_minute_all);
        both_of(counted(own + 1, safety.max_entries_per_minute), all)
    }

    pub(super) fn doing(&self) -> Option<&'a crate::limits_model::memory::Doing> {
        self.sums.memory.doing.get(self.order.strategy.as_str())
    }

    pub(super) fn repeated_execution(&self) -> Said {
        let Some(doing) = self.doing() else {
            return plain(true);
        };
        let safety = &self.sums.rules.safety;
        let window_ms = i64::from(*safety.executions_window_s) * 1000;
        let count = doing
            .executed_ms
            .iter()
            .filter(|ms| self.around.now_ms - **ms < window_ms)
            .count();
        both_of(
            plain(!doing.is_closed),
            counted(count + 1, *safety.max_executions),
        )
    }

    pub(super) fn loss_streak(&self) -> Said {
        let lost = self.doing().map_or(0, |doing| doing.lost_in_a_row);
        counted(
            usize::try_from(lost).unwrap() + 1,
            *self.sums.rules.safety.max_losing_trades,
        )
    }

    pub(super) fn cooldown(&self) -> Said {
        let Some(at_ms) = self.doing().and_then(|doing| doing.stopped_out_ms) else {
            return plain(true);
        };
        let limit_ms = i64::from(*self.sums.rules.safety.cooldown_s) * 1000;
        at_most(
            &whole(limit_ms),
            &whole(self.around.now_ms - at_ms),
            &Rat::one(),
        )
    }
}

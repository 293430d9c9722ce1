//! What waits for a receiver, and where its mark stays.

use super::*;
use spoolgate_rules::notify::Notify;

fn post(on: &str) -> Post {
    let text = format!(
        "to:\n  - {{name: phone, on: [{on}], program: p, time_limit_s: 1, output_bytes_max: 1}}\n"
    );
    let notify = Notify::read("rules/notify.yaml", &text).unwrap();
    Post::new(notify.to[0].clone(), 0)
}

fn halts(count: usize) -> Vec<Notice> {
    let event = Event {
        timestamp: Time::EPOCH,
        note: "x".to_owned(),
        changes: vec![
            spoolgate_gate::Change::HaltFile {
                present: true,
                flatten: false
            };
            count
        ],
        cage: None,
    };
    notice::of(&Record::Event(EventKind::Halt, event))
}

/// Takes one halt at each of these lines and milliseconds.
fn taking(times: impl IntoIterator<Item = (u64, u64)>) -> Post {
    let mut post = post("halt");
    for (line, ms) in times {
        assert!(post.take((line, Time::EPOCH), &halts(1), ms));
    }
    post
}

fn ids(post: &Post) -> Vec<&str> {
    post.queue.iter().map(|item| item.id.as_str()).collect()
}

#[test]
fn five_of_a_kind_are_told_each_and_the_rest_as_one() {
    for count in [4, 5] {
        let mut post = taking((1..=count).map(|line| (line, 0)));
        post.close_windows(WINDOW_MS, false);
        assert_eq!(ids(&post).len() as u64, count);
    }
    let mut post = taking((1..=6).map(|line| (line, 0)));
    assert_eq!(ids(&post).len(), 5);
    post.close_windows(WINDOW_MS - 1, false);
    assert_eq!(ids(&post).len(), 5, "the rest waits for its time");
    post.close_windows(WINDOW_MS, false);
    assert_eq!(ids(&post)[5], "n-6-halt");
    let rest = &post.queue[5].notice;
    assert_eq!(rest.title, "1 more notices `halt`");
    assert_eq!(rest.level, Level::Alarm);
    assert_eq!(post.queue.len(), 6);
    // At the end of a run nothing waits for its time.
    let mut post = taking((1..=8).map(|line| (line, 0)));
    post.close_windows(0, true);
    assert!(post.queue[5].notice.title.starts_with("3 more"));
    assert_eq!((post.queue[5].first, post.queue[5].line), (6, 8));
}

#[test]
fn the_time_of_a_kind_begins_with_its_first_notice() {
    let in_time = taking((1..=5).map(|line| (line, 0)).chain([(6, WINDOW_MS - 1)]));
    assert_eq!(ids(&in_time).len(), 5);
    let later = taking((1..=5).map(|line| (line, 0)).chain([(6, WINDOW_MS)]));
    assert_eq!(ids(&later)[5], "n-6-0");
    // What was counted before comes before what begins anew.
    let both = taking((1..=6).map(|line| (line, 0)).chain([(7, WINDOW_MS)]));
    assert_eq!(ids(&both)[5..], ["n-6-halt", "n-7-0"]);
}

#[test]
fn the_mark_stays_before_what_was_not_told() {
    let mut post = taking((1..=7).map(|line| (line, 0)));
    assert_eq!(post.read_to, 7);
    for told in 0..5 {
        assert_eq!(post.mark(), told);
        post.queue.pop_front();
    }
    // Lines 6 and 7 are only counted so far.
    assert_eq!(post.mark(), 5);
    post.close_windows(WINDOW_MS, false);
    assert_eq!(post.mark(), 5);
    post.queue.pop_front();
    assert_eq!(post.mark(), 7);
    // All notices of a line belong together.
    assert!(post.take((9, Time::EPOCH), &halts(2), 2 * WINDOW_MS));
    post.queue.pop_front();
    assert_eq!(post.mark(), 8);
    post.queue.pop_front();
    assert_eq!(post.mark(), 9);
}

#[test]
fn a_full_queue_leaves_the_line_in_the_ledger() {
    let times = |count: usize| (1..=count as u64).map(|line| (line, line * WINDOW_MS));
    let mut post = taking(times(QUEUE_MAX - 1));
    let last = QUEUE_MAX as u64;
    assert!(post.take((last, Time::EPOCH), &halts(1), last * WINDOW_MS));
    assert!(!post.take((last + 1, Time::EPOCH), &halts(1), 2 * last * WINDOW_MS));
    assert_eq!((post.read_to, post.queue.len()), (last, QUEUE_MAX));
    post.queue.pop_front();
    assert!(post.take((last + 1, Time::EPOCH), &halts(1), 2 * last * WINDOW_MS));
}

#[test]
fn a_flood_is_counted_and_an_alarm_passes_it() {
    let event = |kind| {
        let event = Event {
            timestamp: Time::EPOCH,
            note: "x".to_owned(),
            changes: Vec::new(),
            cage: None,
        };
        notice::of(&Record::Event(kind, event))
    };
    let mut post = post("all");
    let many = MANY as u64;
    for line in 1..=many {
        assert!(post.take(
            (line, Time::EPOCH),
            &event(EventKind::Quota),
            line * WINDOW_MS
        ));
    }
    assert_eq!(post.queue.len(), MANY);
    // From here on floods of any kind and length take no room.
    for (line, kind) in (many + 1..1000).zip([EventKind::Quota, EventKind::Pull].iter().cycle()) {
        assert!(post.take((line, Time::EPOCH), &event(*kind), line * WINDOW_MS));
        post.close_windows(line * WINDOW_MS, false);
    }
    assert_eq!(post.queue.len(), MANY);
    assert!(post.take((1000, Time::EPOCH), &halts(1), 1000 * WINDOW_MS));
    assert_eq!(ids(&post)[MANY..], ["n-1000-0"]);
    post.queue.pop_front();
    post.close_windows(2000 * WINDOW_MS, false);
    assert_eq!(post.queue.len(), MANY, "the alarm took the room");
    post.queue.pop_front();
    post.close_windows(2000 * WINDOW_MS, false);
    assert_eq!(ids(&post)[MANY - 1..], ["n-999-quota"]);
    assert_eq!(
        post.queue[MANY - 1].notice.title,
        "484 more notices `quota`"
    );
    assert_eq!(post.mark(), 2);
}

#[test]
fn a_receiver_gets_its_kinds_and_is_told_once_of_some() {
    let mut deaf = post("hold");
    assert!(deaf.take((3, Time::EPOCH), &halts(1), 0));
    assert_eq!((deaf.queue.len(), deaf.mark()), (0, 3));
    let once = Notice {
        once: Some("max_open_orders 2026-03-02".to_owned()),
        ..halts(1).remove(0)
    };
    let mut post = post("all");
    for line in 1..=3 {
        assert!(post.take((line, Time::EPOCH), std::slice::from_ref(&once), 0));
    }
    assert_eq!(ids(&post), ["n-1-0"]);
    let not_told = |name: &str| {
        let note = notice::not_told(name, "n-1-0", Kind::Halt, 4);
        let event = Event {
            timestamp: Time::EPOCH,
            note,
            changes: Vec::new(),
            cage: None,
        };
        notice::of(&Record::Event(EventKind::NotTold, event))
    };
    assert!(post.take((4, Time::EPOCH), &not_told("phone"), 0));
    assert_eq!(ids(&post), ["n-1-0"], "a receiver is not told of itself");
    assert!(post.take((5, Time::EPOCH), &not_told("mail"), 0));
    assert_eq!(ids(&post), ["n-1-0", "n-5-0"]);
}

//! How files are taken, and which of them are carried out.

use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use spoolgate_host::clock::{Clock, SystemClock};

use super::super::gate::Sign;
use super::super::rig::{Outcome, Rig, amount};

/// Number of instructions that are written and taken back.
const ROUNDS: u32 = 64;
/// Number of instructions that are written if the bridge opens files where they are.
const ROUNDS_MAX: u32 = 1000;
/// Number of files to take back after the bridge opened them where they are.
const CAUGHT: u32 = 4;
/// How long the suite watches a file before it looks at everything else.
const WATCH: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

pub(super) fn take_by_rename(rig: &mut Rig<'_>) -> Outcome {
    let watch =
        inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(io::Error::from)?;
    inotify::add_watch(&watch, rig.gate.folder(), WatchFlags::OPEN).map_err(io::Error::from)?;
    let (mut kept, mut back) = (Vec::new(), Vec::new());
    let (mut is_read_there, mut caught) = (false, 0);
    for round in 0..ROUNDS_MAX {
        // On a busy machine most races with a bridge that opens files where they are get lost.
        if round >= ROUNDS && (!is_read_there || caught >= CAUGHT) {
            break;
        }
        let told = rig.entry();
        let name = told.file();
        rig.tell(&told)?;
        // Even rounds race with the bridge at a time that moves. Odd rounds wait until the bridge
        // opens the file where it is: if it acts on what it reads there, it cannot know that the
        // file was taken back.
        let race_at = Instant::now() + Duration::from_millis(u64::from(round / 2));
        let due = format!("the bridge takes {name}");
        let is_back = rig.until(&due, |rig| {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut opened = Reader::new(&watch, &mut buffer);
            let mut is_open = false;
            // The bridge may need less than a millisecond from reading to acting.
            if round % 2 == 1 {
                let _ = poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&WATCH));
            }
            while let Ok(event) = opened.next() {
                is_open |= event
                    .file_name()
                    .is_some_and(|it| it.to_bytes() == name.as_bytes());
            }
            is_read_there |= is_open;
            if !is_open && rig.gate.is_taken(&name) {
                return Some(Ok(false));
            }
            let is_due = is_open || round % 2 == 0 && Instant::now() >= race_at;
            is_due.then(|| {
                let is_back = rig.gate.take_back(&name);
                caught += u32::from(is_open && matches!(is_back, Ok(true)));
                is_back
            })
        })?;
        match is_back? {
            true => back.push(told),
            false => kept.push(told),
        }
    }
    for told in &kept {
        rig.report(told, "working")?;
    }
    rig.pass_over()?;
    for told in &back {
        let is_reported = rig
            .gate
            .reports
            .iter()
            .any(|it| it.order_id == told.order_id);
        let due = format!("{} was taken back and is not carried out", told.label());
        rig.check(rig.placed(&told.label()) == 0 && !is_reported, &due)?;
    }
    Ok(())
}

pub(super) fn file_twice(rig: &mut Rig<'_>) -> Outcome {
    let told = rig.entry();
    rig.work(&told)?;
    let again = format!("{}.again.json", told.label());
    for (name, restarts) in [(&again, false), (&told.file(), false), (&again, true)] {
        if restarts {
            rig.restart()?;
        }
        rig.tell_as(&told, name)?;
        rig.taken(name)?;
        rig.pass_over()?;
        let mut reports = rig.gate.reports.iter();
        let is_new = reports.any(|it| it.order_id == told.order_id && it.kind != "working");
        let due = format!("{name} is known and changes nothing");
        rig.check(rig.placed(&told.label()) == 1 && !is_new, &due)?;
    }
    let works = rig.exchange.works(&told.client_order_id);
    rig.check(works, "the order goes on working")?;
    // The first file may be lost with a gate that was killed.
    let only = rig.entry();
    rig.tell_as(&only, &format!("{}.again.json", only.label()))?;
    rig.report(&only, "working").map(|_| ())
}

pub(super) fn versions_out_of_order(rig: &mut Rig<'_>) -> Outcome {
    let first = rig.entry();
    let mut second = first.next("replace");
    second.size = amount("0.01");
    let mut third = second.next("replace");
    third.size = amount("0.03");
    rig.work(&third)?;
    let cancelled = rig.entry();
    rig.cancel(&cancelled)?;
    for told in [&first, &second, &cancelled] {
        rig.tell(told)?;
        rig.taken(&told.file())?;
    }
    rig.pass_over()?;
    for told in [&first, &second, &cancelled] {
        let due = format!(
            "{} comes after a higher version and is skipped",
            told.label()
        );
        rig.check(rig.placed(&told.label()) == 0, &due)?;
    }
    let works = rig.exchange.works(&third.client_order_id);
    rig.check(works, "the highest version goes on working")
}

pub(super) fn place_again(rig: &mut Rig<'_>) -> Outcome {
    let first = rig.entry();
    rig.work(&first)?;
    rig.fill(&first, "0.005");
    rig.filled(&first, "0.005")?;
    let cancelled = rig.cancel(&first)?;
    rig.check(
        cancelled.cum_qty == amount("0.005"),
        "the end states 0.005 as filled",
    )?;
    let again = first.next("cancel").next("place");
    rig.work(&again)?;
    let placed = rig.exchange.order(&again.client_order_id).map(|it| it.size);
    rig.check(
        placed == Some(amount("0.015")),
        "0.02 of which 0.005 has filled is placed as 0.015",
    )?;
    // It works: a `place` then leaves one order that works, with the new price.
    let mut other = again.next("place");
    other.price = Some(amount("6790"));
    rig.work(&other)?;
    let works = rig.exchange.works(&again.client_order_id);
    rig.check(!works, "the version before does not work beside it")?;
    rig.fill(&other, "0.015");
    rig.filled(&other, "0.02")
}

pub(super) fn valid_until_past(rig: &mut Rig<'_>) -> Outcome {
    let past = Some(SystemClock::default().now().plus_ms(-1000));
    let (mut late, first) = (rig.entry(), rig.entry());
    late.valid_until = past;
    rig.tell(&late)?;
    rig.rejected(&late, "expired")?;
    rig.work(&first)?;
    let mut second = first.next("replace");
    second.valid_until = past;
    rig.tell(&second)?;
    rig.rejected(&second, "expired")?;
    let sent = rig
        .placed(&late.label())
        .saturating_add(rig.placed(&second.label()));
    rig.check(
        sent == 0,
        "nothing is sent for a version after its `valid_until`",
    )?;
    let works = rig.exchange.works(&first.client_order_id);
    rig.check(works, "the lower version goes on working")
}

pub(super) fn epoch_too_low(rig: &mut Rig<'_>) -> Outcome {
    rig.gate.epoch = 3;
    rig.gate.sign(Sign::Valid)?;
    let new = rig.entry();
    rig.work(&new)?;
    let mut entry = rig.entry();
    entry.epoch = 2;
    rig.tell(&entry)?;
    rig.rejected(&entry, "expired")?;
    // A gate that was restored from a copy has the lower epoch in all its files.
    rig.gate.sign(Sign::LowEpoch)?;
    rig.restart()?;
    let mut stop = rig.stop();
    stop.epoch = 2;
    rig.tell(&stop)?;
    rig.rejected(&stop, "expired")?;
    let sent = rig
        .placed(&entry.label())
        .saturating_add(rig.placed(&stop.label()));
    rig.check(
        sent == 0,
        "nothing is sent for an instruction of a lower epoch",
    )
}

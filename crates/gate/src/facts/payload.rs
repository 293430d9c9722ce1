//! Facts of outgoing actions, read by path from the payload's JSON. Numbers are read from their own
//! text, so that none passes through a float; texts are borrowed if they have no escapes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::body;
use super::whom;
use super::{NO_SUCH, UNREADABLE, minutes, size, unknown, whole};
use spoolgate_rules::rule::field::Id;
use spoolgate_rules::rule::{Fact, Value};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::gateway;
use spoolgate_wire::time::Time;

pub(super) type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// A payload as an object. A value of the wrong type is unknown, not absent.
pub(super) struct PayloadView<'a> {
    envelope: &'a Envelope,
    members: Option<Members<'a>>,
}

/// A text that is borrowed if it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> PayloadView<'a> {
    pub(super) fn of(envelope: &'a Envelope) -> PayloadView<'a> {
        PayloadView {
            envelope,
            members: members(&envelope.payload),
        }
    }

    pub(super) fn fact(&self, id: Id, now: Time) -> Fact<'a> {
        match id {
            Id::PayloadTo => self.list("to"),
            Id::PayloadCc => self.list("cc"),
            Id::PayloadRecipients => both(self.list("to"), self.list("cc")),
            Id::PayloadSubject => self.text("subject"),
            Id::PayloadReplyTo => self.text("replyToMessageId"),
            Id::PayloadBody => self.text("body"),
            Id::PayloadFolder => or(self.text("folder"), Fact::text(gateway::FOLDER)),
            Id::PayloadLimit if self.envelope.action == ActionName::EmailFetch => {
                or(self.number("limit"), whole(i64::from(gateway::LIMIT)))
            }
            Id::PayloadLimit => self.number("limit"),
            Id::PayloadMinutesBack => {
                let from = if self.envelope.action == ActionName::EmailFetch {
                    "since"
                } else {
                    "startDate"
                };
                self.time(from, |time| minutes(now, time))
            }
            Id::PayloadCalendarId => or(self.text("calendarId"), Fact::text(gateway::CALENDAR)),
            Id::PayloadMinutesAhead => self.time(self.period().0, |start| minutes(start, now)),
            Id::PayloadMinutesLong => {
                let (start, end) = self.period();
                match (self.read(start), self.read(end)) {
                    (Some(Ok(start)), Some(Ok(end))) => whole(minutes(end, start)),
                    _ => unknown(UNREADABLE),
                }
            }
            Id::PayloadTitle => self.text("title"),
            Id::PayloadDescription => self.text("description"),
            Id::PayloadAttendees => self.list("attendees"),
            Id::PayloadAccountId => self.text("accountId"),
            Id::PayloadDataType => self.text("dataType"),
            Id::PayloadService => self.text("service"),
            Id::PayloadEndpoint => self.text("endpoint"),
            Id::PayloadEndpointTo => self.of_member("endpoint", |value| match text_of(value) {
                Some(Value::Text(endpoint)) => whom::of_endpoint(&endpoint),
                _ => unknown(UNREADABLE),
            }),
            Id::PayloadMethod => self.text("method"),
            Id::PayloadHeaderNames => self.headers(|name, _| Some(Value::Text(name))),
            Id::PayloadHeaderValues => self.headers(|_, value| text_of(value)),
            Id::PayloadBodyTexts => self.of_member("body", |body| texts(body.get())),
            Id::PayloadBodyTo => self.of_member("body", |value| body::named_whom(value.get())),
            Id::PayloadBodyHosts => self.of_member("body", |value| body::places(value.get())),
            Id::PayloadBodyAmount => self.of_member("body", |value| body::amount(value.get())),
            Id::PayloadTexts => texts(&self.envelope.payload),
            Id::PayloadBytes => size(self.envelope.payload.len()),
            _ => unknown(NO_SUCH),
        }
    }

    /// The fact of a member; absent if the member is.
    fn of_member(&self, name: &str, fact: impl FnOnce(&'a RawValue) -> Fact<'a>) -> Fact<'a> {
        match &self.members {
            None => unknown(UNREADABLE),
            Some(members) => members.get(name).map_or(Fact::Absent, |value| fact(value)),
        }
    }

    fn text(&self, name: &str) -> Fact<'a> {
        self.of_member(name, |value| {
            text_of(value).map_or(unknown(UNREADABLE), Fact::Known)
        })
    }

    fn number(&self, name: &str) -> Fact<'a> {
        self.of_member(name, |value| {
            Fact::number_or_unknown(Amount::parse_wire(value.get()).ok(), UNREADABLE)
        })
    }

    fn list(&self, name: &str) -> Fact<'a> {
        self.of_member(name, |value| {
            let elements: Option<Vec<&'a RawValue>> = serde_json::from_str(value.get()).ok();
            let texts = elements.and_then(|elements| elements.into_iter().map(text_of).collect());
            texts.map_or(unknown(UNREADABLE), Fact::Many)
        })
    }

    fn headers(&self, of: impl Fn(Cow<'a, str>, &'a RawValue) -> Option<Value<'a>>) -> Fact<'a> {
        self.of_member("headers", |value| {
            let headers = members(value.get()).map(|headers| headers.into_iter());
            let values = headers.and_then(|mut headers| {
                headers.try_fold(Vec::new(), |mut values, (name, value)| {
                    values.push(of(name, value)?);
                    Some(values)
                })
            });
            values.map_or(unknown(UNREADABLE), Fact::Many)
        })
    }

    /// Names of the members that begin and end a period.
    fn period(&self) -> (&'static str, &'static str) {
        if self.envelope.action == ActionName::CalendarFetch {
            ("startDate", "endDate")
        } else {
            ("startTime", "endTime")
        }
    }

    fn time(&self, name: &str, number: impl FnOnce(Time) -> i64) -> Fact<'a> {
        match self.read(name) {
            None if self.members.is_some() => Fact::Absent,
            Some(Ok(time)) => whole(number(time)),
            _ => unknown(UNREADABLE),
        }
    }

    fn read(&self, name: &str) -> Option<Result<Time, serde_json::Error>> {
        let value = self.members.as_ref()?.get(name)?;
        Some(serde_json::from_str(value.get()))
    }
}

pub(super) fn members(text: &str) -> Option<Members<'_>> {
    #[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    #[serde(transparent)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
    let members: BTreeMap<Name<'_>, &RawValue> = serde_json::from_str(text).ok()?;
    Some(
        members
            .into_iter()
            .map(|(name, value)| (name.0, value))
            .collect(),
    )
}

fn text_of(value: &RawValue) -> Option<Value<'_>> {
    serde_json::from_str::<Borrowed<'_>>(value.get())
        .ok()
        .map(|text| Value::Text(text.0))
}

/// Replaces an absent fact by the default.
fn or<'a>(fact: Fact<'a>, default: Fact<'a>) -> Fact<'a> {
    if fact == Fact::Absent { default } else { fact }
}

/// The elements of two arrays; the second array may be absent.
fn both<'a>(one: Fact<'a>, other: Fact<'a>) -> Fact<'a> {
    match (one, other) {
        (Fact::Many(mut values), Fact::Many(others)) => {
            values.extend(others);
            Fact::Many(values)
        }
        (Fact::Many(values), Fact::Absent) => Fact::Many(values),
        _ => unknown(UNREADABLE),
    }
}

/// Every text, number and member name, at any depth.
fn texts(json: &str) -> Fact<'_> {
    let mut found = Vec::new();
    match gather(json, &mut found) {
        Some(()) => Fact::Many(found),
        None => unknown(UNREADABLE),
    }
}

/// Strict JSON nests at most 64 deep, which bounds stack and time.
pub(super) fn gather<'a>(json: &'a str, found: &mut Vec<Value<'a>>) -> Option<()> {
    match json.bytes().next()? {
        b'{' => {
            for (name, value) in members(json)? {
                found.push(Value::Text(name));
                gather(value.get(), found)?;
            }
        }
        b'[' => {
            let elements: Vec<&'a RawValue> = serde_json::from_str(json).ok()?;
            elements
                .into_iter()
                .try_for_each(|value| gather(value.get(), found))?;
        }
        b'"' => found.push(Value::Text(
            serde_json::from_str::<Borrowed<'a>>(json).ok()?.0,
        )),
        b'-' | b'0'..=b'9' => found.push(Value::Text(json.into())),
        _ => {}
    }
    Some(())
}

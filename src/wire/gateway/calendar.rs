//! Payloads of `calendar.fetch`, `calendar.create` and `calendar.update`.

use serde::Serialize;

use super::read::{Fields, addresses};
use super::{NAME_BYTES_MAX, TEXT_BYTES_MAX};
use crate::wire::time::Time;

/// Calendar where none is named.
pub const CALENDAR: &str = "primary";

/// `calendar.fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(rename_all = "camelCase")]
pub struct CalendarFetch {
    /// Calendar, [`CALENDAR`] where it is left out.
    #[schemars(default = "primary", schema_with = "crate::wire::schema::outside_name::<NAME_BYTES_MAX>")]
    pub calendar_id: String,
    /// From.
    pub start_date: Time,
    /// Until, later than that.
    pub end_date: Time,
}

impl CalendarFetch {
    pub(super) fn read(payload: &str) -> Result<CalendarFetch, String> {
        let fields = Fields::read(payload, &["calendarId", "startDate", "endDate"])?;
        let calendar_id = calendar(&fields)?;
        let (start_date, end_date) = period(&fields, "startDate", "endDate")?;
        Ok(CalendarFetch { calendar_id, start_date, end_date })
    }
}

/// `calendar.create`, `calendar.update`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(rename_all = "camelCase")]
pub struct CalendarCreate {
    /// Calendar, [`CALENDAR`] where it is left out.
    #[schemars(default = "primary", schema_with = "crate::wire::schema::outside_name::<NAME_BYTES_MAX>")]
    pub calendar_id: String,
    /// Title, one line.
    #[schemars(schema_with = "crate::wire::schema::line::<TEXT_BYTES_MAX>")]
    pub title: String,
    /// From.
    pub start_time: Time,
    /// Until, later than that.
    pub end_time: Time,
    /// More words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "String")]
    pub description: Option<String>,
    /// Who is invited, bare addresses, at most [`super::PEOPLE_MAX`].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "addresses")]
    pub attendees: Option<Vec<String>>,
}

impl CalendarCreate {
    pub(super) fn read(payload: &str) -> Result<CalendarCreate, String> {
        let known = ["calendarId", "title", "startTime", "endTime", "description", "attendees"];
        let fields = Fields::read(payload, &known)?;
        let (calendar_id, title) = (calendar(&fields)?, fields.line("title")?);
        let (start_time, end_time) = period(&fields, "startTime", "endTime")?;
        let (description, attendees) =
            (fields.text_if_any("description")?, fields.addresses_if_any("attendees")?);
        Ok(CalendarCreate { calendar_id, title, start_time, end_time, description, attendees })
    }
}

fn primary() -> String {
    CALENDAR.to_owned()
}

fn calendar(fields: &Fields<'_>) -> Result<String, String> {
    Ok(fields.name_if_any("calendarId")?.unwrap_or_else(primary))
}

fn period(fields: &Fields<'_>, start: &str, end: &str) -> Result<(Time, Time), String> {
    let (from, to) = (fields.time(start)?, fields.time(end)?);
    if to <= from {
        return Err(format!("`{end}` must be after `{start}`"));
    }
    Ok((from, to))
}

//! Payloads of `calendar.fetch`, `calendar.create` and `calendar.update`.

use serde::Serialize;

use super::read::Fields;
#[cfg(feature = "schema")]
use super::{NAME_BYTES_MAX, TEXT_BYTES_MAX};
use crate::payload::PayloadError;
use crate::time::Time;

/// The calendar that is used if none is named.
pub const CALENDAR: &str = "primary";

/// `calendar.fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(rename_all = "camelCase")]
pub struct CalendarFetch {
    /// Calendar; if absent, [`CALENDAR`].
    #[schemars(
        default = "primary",
        schema_with = "crate::schema::outside_name::<NAME_BYTES_MAX>"
    )]
    pub calendar_id: String,
    /// Start of the period.
    pub start_date: Time,
    /// End of the period, after its start.
    pub end_date: Time,
}

impl CalendarFetch {
    pub(super) fn read(payload: &str) -> Result<CalendarFetch, PayloadError> {
        let fields = Fields::read(payload, &["calendarId", "startDate", "endDate"])?;
        let calendar_id = calendar(&fields)?;
        let (start_date, end_date) = period(&fields, "startDate", "endDate")?;
        Ok(CalendarFetch {
            calendar_id,
            start_date,
            end_date,
        })
    }
}

/// `calendar.create`, `calendar.update`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(rename_all = "camelCase")]
pub struct CalendarCreate {
    /// Calendar; if absent, [`CALENDAR`].
    #[schemars(
        default = "primary",
        schema_with = "crate::schema::outside_name::<NAME_BYTES_MAX>"
    )]
    pub calendar_id: String,
    /// Title, one line.
    #[schemars(schema_with = "crate::schema::line::<TEXT_BYTES_MAX>")]
    pub title: String,
    /// Start of the event.
    pub start_time: Time,
    /// End of the event, after its start.
    pub end_time: Time,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "String")]
    pub description: Option<String>,
    /// Invited people as bare addresses, at most [`super::PEOPLE_MAX`].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "super::read::addresses")]
    pub attendees: Option<Vec<String>>,
}

impl CalendarCreate {
    pub(super) fn read(payload: &str) -> Result<CalendarCreate, PayloadError> {
        const KNOWN: [&str; 6] = [
            "calendarId",
            "title",
            "startTime",
            "endTime",
            "description",
            "attendees",
        ];
        let fields = Fields::read(payload, &KNOWN)?;
        let (calendar_id, title) = (calendar(&fields)?, fields.line("title")?);
        let (start_time, end_time) = period(&fields, "startTime", "endTime")?;
        let (description, attendees) = (
            fields.text_if_any("description")?,
            fields.addresses_if_any("attendees")?,
        );
        Ok(CalendarCreate {
            calendar_id,
            title,
            start_time,
            end_time,
            description,
            attendees,
        })
    }
}

fn primary() -> String {
    CALENDAR.to_owned()
}

fn calendar(fields: &Fields<'_>) -> Result<String, PayloadError> {
    Ok(fields.name_if_any("calendarId")?.unwrap_or_else(primary))
}

fn period(
    fields: &Fields<'_>,
    start: &'static str,
    end: &'static str,
) -> Result<(Time, Time), PayloadError> {
    let (from, to) = (fields.time(start)?, fields.time(end)?);
    if to <= from {
        return Err(PayloadError::Period { start, end });
    }
    Ok((from, to))
}

//! Payloads of `finance.fetch_transactions` and `health.fetch`.

use serde::Serialize;

use super::LIMIT_MAX;
#[cfg(feature = "schema")]
use super::NAME_BYTES_MAX;
use super::read::Fields;
use crate::payload::PayloadError;
use crate::time::Time;

/// `finance.fetch_transactions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(rename_all = "camelCase")]
pub struct FetchTransactions {
    /// Account; if absent, all accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "crate::schema::outside_name::<NAME_BYTES_MAX>")]
    pub account_id: Option<String>,
    /// Maximum number of transactions, 1 to [`LIMIT_MAX`]; if absent, the service decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "crate::schema::whole::<1, LIMIT_MAX>")]
    pub limit: Option<u32>,
}

impl FetchTransactions {
    pub(super) fn read(payload: &str) -> Result<FetchTransactions, PayloadError> {
        let fields = Fields::read(payload, &["accountId", "limit"])?;
        let (account_id, limit) = (
            fields.name_if_any("accountId")?,
            fields.limit("limit", LIMIT_MAX)?,
        );
        Ok(FetchTransactions { account_id, limit })
    }
}

/// `health.fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(rename_all = "camelCase")]
pub struct FetchHealth {
    /// Kind of data to fetch.
    #[schemars(schema_with = "crate::schema::outside_name::<NAME_BYTES_MAX>")]
    pub data_type: String,
    /// Start of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "Time")]
    pub start_date: Option<Time>,
}

impl FetchHealth {
    pub(super) fn read(payload: &str) -> Result<FetchHealth, PayloadError> {
        let fields = Fields::read(payload, &["dataType", "startDate"])?;
        let (data_type, start_date) = (fields.name("dataType")?, fields.time_if_any("startDate")?);
        Ok(FetchHealth {
            data_type,
            start_date,
        })
    }
}

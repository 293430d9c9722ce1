//! Payloads of `finance.fetch_transactions` and `health.fetch`.

use serde::Serialize;

use super::LIMIT_MAX;
use super::read::Fields;
use crate::wire::time::Time;

/// `finance.fetch_transactions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchTransactions {
    /// Account; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// How many at most, 1 to [`LIMIT_MAX`]; absent: what the other side gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl FetchTransactions {
    pub(super) fn read(payload: &str) -> Result<FetchTransactions, String> {
        let fields = Fields::read(payload, &["accountId", "limit"])?;
        let (account_id, limit) = (fields.name_if_any("accountId")?, fields.limit("limit", LIMIT_MAX)?);
        Ok(FetchTransactions { account_id, limit })
    }
}

/// `health.fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchHealth {
    /// What is asked for.
    pub data_type: String,
    /// From.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_date: Option<Time>,
}

impl FetchHealth {
    pub(super) fn read(payload: &str) -> Result<FetchHealth, String> {
        let fields = Fields::read(payload, &["dataType", "startDate"])?;
        let (data_type, start_date) = (fields.name("dataType")?, fields.time_if_any("startDate")?);
        Ok(FetchHealth { data_type, start_date })
    }
}

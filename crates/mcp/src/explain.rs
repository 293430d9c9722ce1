//! Explains one answer in words and as a structure: what was decided, what failed and by how much,
//! what to send instead, and what has become of the order since. It uses the agent's own answers
//! and does not read the ledger.

use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::ids::RequestId;

use super::arguments::{Arguments, Inner};
use super::desk::{Desk, Outcome};
use super::raw::{Members, array, object, quoted};
use super::said::Asked;
use super::told::Told;

/// Explains the answer to a request.
pub(crate) fn explain(desk: &Desk, id: &RequestId) -> Told {
    let Some(answer) = desk.answer_to(id) else {
        return without_answer(desk, id);
    };
    let request = desk.request(id);
    let mut told = Told::of(&answer, request.as_ref().and_then(Asked::of));
    let needs = told
        .refused
        .as_ref()
        .map(|refused| refused.needs())
        .unwrap_or_default();
    let decided = format!(
        "at {} the gate decided on `{id}`: {}",
        answer.timestamp, told.words
    );
    let lines = told
        .refused
        .as_ref()
        .map(|refused| refused.lines())
        .unwrap_or_default();
    let mut words = vec![decided];
    words.extend(lines);
    words.extend(needs.iter().map(|need| format!("to do: {need}")));
    if told.status == "success"
        && let Some(order) = told.data.as_deref().and_then(order_of)
    {
        let since = state_since(desk, &answer, &order);
        words.push(since.words);
        told.more.push(("order", since.json));
    }
    told.more.push(("decision", quoted(told.status)));
    if !needs.is_empty() {
        told.more
            .push(("needs", array(needs.iter().map(|need| quoted(need)))));
    }
    // The explanation itself succeeded, even if it explains a refusal.
    let refused = told.refused.take().map(|refused| {
        (
            "refused",
            Told {
                refused: Some(refused),
                ..Told::default()
            },
        )
    });
    if let Some((name, inner)) = refused
        && let Some(text) =
            Members::of(&inner.json()).and_then(|members| members.text(name).map(str::to_owned))
    {
        told.more.push((name, text));
    }
    Told {
        status: "success",
        words: words.join("\n"),
        ..told
    }
}

fn without_answer(desk: &Desk, id: &RequestId) -> Told {
    let words = match desk.is_unanswered(id) {
        true => format!(
            "request `{id}` was sent and has no answer yet: the gate may still decide it. Call \
                the same tool with the same arguments and this id to send the same bytes again; \
                nothing is done twice"
        ),
        false => format!(
            "request `{id}` has no answer here: this agent did not send it, or its answer was \
                removed"
        ),
    };
    Told {
        status: "open",
        request_id: Some(id.to_string()),
        words,
        ..Told::default()
    }
}

fn order_of(data: &str) -> Option<String> {
    Members::of(Members::of(data)?.text("Accepted")?)?.string("order_id")
}

struct Since {
    words: String,
    json: String,
}

/// Asks the gate for open orders and executions of an order.
fn state_since(desk: &Desk, answer: &Answer, order: &str) -> Since {
    let since = object([("since", quoted(&answer.timestamp.to_string()))]);
    let open = rows(
        desk,
        ActionName::OrdersList,
        "{}".to_owned(),
        "Orders",
        order,
    );
    let fills = rows(desk, ActionName::FillsList, since, "Fills", order);
    let words = match (&open, &fills) {
        (Ok(open), Ok(fills)) => {
            let own = open.iter().any(|row| is_exactly(row, order));
            let state = match (own, fills.is_empty()) {
                (true, true) => "is working and unfilled".to_owned(),
                (true, false) => "is working and partly filled".to_owned(),
                (false, _) => how_it_ended(desk, order),
            };
            format!(
                "order {order} {state}; {} open orders belong to it, {} executions",
                open.len(),
                fills.len()
            )
        }
        (Err(why), _) | (_, Err(why)) => {
            format!("the state of order {order} is unknown now: {why}")
        }
    };
    let list = |rows: Result<Vec<String>, NoRows>| rows.map_or("null".to_owned(), array);
    let json = object([
        ("order_id", quoted(order)),
        ("open", list(open)),
        ("fills", list(fills)),
    ]);
    Since { words, json }
}

/// Says how an order ended that is no longer open: what a cancel of it would have to say.
fn how_it_ended(desk: &Desk, order: &str) -> String {
    let payload = object([("order_id", quoted(order))]);
    let check = Inner {
        action: ActionName::OrderCancel,
        payload,
    };
    let words = desk.check(&check).words;
    let (_, ended) = words.split_once(order).unwrap_or_default();
    let ended = ended.split(';').next().unwrap_or_default().trim();
    match ended {
        "" => "is no longer open".to_owned(),
        ended => ended.to_owned(),
    }
}

/// Why the rows of an order are not known.
#[derive(Debug, thiserror::Error)]
enum NoRows {
    /// The gate did not answer, for this reason.
    #[error("{0}")]
    Unanswered(String),
    /// The gate refused the query.
    #[error("{action}: {message}")]
    Refused {
        /// The query.
        action: ActionName,
        /// The gate's message.
        message: String,
    },
    /// The answer lacks its list.
    #[error("{action}: the answer has no `{list}`")]
    NoList {
        /// The query.
        action: ActionName,
        /// The list.
        list: &'static str,
    },
}

/// Returns the rows of an order and of its protective orders, whose names begin with its name.
fn rows(
    desk: &Desk,
    action: ActionName,
    payload: String,
    list: &'static str,
    order: &str,
) -> Result<Vec<String>, NoRows> {
    let asked = Arguments {
        payload,
        id: None,
        causality: None,
    };
    let answer = match desk.ask(action, &asked) {
        Outcome::Answered(answered) => answered.answer,
        Outcome::Told(told) => return Err(NoRows::Unanswered(told.words)),
    };
    if let Some(error) = &answer.error {
        let message = error.message.clone();
        return Err(NoRows::Refused { action, message });
    }
    let data = answer
        .data
        .as_ref()
        .and_then(|data| Members::of(data.get()));
    let rows = data.and_then(|data| {
        serde_json::from_str::<Vec<&serde_json::value::RawValue>>(data.text(list)?).ok()
    });
    let rows = rows.ok_or(NoRows::NoList { action, list })?;
    let belongs = |row: &&str| {
        let name = Members::of(row).and_then(|row| row.string("order_id"));
        name.is_some_and(|name| {
            name == order
                || name
                    .strip_prefix(order)
                    .is_some_and(|rest| rest.starts_with('-'))
        })
    };
    Ok(rows
        .into_iter()
        .map(|row| row.get())
        .filter(belongs)
        .map(str::to_owned)
        .collect())
}

fn is_exactly(row: &str, order: &str) -> bool {
    Members::of(row)
        .and_then(|row| row.string("order_id"))
        .is_some_and(|name| name == order)
}

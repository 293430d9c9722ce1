//! Reads and writes protocol messages as lines. The SDK holds arguments and results as trees whose
//! numbers are binary floats, so their JSON text bypasses it: inside the single member [`RAW`], as
//! a string.

use std::cell::RefCell;
use std::fmt;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::service::TxJsonRpcMessage;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, de};
use serde_json::Value;
use serde_json::value::RawValue;

use super::raw::{Members, object, quoted};

/// The only member of arguments and results that the SDK sees. It holds the JSON text of the real
/// ones.
pub(crate) const RAW: &str = "raw";

/// What a line turned out to be.
pub(crate) enum Incoming {
    /// A message for the SDK.
    Message(Box<ClientJsonRpcMessage>),
    /// Not a message of the protocol. Holds the line to answer with, if any.
    Fault(Option<Vec<u8>>),
}

/// Reads a line.
pub(crate) fn incoming(line: &[u8]) -> Incoming {
    let Ok(text) = std::str::from_utf8(line) else {
        return fault(ErrorCode::PARSE_ERROR, "the message is not UTF-8", None);
    };
    if text.trim().is_empty() {
        return Incoming::Fault(None);
    }
    let Some(frame) = Members::of(text) else {
        if serde_json::from_str::<Vec<IgnoredAny>>(text).is_ok() {
            return fault(
                ErrorCode::INVALID_REQUEST,
                "batches are not accepted: send each message as a line of its own",
                None,
            );
        }
        let what = "the message is not one JSON object: NaN and Infinity are not JSON, and no name \
            may occur twice";
        return fault(ErrorCode::PARSE_ERROR, what, id_before_the_fault(text));
    };
    let id = frame.get("id").and_then(read_id);
    if id.is_none() && frame.get("id").is_some() && frame.get("method").is_some() {
        let what = "the `id` of a request is a text, or a whole number of 64 bits";
        return fault(ErrorCode::INVALID_REQUEST, what, None);
    }
    let is_call = frame.string("method").as_deref() == Some("tools/call");
    let rewritten = is_call.then(|| with_raw_arguments(&frame));
    if matches!(rewritten, Some(None)) {
        let what = "the params of a call are one JSON object with the `name` of a tool, in which \
            no name occurs twice";
        return fault(ErrorCode::INVALID_PARAMS, what, id);
    }
    let rewritten = rewritten.flatten();
    match serde_json::from_str(rewritten.as_deref().unwrap_or(text)) {
        Ok(message) => Incoming::Message(Box::new(message)),
        Err(_) if id.is_none() && frame.get("method").is_some() => Incoming::Fault(None),
        Err(_) => fault(
            ErrorCode::INVALID_REQUEST,
            "the message does not belong to this protocol",
            id,
        ),
    }
}

/// Returns the answer to a line that was longer than the limit.
pub(crate) fn too_long(bytes_max: usize) -> Option<Vec<u8>> {
    let what = format!("the message is longer than {bytes_max} bytes; send less in one");
    answer_of(ErrorCode::INVALID_REQUEST, what, None)
}

/// Replaces the arguments of a call by one member that holds their text.
fn with_raw_arguments(frame: &Members<'_>) -> Option<String> {
    let params = Members::of(frame.text("params")?)?;
    params.string("name")?;
    let arguments = params
        .text("arguments")
        .filter(|text| *text != "null")
        .unwrap_or("{}");
    let arguments = object([(RAW, quoted(arguments))]);
    let params = object(
        params
            .0
            .iter()
            .filter(|(name, _)| name != "arguments")
            .map(|(name, value)| (name.as_str(), value.get()))
            .chain([("arguments", arguments.as_str())]),
    );
    Some(object(frame.0.iter().map(
        |(name, value)| match name.as_str() {
            "params" => ("params", params.as_str()),
            name => (name, value.get()),
        },
    )))
}

fn read_id(value: &RawValue) -> Option<RequestId> {
    serde_json::from_str(value.get()).ok()
}

fn fault(code: ErrorCode, what: &str, id: Option<RequestId>) -> Incoming {
    Incoming::Fault(answer_of(code, what.to_owned(), id))
}

fn answer_of(code: ErrorCode, what: String, id: Option<RequestId>) -> Option<Vec<u8>> {
    outgoing(TxJsonRpcMessage::<RoleServer>::error(
        ErrorData::new(code, what, None),
        id,
    ))
}

/// Returns the id of a message that stops being valid JSON further on, so that its sender gets an
/// answer and does not wait for ever.
fn id_before_the_fault(text: &str) -> Option<RequestId> {
    struct Finder<'a>(&'a RefCell<Option<RequestId>>);

    impl<'de> Visitor<'de> for Finder<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key::<String>()? {
                if name == "id" {
                    let id = map.next_value::<&RawValue>()?;
                    if self.0.replace(read_id(id)).is_some() {
                        self.0.replace(None);
                        return Err(de::Error::custom("two ids"));
                    }
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(())
        }
    }

    let found = RefCell::new(None);
    // The text is known to end in an error.
    let _ = serde_json::Deserializer::from_str(text).deserialize_map(Finder(&found));
    found.into_inner()
}

/// Writes a message as a line, with the JSON text of a result restored.
pub(crate) fn outgoing(mut message: ServerJsonRpcMessage) -> Option<Vec<u8>> {
    let structured = take_raw(&mut message);
    let mut text = serde_json::to_string(&message).ok()?;
    if let Some(structured) = structured {
        let frame = Members::of(&text)?;
        let result = Members::of(frame.text("result")?)?;
        let result = object(
            result
                .0
                .iter()
                .map(|(name, value)| (name.as_str(), value.get()))
                .chain([("structuredContent", structured.as_str())]),
        );
        text = object(frame.0.iter().map(|(name, value)| match name.as_str() {
            "result" => ("result", result.as_str()),
            name => (name, value.get()),
        }));
    }
    text.push('\n');
    Some(text.into_bytes())
}

fn take_raw(message: &mut ServerJsonRpcMessage) -> Option<String> {
    let JsonRpcMessage::Response(response) = message else {
        return None;
    };
    let ServerResult::CallToolResult(result) = &mut response.result else {
        return None;
    };
    match result.structured_content.take() {
        Some(Value::Object(mut members)) => match members.remove(RAW) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]
mod tests {
    use rmcp::model::{CallToolResult, ClientRequest, ContentBlock};
    use serde_json::json;

    use super::*;

    fn arguments(line: &str) -> String {
        let Incoming::Message(message) = incoming(line.as_bytes()) else {
            panic!("no message: {line}")
        };
        let JsonRpcMessage::Request(request) = *message else {
            panic!("no request: {line}")
        };
        let ClientRequest::CallToolRequest(call) = request.request else {
            panic!("no call: {line}")
        };
        call.params.arguments.unwrap()[RAW]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn fault_of(line: &str) -> Value {
        let Incoming::Fault(Some(answer)) = incoming(line.as_bytes()) else {
            panic!("no fault: {line}")
        };
        serde_json::from_slice(&answer).unwrap()
    }

    #[test]
    fn arguments_keep_their_text() {
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        for text in [
            r#"{"size":0.1000000000000000055511151231257827}"#,
            r#"{"size":123456789012345678901234567890.5,"b":1e400,"c":0.10}"#,
            r#"{ "b" : "é\u0000" , "b" : 2 }"#,
            r#"[1]"#,
            &format!(r#"{{"a":{deep}}}"#),
        ] {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{text}}}}}"#
            );
            assert_eq!(arguments(&line), text);
        }
        for params in [r#"{"name":"x"}"#, r#"{"name":"x","arguments":null}"#] {
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            assert_eq!(arguments(&line), "{}");
        }
    }

    #[test]
    fn an_invalid_message_is_answered_under_its_id_if_it_has_one() {
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        for (line, id, code) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{"size":NaN}}}"#,
                json!(7),
                -32700,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":[NaN"#,
                json!("a"),
                -32700,
            ),
            (
                r#"{"method":"tools/call","params":NaN,"id":7}"#,
                Value::Null,
                -32700,
            ),
            (r#"{"id":7,"id":8,"params":NaN}"#, Value::Null, -32700),
            ("nothing", Value::Null, -32700),
            ("[]", Value::Null, -32600),
            (
                r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#,
                Value::Null,
                -32600,
            ),
            ("[{]", Value::Null, -32700),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                Value::Null,
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":true,"method":"tools/call"}"#,
                Value::Null,
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#,
                Value::Null,
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#,
                Value::Null,
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{},"arguments":{}}}"#,
                json!(7),
                -32602,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{}}}"#,
                json!(7),
                -32602,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#,
                json!(7),
                -32602,
            ),
            (
                &format!(
                    r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{"_meta":{{"a":{deep}}}}}}}"#
                ),
                json!(7),
                -32600,
            ),
        ] {
            let answer = fault_of(line);
            assert_eq!(
                (&answer["error"]["code"], &answer["id"]),
                (&json!(code), &id),
                "{}",
                &line[..20.min(line.len())]
            );
        }
        for line in [
            "",
            "  ",
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":7}"#,
        ] {
            assert!(
                !matches!(incoming(line.as_bytes()), Incoming::Fault(Some(_))),
                "{line}"
            );
        }
        assert!(matches!(incoming(&[0xff]), Incoming::Fault(Some(_))));
    }

    #[test]
    fn results_keep_their_text() {
        let structured = r#"{"data":{"n":0.1000000000000000055511151231257827,"m":1e400}}"#;
        let mut result =
            CallToolResult::success(vec![ContentBlock::text("\"structuredContent\":null}")]);
        result.structured_content = Some(json!({ RAW: structured }));
        let message = ServerJsonRpcMessage::response(
            ServerResult::CallToolResult(result),
            RequestId::Number(3),
        );
        let line = String::from_utf8(outgoing(message).unwrap()).unwrap();
        assert!(
            line.contains(&format!(r#""structuredContent":{structured}"#)),
            "{line}"
        );
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1);
        assert!(!line.contains(RAW), "{line}");
    }
}

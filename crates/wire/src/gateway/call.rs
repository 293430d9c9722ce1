//! Payload of `service.api_call`. However a server reads the endpoint, it stays below the host of
//! its service; the headers cannot redirect the call or turn it into another one.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(feature = "schema")]
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(feature = "schema")]
use super::NAME_BYTES_MAX;
use super::read::{Fields, text_of};
use super::{HEADERS_MAX, TEXT_BYTES_MAX};
use crate::payload::PayloadError;

/// Longest name of a header, in bytes.
const HEADER_NAME_BYTES_MAX: usize = 256;
/// Headers reserved for the adapter: they frame the call, name its host, or turn it into another
/// call. In lower case, with `-` for `_`, because some servers treat the two alike.
const RESERVED: [&str; 24] = [
    "alt-used",
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-method",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
    "x-url-scheme",
];
/// Prefixes of further reserved names.
const RESERVED_BEGINS: [&str; 2] = ["proxy-", "x-forwarded-"];

/// Why the headers of a call are invalid. Names are repeated, values are not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// A name is not a token of RFC 9110.
    #[error(
        "`headers` has a name that is not a token of RFC 9110 of 1 to {HEADER_NAME_BYTES_MAX} bytes"
    )]
    NoToken,
    /// A name is reserved for the adapter.
    #[error("`headers` must not have `{0}`: the adapter decides where a call goes and how")]
    Reserved(String),
    /// A name is there twice, but for case or `_`.
    #[error("`headers` has `{0}` twice: case and `_` do not count")]
    Twice(String),
    /// A value is not a text.
    #[error("header `{0}` must be a text")]
    NoText(String),
    /// A value is too long.
    #[error("header `{name}` has {found} bytes; at most {TEXT_BYTES_MAX} are accepted")]
    TooLong {
        /// The header.
        name: String,
        /// The length of its value in bytes.
        found: usize,
    },
    /// A value has other characters than visible ASCII and spaces, or spaces at its ends.
    #[error("header `{0}` must be visible ASCII and spaces, without spaces at its ends")]
    NotVisible(String),
}

crate::named! {
    /// An HTTP method.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
        schemars::JsonSchema,
    )]
    pub enum Method {
        /// Reads a resource.
        Get = "GET",
        /// Creates a resource.
        Post = "POST",
        /// Replaces a resource.
        Put = "PUT",
        /// Deletes a resource.
        Delete = "DELETE",
        /// Changes a resource.
        Patch = "PATCH",
    }
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 5] = [
        Method::Get,
        Method::Post,
        Method::Put,
        Method::Delete,
        Method::Patch,
    ];
}

/// `service.api_call`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ServiceApiCall {
    /// Service of the allowlist, by its name or its host.
    #[schemars(schema_with = "crate::schema::outside_name::<NAME_BYTES_MAX>")]
    pub service: String,
    /// Path below the service's host, optionally with a query.
    #[schemars(schema_with = "endpoint_schema")]
    pub endpoint: String,
    /// Method.
    pub method: Method,
    /// Headers by name, at most [`HEADERS_MAX`].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "headers_schema")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Body: any JSON, passed on as it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "crate::schema::any")]
    pub body: Option<Box<RawValue>>,
}

/// A path, and optionally a query, of the characters that RFC 3986 allows.
#[cfg(feature = "schema")]
fn endpoint_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": TEXT_BYTES_MAX,
        "pattern": r"^/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?\[\]-]*)?$",
        "examples": ["/v1/notes?tag=a"],
    })
}

/// Names are tokens of RFC 9110, values are visible ASCII.
#[cfg(feature = "schema")]
fn headers_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": HEADERS_MAX,
        "propertyNames": {"pattern": format!(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{{1,{HEADER_NAME_BYTES_MAX}}}$")},
        "additionalProperties": {
            "type": "string",
            "maxLength": TEXT_BYTES_MAX,
            "pattern": "^([!-~]([ -~]*[!-~])?)?$",
            "description": "The value of the header: visible ASCII, no space at its ends.",
        },
    })
}

impl ServiceApiCall {
    pub(super) fn read(payload: &str) -> Result<ServiceApiCall, PayloadError> {
        let fields = Fields::read(
            payload,
            &["service", "endpoint", "method", "headers", "body"],
        )?;
        let service = fields.name("service")?;
        let endpoint = fields.text("endpoint")?;
        check_endpoint(&endpoint)?;
        let method = fields.text("method")?;
        let method = Method::ALL
            .into_iter()
            .find(|known| known.as_str() == method);
        let rule = "must be GET, POST, PUT, DELETE or PATCH";
        let method = method.ok_or(PayloadError::form("method", rule))?;
        let headers = fields.get("headers").map(read_headers).transpose()?;
        Ok(ServiceApiCall {
            service,
            endpoint,
            method,
            headers,
            body: fields.get("body").map(ToOwned::to_owned),
        })
    }
}

/// Checks that the endpoint is a path below a host that every server reads the same way.
fn check_endpoint(endpoint: &str) -> Result<(), PayloadError> {
    if endpoint.len() > TEXT_BYTES_MAX {
        return Err(PayloadError::TooMany {
            field: "endpoint",
            found: endpoint.len(),
            unit: "bytes",
            most: TEXT_BYTES_MAX,
        });
    }
    let refused = |rule| Err(PayloadError::form("endpoint", rule));
    let (path, query) = match endpoint.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (endpoint, None),
    };
    let Some(below) = path.strip_prefix('/') else {
        return refused("must be a path that begins with `/`: the host is in rules/services.yaml");
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@%/".contains(c);
    if !path.chars().all(is_plain) {
        return refused(
            "must be a path of characters that RFC 3986 permits; percent-encode others",
        );
    }
    if query.is_some_and(|query| !query.chars().all(|c| is_plain(c) || "?[]".contains(c))) {
        return refused(
            "must have a query of characters that RFC 3986 permits; percent-encode others",
        );
    }
    let Some(encoded) = percent_encoded(endpoint) else {
        return refused("has a `%` that two hex digits do not follow");
    };
    if encoded.contains(&0) {
        return refused("must not hold an encoded NUL");
    }
    let of_path = percent_encoded(path).unwrap_or_default();
    if of_path
        .iter()
        .any(|byte| matches!(byte, b'/' | b'\\' | b'%' | 0..=0x1f | 0x7f))
    {
        return refused(
            "must not hold an encoded slash, backslash, `%` or control character in its path",
        );
    }
    if is_overlong(&of_path) {
        return refused("must not hold an ASCII character in a longer form of UTF-8 in its path");
    }
    let mut segments = below.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment.is_empty() && !is_last {
            return refused("must not hold `//` in its path");
        }
        // Some servers drop everything after `;` first, and a proxy in front of them may decode the
        // path.
        let plain = segment
            .to_ascii_lowercase()
            .replace("%2e", ".")
            .replace("%3b", ";");
        let name = plain.split(';').next().unwrap_or(&plain);
        if name == "." || name == ".." || (name.is_empty() && !segment.is_empty()) {
            return refused("must not hold `.` or `..` as a segment, encoded or not");
        }
    }
    Ok(())
}

/// Whether bytes contain a character in an overlong form of UTF-8: lax decoders take `%c0%ae` for a
/// dot.
fn is_overlong(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| {
        matches!(
            pair,
            [0xc0 | 0xc1, 0x80..=0xbf] | [0xe0, 0x80..=0x9f] | [0xf0, 0x80..=0x8f]
        )
    })
}

/// The percent-encoded bytes of a text. `None` if a `%` is not followed by two hex digits.
fn percent_encoded(text: &str) -> Option<Vec<u8>> {
    let encoded = text.split('%').skip(1);
    encoded
        .map(|rest| {
            let digits = rest
                .get(..2)
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
            u8::from_str_radix(digits, 16).ok()
        })
        .collect()
}

fn read_headers(value: &RawValue) -> Result<BTreeMap<String, String>, PayloadError> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get())
        .map_err(|_| PayloadError::form("headers", "must be an object of texts"))?;
    if members.len() > HEADERS_MAX {
        return Err(PayloadError::TooMany {
            field: "headers",
            found: members.len(),
            unit: "members",
            most: HEADERS_MAX,
        });
    }
    let mut folded = BTreeSet::new();
    let mut headers = BTreeMap::new();
    for (name, value) in members {
        check_header_name(&name)?;
        if !folded.insert(fold(&name)) {
            return Err(HeaderError::Twice(name).into());
        }
        let text = text_of(value).ok_or_else(|| HeaderError::NoText(name.clone()))?;
        if text.len() > TEXT_BYTES_MAX {
            let found = text.len();
            return Err(HeaderError::TooLong { name, found }.into());
        }
        let is_visible = text
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if !is_visible || text.trim_matches(' ') != text {
            return Err(HeaderError::NotVisible(name).into());
        }
        headers.insert(name, text);
    }
    Ok(headers)
}

fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

fn check_header_name(name: &str) -> Result<(), HeaderError> {
    let is_token = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if !(1..=HEADER_NAME_BYTES_MAX).contains(&name.len()) || !is_token {
        return Err(HeaderError::NoToken);
    }
    let folded = fold(name);
    if RESERVED.contains(&folded.as_str())
        || RESERVED_BEGINS
            .iter()
            .any(|begin| folded.starts_with(begin))
    {
        return Err(HeaderError::Reserved(name.to_owned()));
    }
    Ok(())
}

//! Sealed members of a payload: their values are cut out of its text and put back byte for byte
//! from disclosures in the form of RFC 9901 (SD-JWT). Pure: the caller provides the salts.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// Random bytes, fresh for every disclosure.
pub type Salt = [u8; 16];

/// Number of characters of a digest: SHA-256 in base64url without padding.
const DIGEST_CHARS: usize = 43;

/// A sealed member as named in its line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// JSON pointer of the member in the payload; a plain word for something sealed that is not in
    /// the payload.
    pub field: String,
    /// Digest of its disclosure.
    pub sd: String,
}

/// Prefix of the names of disclosures in `audit/blobs`.
pub const BLOB_PREFIX: &str = "sd-";

/// The name in `audit/blobs` of the disclosure with this digest.
pub fn blob_name(digest: &str) -> String {
    [BLOB_PREFIX, digest].concat()
}

/// The digest of the disclosure that has this name in `audit/blobs`, or `None` for the name of
/// another blob.
pub fn digest_of_blob(name: &str) -> Option<&str> {
    name.strip_prefix(BLOB_PREFIX)
}

/// The text that reveals a sealed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disclosure {
    /// SHA-256 of `text`, base64url without padding.
    pub digest: String,
    /// `["<salt>","<name>",<value>]`, base64url without padding.
    pub text: String,
}

/// Why a disclosure is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DisclosureError {
    /// The text does not have the expected digest.
    #[error("its bytes are not the bytes that the line commits to")]
    Digest,
    /// The text has the digest but is not a disclosure.
    #[error("it is not base64url of [salt, name, value]")]
    Form,
}

/// The content of a disclosure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Salt of the disclosure.
    pub salt: Salt,
    /// Name of the member.
    pub name: String,
    /// Value of the member, as its original text.
    pub value: String,
}

/// A payload without its sealed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The text, with `{"_sd":"<digest>"}` in place of each value.
    pub text: String,
    /// The members that were cut, in the order of the text.
    pub fields: Vec<Field>,
    /// Their disclosures, in the same order.
    pub disclosures: Vec<Disclosure>,
}

/// SHA-256, base64url without padding.
fn digest_of(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}

/// Whether a text can be a digest: 43 characters of base64url, so that it is safe as a file name.
pub fn is_digest(text: &str) -> bool {
    text.len() == DIGEST_CHARS
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

impl Disclosure {
    /// Makes the disclosure of a member. `value` is one JSON text.
    pub fn new(salt: Salt, name: &str, value: &str) -> Disclosure {
        let name = serde_json::Value::from(name);
        let text = format!("[\"{}\",{name},{value}]", URL_SAFE_NO_PAD.encode(salt));
        let text = URL_SAFE_NO_PAD.encode(text);
        Disclosure {
            digest: digest_of(&text),
            text,
        }
    }

    /// Reads a disclosure that should have this digest.
    ///
    /// # Errors
    /// Returns [`DisclosureError`] if it has another digest or cannot be read.
    pub fn open(text: &str, digest: &str) -> Result<Opened, DisclosureError> {
        if digest_of(text) != digest {
            return Err(DisclosureError::Digest);
        }
        let json = URL_SAFE_NO_PAD
            .decode(text)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let json = json.ok_or(DisclosureError::Form)?;
        let (salt, name, value): (Cow<'_, str>, String, &RawValue) =
            serde_json::from_str(&json).map_err(|_| DisclosureError::Form)?;
        let salt = URL_SAFE_NO_PAD
            .decode(salt.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok());
        Ok(Opened {
            salt: salt.ok_or(DisclosureError::Form)?,
            name,
            value: value.get().to_owned(),
        })
    }
}

/// Cuts the values that these pointers name out of a JSON text. A token `*` of a pointer matches
/// every member and every element; the empty pointer is the whole text. A pointer without a match
/// cuts nothing, and nothing is cut inside a value that is cut itself.
///
/// ```
/// use spoolgate_wire::sealed::{Disclosure, cut, put_back};
///
/// let payload = r#"{"to":"ann@example.org","subject":"Hello"}"#;
/// let sealed = cut(payload, &["/to"], &mut || Ok::<_, std::convert::Infallible>([7; 16]))?;
/// assert!(!sealed.text.contains("ann@") && sealed.text.contains("Hello"));
///
/// let (field, disclosure) = (&sealed.fields[0], &sealed.disclosures[0]);
/// let opened = Disclosure::open(&disclosure.text, &field.sd)?;
/// assert_eq!(opened.value, r#""ann@example.org""#);
/// let whole = put_back(&sealed.text, &[(field, Some(&opened.value))]);
/// assert_eq!(whole.as_deref(), Some(payload));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the error of `salt`.
pub fn cut<E>(
    text: &str,
    pointers: &[&str],
    salt: &mut dyn FnMut() -> Result<Salt, E>,
) -> Result<Cut, E> {
    let mut cut = Cut {
        text: String::new(),
        fields: Vec::new(),
        disclosures: Vec::new(),
    };
    let mut behind = 0;
    for Found {
        pointer,
        name,
        span,
    } in find(text, pointers, Star::Any)
    {
        let (Some(between), Some(value)) = (text.get(behind..span.start), text.get(span.clone()))
        else {
            continue;
        };
        let disclosure = Disclosure::new(salt()?, &name, value);
        cut.text.push_str(between);
        cut.text.push_str(&standing_for(&disclosure.digest));
        behind = span.end;
        cut.fields.push(Field {
            field: pointer,
            sd: disclosure.digest.clone(),
        });
        cut.disclosures.push(disclosure);
    }
    cut.text.push_str(text.get(behind..).unwrap_or_default());
    Ok(cut)
}

/// The text that stands for the value with this digest.
pub fn standing_for(digest: &str) -> String {
    format!("{{\"_sd\":\"{digest}\"}}")
}

/// Puts values back into the text that [`cut`] left, in the order of `fields`. A field without a
/// value stays cut. `None` if the text does not contain exactly these fields, each with its digest.
pub fn put_back(text: &str, fields: &[(&Field, Option<&str>)]) -> Option<String> {
    let pointers: Vec<&str> = fields
        .iter()
        .map(|(field, _)| field.field.as_str())
        .collect();
    let found = find(text, &pointers, Star::Name);
    if found.len() != fields.len() {
        return None;
    }
    let mut whole = String::with_capacity(text.len());
    let mut behind = 0;
    for (Found { pointer, span, .. }, (field, value)) in found.into_iter().zip(fields) {
        if pointer != field.field || text.get(span.clone())? != standing_for(&field.sd) {
            return None;
        }
        if let Some(value) = value {
            whole.push_str(text.get(behind..span.start)?);
            whole.push_str(value);
            behind = span.end;
        }
    }
    whole.push_str(text.get(behind..)?);
    Some(whole)
}

/// Returns the JSON text of the value that a pointer (RFC 6901) leads to. `None` if there is none,
/// or if the text is not JSON.
pub fn value_at<'a>(text: &'a str, pointer: &str) -> Option<&'a str> {
    let found = find(text, &[pointer], Star::Name).pop()?;
    text.get(found.span)
}

/// The meaning of a token `*` in a pointer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Star {
    /// Every member and element on its level.
    Any,
    /// A member with the name `*`.
    Name,
}

/// A value that a pointer leads to.
struct Found {
    pointer: String,
    name: String,
    span: Range<usize>,
}

/// Finds the values that these pointers lead to, in the order of the text.
fn find(text: &str, pointers: &[&str], star: Star) -> Vec<Found> {
    let mut found = Vec::new();
    let Ok(value) = serde_json::from_str::<&RawValue>(text) else {
        return found;
    };
    let mut paths: Vec<Vec<Cow<'_, str>>> = Vec::new();
    for pointer in pointers {
        // A text that does not begin with a slash is not a pointer into the payload.
        if pointer.is_empty() || pointer.starts_with('/') {
            paths.push(pointer.split('/').skip(1).map(unescaped).collect());
        }
    }
    let paths: Vec<&[Cow<'_, str>]> = paths.iter().map(Vec::as_slice).collect();
    descend(text, value, &paths, star, ("", ""), &mut found);
    found
}

fn descend(
    text: &str,
    value: &RawValue,
    paths: &[&[Cow<'_, str>]],
    star: Star,
    (pointer, name): (&str, &str),
    found: &mut Vec<Found>,
) {
    if paths.is_empty() {
        return;
    }
    if paths.iter().any(|path| path.is_empty()) {
        // The value is a slice of the text, because reading borrows.
        let start = (value.get().as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        let span = start..start.wrapping_add(value.get().len());
        found.push(Found {
            pointer: pointer.to_owned(),
            name: name.to_owned(),
            span,
        });
        return;
    }
    let Ok(Parts(parts)) = serde_json::from_str(value.get()) else {
        return;
    };
    for (name, part) in &parts {
        let below: Vec<&[Cow<'_, str>]> = paths
            .iter()
            .filter_map(|path| path.split_first())
            .filter(|(first, _)| *first == name || (star == Star::Any && *first == "*"))
            .map(|(_, below)| below)
            .collect();
        if !below.is_empty() {
            descend(
                text,
                part,
                &below,
                star,
                (&format!("{pointer}/{}", escaped(name)), name),
                found,
            );
        }
    }
}

fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('~') {
        token.replace("~1", "/").replace("~0", "~").into()
    } else {
        token.into()
    }
}

fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        name.replace('~', "~0").replace('/', "~1").into()
    } else {
        name.into()
    }
}

/// Members of an object by name, or elements of an array by number. Any other value is an error.
struct Parts<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Parts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parts<'de>, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Parts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or an array")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = map.next_entry()? {
                    parts.push(part);
                }
                Ok(Parts(parts))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Parts<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(value) = seq.next_element()? {
                    parts.push((parts.len().to_string(), value));
                }
                Ok(Parts(parts))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn cut_at(text: &str, pointers: &[&str]) -> Cut {
        let mut salts = 0_u8;
        let mut salt = || {
            salts = salts.wrapping_add(1);
            Ok::<_, Infallible>([salts; 16])
        };
        cut(text, pointers, &mut salt).unwrap()
    }

    /// Puts back exactly what the disclosures contain.
    fn whole(cut: &Cut) -> String {
        let values: Vec<Opened> = cut
            .fields
            .iter()
            .zip(&cut.disclosures)
            .map(|(field, disclosure)| Disclosure::open(&disclosure.text, &field.sd).unwrap())
            .collect();
        let values: Vec<(&Field, Option<&str>)> = cut
            .fields
            .iter()
            .zip(&values)
            .map(|(field, opened)| (field, Some(opened.value.as_str())))
            .collect();
        put_back(&cut.text, &values).unwrap()
    }

    fn pointers_of(text: &str, pointers: &[&str]) -> Vec<String> {
        let cut = cut_at(text, pointers);
        assert_eq!(whole(&cut), text);
        cut.fields.into_iter().map(|field| field.field).collect()
    }

    /// The digest and disclosure of RFC 9901, section 4.2.3.
    #[test]
    fn digests_are_those_of_the_rfc() {
        let text = "WyI2cU1RdlJMNWhhaiIsICJmYW1pbHlfbmFtZSIsICJNw7ZiaXVzIl0";
        assert_eq!(
            digest_of(text),
            "uutlBuYeMDyjLLTpf6Jxi7yNkEF35jdyWMn9U7b_RYY"
        );
        let text = "WyJfMjZiYzRMVC1hYzZxMktJNmNCVzVlcyIsICJmYW1pbHlfbmFtZSIsICJNw7ZiaXVzIl0";
        assert_eq!(
            digest_of(text),
            "X9yH0Ajrdm1Oij4tWso9UzzKJvPoDxwmuEcO3XAdRC0"
        );
        // Its salt does not have our length.
        assert_eq!(
            Disclosure::open(text, &digest_of(text)),
            Err(DisclosureError::Form)
        );
        assert_eq!(
            Disclosure::open(text, &digest_of("x")),
            Err(DisclosureError::Digest)
        );
        let ours = Disclosure::new([7; 16], "family_name", "\"Möbius\"");
        let opened = Disclosure::open(&ours.text, &ours.digest).unwrap();
        assert_eq!(
            (opened.name.as_str(), opened.value.as_str()),
            ("family_name", "\"Möbius\"")
        );
    }

    #[test]
    fn pointers_lead_to_members_elements_and_the_whole() {
        let text = r#" { "a" : { "x" : [ 1 , 2 ] , "y~/*" : null } , "b" : [ { "t" : "é\u00e9" } , 7 , { "t" : {} } ] } "#;
        for (pointers, expect) in [
            (&["/a/*"][..], &["/a/x", "/a/y~0~1*"][..]),
            (&["/a/x/1"], &["/a/x/1"]),
            (&["/a/x/2", "/b/t", "/c", "/a/x/0/0"], &[]),
            (&["/b/*/t"], &["/b/0/t", "/b/2/t"]),
            (&["/b/*/t", "/a", "/a/x"], &["/a", "/b/0/t", "/b/2/t"]),
            (&["/a/y~0~1*"], &["/a/y~0~1*"]),
            (&[""], &[""]),
            (&["digests"], &[]),
        ] {
            assert_eq!(pointers_of(text, pointers), expect, "{pointers:?}");
        }
    }

    #[test]
    fn text_that_looks_like_a_cut_value_is_ordinary_text() {
        let digest = "A".repeat(DIGEST_CHARS);
        let text =
            format!(r#"{{"s":{{"_sd":"{digest}"}},"t":{{"_sd":"{digest}"}},"*":{{"_sd":1}}}}"#);
        assert_eq!(pointers_of(&text, &["/s"]), ["/s"]);
        assert_eq!(pointers_of(&text, &["/*"]), ["/s", "/t", "/*"]);
        // With another digest, another place or an additional field it is not the text that was
        // cut.
        let cut = cut_at(&text, &["/s"]);
        let wrong = Field {
            sd: digest,
            ..cut.fields[0].clone()
        };
        assert_eq!(put_back(&cut.text, &[(&wrong, Some("1"))]), None);
        let other = Field {
            field: "/t".to_owned(),
            ..cut.fields[0].clone()
        };
        assert_eq!(put_back(&cut.text, &[(&other, Some("1"))]), None);
        assert_eq!(
            put_back(&cut.text, &[(&cut.fields[0], Some("1")), (&other, None)]),
            None
        );
    }

    #[test]
    fn a_member_that_stays_cut_shows_its_hash() {
        let cut = cut_at(r#"{"a":1,"b":2}"#, &["/a", "/b"]);
        let left = put_back(
            &cut.text,
            &[(&cut.fields[0], None), (&cut.fields[1], Some("2"))],
        )
        .unwrap();
        assert_eq!(
            left,
            format!(r#"{{"a":{{"_sd":"{}"}},"b":2}}"#, cut.fields[0].sd)
        );
        assert!(
            is_digest(&cut.fields[0].sd)
                && !is_digest("../x")
                && !is_digest(&"/".repeat(DIGEST_CHARS))
        );
    }

    /// JSON texts with white space, escapes, equal names, and members that look like cut ones.
    fn json() -> impl Strategy<Value = String> {
        let space = || prop::sample::select(vec!["", " ", "\n\t", "  "]);
        let name =
            || prop::sample::select(vec!["a", "b", "*", "_sd", "\\u0061", "x~y/z", "0", "é", ""]);
        let leaf = prop::sample::select(vec![
            "null",
            "1.50e+3",
            "\"\"",
            "\"a\\u00e9\\n\"",
            "{\"_sd\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}",
            "true",
            "[]",
        ])
        .prop_map(str::to_owned);
        leaf.prop_recursive(4, 40, 5, move |inner| {
            let member = (space(), name(), space(), inner.clone(), space())
                .prop_map(|(a, name, b, value, c)| format!("{a}\"{name}\"{b}:{a}{value}{c}"));
            let element =
                (space(), inner, space()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
            prop_oneof![
                prop::collection::vec(member, 0..5)
                    .prop_map(|all| format!("{{{}}}", all.join(","))),
                prop::collection::vec(element, 0..5).prop_map(|all| format!("[{}]", all.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn cut_and_put_back_is_the_identity(
            text in json(),
            pointers in prop::collection::vec(
                prop::sample::select(vec!["", "/a", "/*", "/a/*", "/*/b", "/*/*/*", "/_sd",
                    "/x~0y~1z", "/0", "/", "/*/_sd"]),
                0..4,
            ),
        ) {
            let cut = cut_at(&text, &pointers);
            prop_assert_eq!(whole(&cut), text.clone());
            let cut_values = cut.disclosures.iter()
                .all(|disclosure| !text.contains(&disclosure.digest));
            prop_assert!(cut_values);
            if !cut.fields.is_empty() {
                prop_assert_ne!(cut.text, text);
            }
        }

        #[test]
        fn disclosures_keep_name_and_value(name in ".*", salt in any::<Salt>(), text in json()) {
            let disclosure = Disclosure::new(salt, &name, &text);
            let opened = Disclosure::open(&disclosure.text, &disclosure.digest).unwrap();
            prop_assert_eq!(opened, Opened { salt, name, value: text });
        }
    }
}

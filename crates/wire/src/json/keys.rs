//! Finds duplicate keys of an object, compared after unescaping.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use super::hex_digit;

/// The keys of a large object: the offset and a part of the hash of each, eight bytes per key. A
/// set of the keys themselves took ten times the size of the document.
#[derive(Default)]
pub(super) struct KeySet {
    /// The slots; their number is zero or a power of two.
    slots: Vec<Slot>,
    used: usize,
    /// Random for every object, so that nobody can construct keys that collide.
    state: RandomState,
}

/// A slot for a key.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Offset of the key's first byte; 0 if the slot is free. A key follows a quote, so its offset
    /// is never 0. Callers limit documents to less than 4 GiB.
    start: u32,
    hash: u32,
}

impl KeySet {
    /// Inserts the key that starts at `start`. Returns false if the object already has it.
    #[inline]
    pub(super) fn insert(&mut self, bytes: &[u8], start: usize, key: &[u8]) -> bool {
        if (self.used + 1) * 8 > self.slots.len() * 7 {
            self.grow();
        }
        let hash = (self.state.hash_one(key) >> 32) as u32;
        let is_same = |slot: Slot| slot.hash == hash && *unescaped_at(bytes, slot.start) == *key;
        let Some(slot) = self.slot(hash, is_same) else {
            return false;
        };
        *slot = Slot {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            hash,
        };
        self.used += 1;
        true
    }

    /// Returns the free slot for a key with this hash. `None` if a slot before it satisfies
    /// `is_same`.
    fn slot(&mut self, hash: u32, is_same: impl Fn(Slot) -> bool) -> Option<&mut Slot> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        while let Some(slot) = self.slots.get(at).filter(|slot| slot.start != 0) {
            if is_same(*slot) {
                return None;
            }
            at = (at + 1) & mask;
        }
        self.slots.get_mut(at)
    }

    fn grow(&mut self) {
        let larger = (self.slots.len() * 2).max(64);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); larger]);
        for slot in old.into_iter().filter(|slot| slot.start != 0) {
            if let Some(free) = self.slot(slot.hash, |_| false) {
                *free = slot;
            }
        }
    }
}

/// Returns the key whose first byte is at `start`, unescaped.
fn unescaped_at(bytes: &[u8], start: u32) -> Cow<'_, [u8]> {
    let rest = bytes.get(start as usize..).unwrap_or_default();
    let mut end = 0;
    let mut has_escapes = false;
    while let Some(byte) = rest.get(end).filter(|byte| **byte != b'"') {
        has_escapes |= *byte == b'\\';
        end += if *byte == b'\\' { 2 } else { 1 };
    }
    let raw = rest.get(..end).unwrap_or(rest);
    if has_escapes {
        Cow::Owned(unescape(raw))
    } else {
        Cow::Borrowed(raw)
    }
}

/// Maps a key to one of 64 bits; equal keys have the same bit. If the bit is not set yet, the key
/// is new.
#[inline]
pub(super) fn mark(key: &[u8]) -> u64 {
    let end =
        |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
    let (first, last) = (end(key.first_chunk()), end(key.last_chunk()));
    // The odd constant is 2^64 over the golden ratio; the upper bits of a product depend on all
    // lower ones.
    let mixed = (first << 32 | last)
        .wrapping_add(key.len() as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1 << (mixed >> 58)
}

/// Unescapes the bytes of a string that the reader accepted. Used only for keys with
/// escapes.
pub(super) fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied();
    let mut high_surrogate = 0;
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'u') => {
                let unit = bytes
                    .by_ref()
                    .take(4)
                    .filter_map(hex_digit)
                    .fold(0, |unit, digit| unit * 16 + digit);
                if (0xd800..=0xdbff).contains(&unit) {
                    high_surrogate = unit;
                    continue;
                }
                let is_low = (0xdc00..=0xdfff).contains(&unit);
                let code = if is_low {
                    0x10000 + ((high_surrogate & 0x3ff) << 10) + (unit & 0x3ff)
                } else {
                    unit
                };
                // INVARIANT: surrogates were checked to come in pairs, so every code is a
                // character.
                let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Some(b'b') => out.push(0x08),
            Some(b'f') => out.push(0x0c),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(itself) => out.push(itself),
            None => {}
        }
    }
    out
}

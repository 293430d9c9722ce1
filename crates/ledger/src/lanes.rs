//! Leaf and node hashes of RFC 6962, two at a time. One SHA-256 is a chain of instructions that
//! wait for each other; a processor with SHA instructions can run a second chain in the gaps. On a
//! processor without them, this costs nothing. Pure; [`super::tree`] defines what is hashed and is
//! the oracle of the tests.

use sha2::block_api::compress256;

use super::tree::Hash;

/// A block of SHA-256.
type Block = [u8; 64];

/// State of SHA-256 between two blocks.
type State = [u32; 8];

/// State before the first block (FIPS 180-4, section 5.3.3).
const INITIAL: State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Number of blocks of one message before the other gets its turn, few enough for the processor to
/// overlap both chains.
const TURN_BLOCKS: usize = 2;

fn hash_of(state: &State) -> Hash {
    let mut bytes = [0; 32];
    for (word, place) in state.iter().zip(bytes.as_chunks_mut::<4>().0) {
        *place = word.to_be_bytes();
    }
    Hash::from_bytes(bytes)
}

/// A message on its way through SHA-256.
struct Lane<'a> {
    /// Index of the message.
    index: usize,
    state: State,
    /// Whole blocks of the message that are still to come.
    body: &'a [Block],
    /// The rest of the message after them, padded.
    tail: [u8; 128],
    tail_blocks: usize,
}

impl<'a> Lane<'a> {
    fn new(index: usize, message: &'a [u8]) -> Lane<'a> {
        let (body, rest) = message.as_chunks::<64>();
        let mut tail = [0; 128];
        if let Some((place, behind)) = tail.split_at_mut_checked(rest.len()) {
            place.copy_from_slice(rest);
            behind.iter_mut().take(1).for_each(|byte| *byte = 0x80);
        }
        let tail_blocks = if rest.len() < 56 { 1 } else { 2 };
        let bits = (message.len() as u64).wrapping_mul(8).to_be_bytes();
        if let Some(place) = tail.as_chunks_mut::<8>().0.get_mut(tail_blocks * 8 - 1) {
            *place = bits;
        }
        Lane {
            index,
            state: INITIAL,
            body,
            tail,
            tail_blocks,
        }
    }

    /// Number of blocks that are available at once; 0 when the message is done.
    fn ready(&self) -> usize {
        if self.body.is_empty() {
            self.tail_blocks
        } else {
            self.body.len()
        }
    }

    /// Hashes up to `count` of the available blocks.
    fn turn(&mut self, count: usize) {
        if self.body.is_empty() {
            let (blocks, _) = self.tail.as_chunks::<64>();
            if let Some(blocks) = blocks.get(..self.tail_blocks) {
                compress256(&mut self.state, blocks);
            }
            self.tail_blocks = 0;
        } else if let Some((now, later)) = self.body.split_at_checked(count) {
            compress256(&mut self.state, now);
            self.body = later;
        }
    }

    fn finish(mut self) -> (usize, Hash) {
        while self.ready() > 0 {
            self.turn(self.ready());
        }
        (self.index, hash_of(&self.state))
    }
}

/// Writes the SHA-256 of each message to `hashes`, in order. A leaf's message is a zero byte and
/// the line.
pub(crate) fn hash_all<'a>(messages: impl Iterator<Item = &'a [u8]>, hashes: &mut Vec<Hash>) {
    hashes.clear();
    let mut waiting = messages
        .enumerate()
        .map(|(index, message)| Lane::new(index, message));
    let mut put = |(index, hash): (usize, Hash)| {
        if hashes.len() <= index {
            hashes.resize(index + 1, Hash::ZERO);
        }
        if let Some(place) = hashes.get_mut(index) {
            *place = hash;
        }
    };
    let (mut left, mut right) = (waiting.next(), waiting.next());
    while let (Some(a), Some(b)) = (&mut left, &mut right) {
        let mut both = a.ready().min(b.ready());
        while both > 0 {
            let count = both.min(TURN_BLOCKS);
            a.turn(count);
            b.turn(count);
            both -= count;
        }
        if a.ready() == 0 {
            left.take().map(Lane::finish).map(&mut put);
            left = waiting.next();
        }
        if b.ready() == 0 {
            right.take().map(Lane::finish).map(&mut put);
            right = waiting.next();
        }
    }
    left.into_iter()
        .chain(right)
        .map(Lane::finish)
        .for_each(put);
}

/// The input of SHA-256 for an inner node: a byte, two hashes, and the padding to two blocks.
fn node_blocks(left: &Hash, right: &Hash) -> [u8; 128] {
    let mut bytes = [0; 128];
    bytes[0] = 0x01;
    bytes[1..33].copy_from_slice(left.as_bytes());
    bytes[33..65].copy_from_slice(right.as_bytes());
    bytes[65] = 0x80;
    bytes[120..128].copy_from_slice(&(65_u64 * 8).to_be_bytes());
    bytes
}

/// Replaces the hashes of one level by those of the next, a node for each pair. A hash without a
/// sibling is dropped.
pub(crate) fn to_parents(level: &mut Vec<Hash>) {
    let parents = level.len() / 2;
    for at in (0..parents).step_by(2) {
        let blocks = |at: usize| match level.get(at * 2..at * 2 + 2) {
            Some([left, right]) => Some(node_blocks(left, right)),
            _ => None,
        };
        let mut states = [INITIAL; 2];
        // With an odd number of parents the second one may be missing.
        let pair = [blocks(at), blocks(at + 1)];
        for (state, blocks) in states.iter_mut().zip(pair.iter().flatten()) {
            compress256(state, blocks.as_chunks::<64>().0);
        }
        for (place, state) in level.iter_mut().skip(at).zip(&states).take(parents - at) {
            *place = hash_of(state);
        }
    }
    level.truncate(parents);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tree::{leaf_hash, node_hash, root_of};
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn two_at_a_time_are_the_hashes_of_one_at_a_time(
            lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400),
                0..12),
        ) {
            let messages: Vec<Vec<u8>> = lines.iter()
                .map(|line| [&[0], line.as_slice()].concat()).collect();
            let mut hashes = vec![Hash::ZERO; 3];
            hash_all(messages.iter().map(Vec::as_slice), &mut hashes);
            prop_assert_eq!(hashes, lines.iter().map(|line| leaf_hash(line)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_length_around_the_padding() {
        let messages: Vec<Vec<u8>> = (1..300).map(|length| vec![0; length]).collect();
        for first in [0, 1] {
            let mut hashes = Vec::new();
            hash_all(messages.iter().skip(first).map(Vec::as_slice), &mut hashes);
            let expected = messages
                .iter()
                .skip(first)
                .map(|message| leaf_hash(&message[1..]));
            assert!(hashes.iter().copied().eq(expected));
        }
    }

    #[test]
    fn parents_are_nodes_and_end_in_the_root() {
        for count in 0..40_u8 {
            let mut level: Vec<Hash> = (0..count).map(|n| leaf_hash(&[n])).collect();
            let leaves = level.clone();
            let expected: Vec<Hash> = level
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[left, right]| node_hash(left, right))
                .collect();
            to_parents(&mut level);
            assert_eq!(level, expected, "{count}");
            if count.is_power_of_two() {
                while level.len() > 1 {
                    to_parents(&mut level);
                }
                assert!(count == 1 || level == [root_of(&leaves)], "{count}");
            }
        }
    }
}

//! The Merkle tree over ledger lines: leaf hashes, roots and proofs of RFC 6962 and RFC 9162. Pure.
//!
//! The tree is never stored. A [`Frontier`] of at most 63 hashes is enough to append and to compute
//! the root. A proof is computed from the leaf hashes, which can always be computed from the
//! ledger.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// First byte of the input of a leaf hash, so that no node can be passed off as a leaf (RFC 6962,
/// 2.1).
const LEAF_PREFIX: [u8; 1] = [0x00];

/// First byte of the input of a node hash (RFC 6962, 2.1).
const NODE_PREFIX: [u8; 1] = [0x01];

/// Largest tree that [`Frontier::from_parts`] accepts: 2^63 - 1 leaves.
///
/// It is the maximum of SQLite's signed integers, and it keeps `size + 1` from ever wrapping
/// around.
pub const TREE_SIZE_MAX: u64 = i64::MAX as u64;

/// A SHA-256 digest: of a ledger line (a leaf), of two subtrees (a node), or of the whole tree (a
/// root).
///
/// The text form is 64 lower-case hex digits; a precision shortens it, as in `{hash:.8}`. Digests
/// are public, so equality is not constant-time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// 32 zero bytes: the `prev` of line 0, which has no line before it. No known input has this
    /// hash.
    pub const ZERO: Hash = Hash([0; 32]);

    /// Wraps a digest that was computed or stored elsewhere.
    pub const fn from_bytes(bytes: [u8; 32]) -> Hash {
        Hash(bytes)
    }

    /// The 32 bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads exactly 64 lower-case hex digits; `None` for anything else.
    ///
    /// Upper case is refused so that a hash has one text form and ledger lines can be compared as
    /// bytes.
    pub fn from_hex(text: &str) -> Option<Hash> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = hex_value(*high)? << 4 | hex_value(*low)?;
        }
        Some(Hash(bytes))
    }

    /// The hex form as bytes, to compare it with the bytes of a ledger line.
    pub fn hex_bytes(&self) -> [u8; 64] {
        let mut text = [0; 64];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [hex_digit(byte >> 4), hex_digit(byte & 0x0f)];
        }
        text
    }

    /// Standard padded base64 (RFC 4648, section 4) of the 32 bytes, the form of C2SP checkpoints
    /// and proofs.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// Reads the canonical base64 of exactly 32 bytes; `None` for anything else, missing padding
    /// and non-zero trailing bits included.
    pub fn from_base64(text: &str) -> Option<Hash> {
        STANDARD.decode(text).ok()?.try_into().ok().map(Hash)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One buffer instead of 32 calls of `write!`: every ledger line prints a hash.
        f.pad(std::str::from_utf8(&self.hex_bytes()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The lower-case hex digit of a value below 16.
const fn hex_digit(value: u8) -> u8 {
    if value < 10 {
        b'0' + value
    } else {
        b'a' + (value - 10)
    }
}

/// The value of a lower-case hex digit.
const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// `SHA-256(0x00 || line)`, the leaf hash of RFC 6962, section 2.1. `line` is a ledger line without
/// its LF.
pub fn leaf_hash(line: &[u8]) -> Hash {
    Hash(
        Sha256::new()
            .chain_update(LEAF_PREFIX)
            .chain_update(line)
            .finalize()
            .into(),
    )
}

/// `SHA-256(0x01 || left || right)`, the hash of an inner node of RFC 6962, section 2.1.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Hash(
        Sha256::new()
            .chain_update(NODE_PREFIX)
            .chain_update(left.0)
            .chain_update(right.0)
            .finalize()
            .into(),
    )
}

/// The root of the empty tree: SHA-256 of the empty string (RFC 6962, section 2.1).
pub fn empty_root() -> Hash {
    Hash(Sha256::digest([]).into())
}

/// The right edge of a tree: the roots of its perfect subtrees, largest and leftmost first.
///
/// A tree of `size` leaves splits into one perfect subtree for each 1 bit of `size`. Their roots
/// are all that is needed to append a leaf and to compute the root, so a writer holds at most 63
/// hashes however long the ledger is.
///
/// ```
/// use spoolgate_ledger::tree::{Frontier, leaf_hash, node_hash};
///
/// let [one, two, three] = ["one", "two", "three"].map(|line| leaf_hash(line.as_bytes()));
/// let mut tree = Frontier::new();
/// tree.extend([one, two, three]);
/// assert_eq!(tree.root(), node_hash(&node_hash(&one, &two), &three));
/// // A writer keeps only this between two runs.
/// assert_eq!(Frontier::from_parts(tree.size(), tree.edge().to_vec()), Some(tree));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    // INVARIANT: one hash for each 1 bit of `size`, so `edge.len() == size.count_ones()`.
    edge: Vec<Hash>,
}

impl Frontier {
    /// The empty tree.
    pub const fn new() -> Frontier {
        Frontier {
            size: 0,
            edge: Vec::new(),
        }
    }

    /// Number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The stored hashes, largest subtree first; its length is the number of 1 bits of the size.
    pub fn edge(&self) -> &[Hash] {
        &self.edge
    }

    /// Appends a leaf hash: at most 63 node hashes, one on average.
    pub fn push(&mut self, leaf: Hash) {
        let mut node = leaf;
        // Like adding 1 to a binary number: each trailing 1 bit is a subtree of the same size as
        // `node`, to merge.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.edge.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.edge.push(node);
        self.size += 1;
        debug_assert_eq!(self.edge.len() as u32, self.size.count_ones());
    }

    /// Appends a perfect subtree of `2^level` leaves by its root. Returns false and changes nothing
    /// if a subtree of that level does not fit after the current leaves.
    pub fn push_subtree(&mut self, level: u32, root: Hash) -> bool {
        let Some(leaves) = 1_u64
            .checked_shl(level)
            .filter(|leaves| self.size.is_multiple_of(*leaves))
        else {
            return false;
        };
        let Some(size) = self
            .size
            .checked_add(leaves)
            .filter(|size| *size <= TREE_SIZE_MAX)
        else {
            return false;
        };
        let mut node = root;
        for _ in 0..(self.size >> level).trailing_ones() {
            if let Some(left) = self.edge.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.edge.push(node);
        self.size = size;
        true
    }

    /// The root of the tree (RFC 6962, section 2.1); SHA-256 of the empty string for the empty
    /// tree.
    pub fn root(&self) -> Hash {
        let join = |right, left| node_hash(&left, &right);
        self.edge
            .iter()
            .rev()
            .copied()
            .reduce(join)
            .unwrap_or_else(empty_root)
    }

    /// The edge as hex strings, largest subtree first, for storage beside [`Frontier::size`].
    pub fn to_hex_list(&self) -> Vec<String> {
        self.edge.iter().map(Hash::to_string).collect()
    }

    /// Rebuilds a stored frontier.
    ///
    /// `None` unless `edge` has one hash for each 1 bit of `size` and `size` is at most
    /// [`TREE_SIZE_MAX`]. The hashes themselves cannot be checked here: compare [`Frontier::root`]
    /// with a trusted root.
    pub fn from_parts(size: u64, edge: Vec<Hash>) -> Option<Frontier> {
        let whole = size <= TREE_SIZE_MAX && usize::try_from(size.count_ones()) == Ok(edge.len());
        whole.then_some(Frontier { size, edge })
    }
}

impl Extend<Hash> for Frontier {
    fn extend<I: IntoIterator<Item = Hash>>(&mut self, leaves: I) {
        leaves.into_iter().for_each(|leaf| self.push(leaf));
    }
}

impl FromIterator<Hash> for Frontier {
    fn from_iter<I: IntoIterator<Item = Hash>>(leaves: I) -> Frontier {
        let mut frontier = Frontier::new();
        frontier.extend(leaves);
        frontier
    }
}

/// Splits a tree of two or more leaves at the largest power of two below its size (`k` of RFC 6962,
/// section 2.1).
fn split(leaves: &[Hash]) -> Option<(&[Hash], &[Hash])> {
    leaves.split_at_checked(leaves.len().next_power_of_two() / 2)
}

/// The root of a run of leaves, computed in one pass.
fn subtree_root(leaves: &[Hash]) -> Hash {
    leaves.iter().copied().collect::<Frontier>().root()
}

/// The inclusion proof of leaf `index` in the tree of all `leaves`: the sibling hashes from the
/// leaf up to the root (`PATH` of RFC 6962, section 2.1.1). Hashes every leaf once.
///
/// `None` if there is no such leaf. The proof of the only leaf of a tree is empty.
pub fn inclusion_proof(leaves: &[Hash], index: u64) -> Option<Vec<Hash>> {
    let mut index = usize::try_from(index)
        .ok()
        .filter(|index| *index < leaves.len())?;
    let mut subtree = leaves;
    let mut siblings = Vec::new();
    // From the root down, as in the recursive definition; the proof itself runs the other way.
    while subtree.len() > 1 {
        let (left, right) = split(subtree)?;
        if index < left.len() {
            siblings.push(subtree_root(right));
            subtree = left;
        } else {
            siblings.push(subtree_root(left));
            index -= left.len();
            subtree = right;
        }
    }
    siblings.reverse();
    Some(siblings)
}

/// Whether `proof` shows that `leaf` is leaf number `index` of the tree of `size` leaves with this
/// `root` (algorithm of RFC 9162, section 2.1.3.2). A proof that is too short or too long fails.
///
/// ```
/// use spoolgate_ledger::tree::{Frontier, inclusion_proof, leaf_hash, verify_inclusion};
///
/// let leaves = ["one", "two", "three"].map(|line| leaf_hash(line.as_bytes()));
/// let root = Frontier::from_iter(leaves).root();
/// let proof = inclusion_proof(&leaves, 1).ok_or("there is no such leaf")?;
/// assert!(verify_inclusion(&leaf_hash(b"two"), 1, 3, &proof, &root));
/// assert!(!verify_inclusion(&leaf_hash(b"2"), 1, 3, &proof, &root));
/// # Ok::<(), &str>(())
/// ```
pub fn verify_inclusion(leaf: &Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let mut node_index = index;
    let mut last_index = size - 1;
    let mut node = *leaf;
    for sibling in proof {
        if last_index == 0 {
            return false;
        }
        if node_index & 1 == 1 || node_index == last_index {
            node = node_hash(sibling, &node);
            // The last node of a level without a sibling moves up unchanged until it gets one.
            let skip = if node_index == 0 {
                0
            } else {
                node_index.trailing_zeros()
            };
            node_index >>= skip;
            last_index >>= skip;
        } else {
            node = node_hash(&node, sibling);
        }
        node_index >>= 1;
        last_index >>= 1;
    }
    last_index == 0 && node == *root
}

/// The consistency proof from the tree of the first `size1` leaves to the tree of all `leaves`
/// (`PROOF` of RFC 6962, section 2.1.2). Hashes every leaf once.
///
/// `None` if `size1` is zero, because every tree extends the empty one and nothing needs a proof,
/// or if it is larger than the tree. The proof between equal sizes is empty.
pub fn consistency_proof(leaves: &[Hash], size1: u64) -> Option<Vec<Hash>> {
    let mut size1 = usize::try_from(size1)
        .ok()
        .filter(|size1| (1..=leaves.len()).contains(size1))?;
    let mut subtree = leaves;
    let mut hashes = Vec::new();
    // The verifier has the root of the first `size1` leaves, so the proof omits that hash if it is
    // a complete subtree.
    let mut verifier_knows_subtree = true;
    while size1 < subtree.len() {
        let (left, right) = split(subtree)?;
        if size1 <= left.len() {
            hashes.push(subtree_root(right));
            subtree = left;
        } else {
            hashes.push(subtree_root(left));
            size1 -= left.len();
            subtree = right;
            verifier_knows_subtree = false;
        }
    }
    if !verifier_knows_subtree {
        hashes.push(subtree_root(subtree));
    }
    hashes.reverse();
    Some(hashes)
}

/// Whether `proof` shows that the tree of `size1` leaves with `root1` is a prefix of the tree of
/// `size2` leaves with `root2` (algorithm of RFC 9162, section 2.1.4.2). A proof that is too short
/// or too long fails.
///
/// Always false if `size1` is zero: such a check would prove nothing, so asking for it is a mistake
/// of the caller (transparency-dev/merkle decides the same). Between equal sizes the roots must be
/// equal and the proof empty.
pub fn verify_consistency(
    size1: u64,
    size2: u64,
    root1: &Hash,
    root2: &Hash,
    proof: &[Hash],
) -> bool {
    if size1 == 0 || size1 > size2 {
        return false;
    }
    if size1 == size2 {
        return root1 == root2 && proof.is_empty();
    }
    // If the first tree is one perfect subtree, the proof starts with its root and does not repeat
    // it.
    let (seed, proof) = match proof.split_first() {
        None => return false,
        Some(_) if size1.is_power_of_two() => (root1, proof),
        Some((seed, rest)) => (seed, rest),
    };
    let skip = (size1 - 1).trailing_ones();
    let mut node_index = (size1 - 1) >> skip;
    let mut last_index = (size2 - 1) >> skip;
    let (mut node1, mut node2) = (*seed, *seed);
    for sibling in proof {
        if last_index == 0 {
            return false;
        }
        if node_index & 1 == 1 || node_index == last_index {
            node1 = node_hash(sibling, &node1);
            node2 = node_hash(sibling, &node2);
            let skip = if node_index == 0 {
                0
            } else {
                node_index.trailing_zeros()
            };
            node_index >>= skip;
            last_index >>= skip;
        } else {
            node2 = node_hash(&node2, sibling);
        }
        node_index >>= 1;
        last_index >>= 1;
    }
    last_index == 0 && node1 == *root1 && node2 == *root2
}

/// The root of `leaves` by the recursive definition of RFC 6962, section 2.1, word for word.
///
/// The oracle of the tests. It shares only the two hash functions with the code above.
#[cfg(test)]
pub(crate) fn root_of(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let mut k = 1;
            while k * 2 < leaves.len() {
                k *= 2;
            }
            node_hash(&root_of(&leaves[..k]), &root_of(&leaves[k..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    const EMPTY_ROOT: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// Returns `count` different leaves.
    fn leaves(count: u64) -> Vec<Hash> {
        (0..count).map(|i| leaf_hash(&i.to_be_bytes())).collect()
    }

    fn flip(hash: &mut Hash, bit: usize) {
        hash.0[bit / 8 % 32] ^= 1 << (bit % 8);
    }

    #[test]
    fn empty_tree_and_empty_leaf_have_the_published_hashes() {
        assert_eq!(Frontier::new().root().to_string(), EMPTY_ROOT);
        let empty_leaf = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
        assert_eq!(leaf_hash(b"").to_string(), empty_leaf);
    }

    #[test]
    fn hex_and_base64_have_one_form_each() {
        let hash = leaf_hash(b"line");
        assert_eq!(Hash::from_hex(&hash.to_string()), Some(hash));
        assert_eq!(Hash::from_base64(&hash.to_base64()), Some(hash));
        assert_eq!(format!("{hash:?}"), hash.to_string());
        assert_eq!(format!("{hash:.8}"), hash.to_string()[..8]);
        assert_eq!(Hash::ZERO.to_string(), "0".repeat(64));

        let bad_hex = [
            EMPTY_ROOT.to_uppercase(),
            EMPTY_ROOT[1..].into(),
            format!("{EMPTY_ROOT}0"),
        ];
        for text in
            bad_hex
                .into_iter()
                .chain(["".into(), "g".repeat(64), "é".repeat(32), "+".repeat(64)])
        {
            assert_eq!(Hash::from_hex(&text), None, "{text}");
        }
        let base64 = empty_root().to_base64();
        let bad_base64 = [
            base64.replace("FU=", "FV="),
            base64.replace('=', ""),
            format!("{base64}\n"),
            "AAAA".into(),
        ];
        for text in bad_base64 {
            assert_eq!(Hash::from_base64(&text), None, "{text}");
        }
    }

    #[test]
    fn frontier_root_is_the_naive_root_for_every_size_up_to_300() {
        let leaves = leaves(300);
        let mut frontier = Frontier::new();
        for size in 0..=leaves.len() {
            assert_eq!(frontier.size(), size as u64);
            assert_eq!(frontier.root(), root_of(&leaves[..size]), "size {size}");
            let edge = frontier
                .to_hex_list()
                .iter()
                .map(|hex| Hash::from_hex(hex).unwrap())
                .collect();
            assert_eq!(
                Frontier::from_parts(size as u64, edge),
                Some(frontier.clone()),
                "size {size}"
            );
            frontier.extend(leaves.get(size).copied());
        }
    }

    #[test]
    fn a_subtree_is_its_leaves() {
        let leaves = leaves(130);
        for start in 0..=66_usize {
            for level in 0..=6_u32 {
                let mut by_leaf: Frontier = leaves[..start].iter().copied().collect();
                let mut by_tree = by_leaf.clone();
                let end = start + (1 << level);
                let fits = start % (1 << level) == 0;
                assert_eq!(
                    by_tree.push_subtree(level, root_of(&leaves[start..end])),
                    fits,
                    "{start} {level}"
                );
                if fits {
                    by_leaf.extend(leaves[start..end].iter().copied());
                }
                assert_eq!(by_tree, by_leaf, "{start} {level}");
            }
        }
        assert!(
            !Frontier::new().push_subtree(63, Hash::ZERO),
            "more than a tree may have"
        );
        assert!(!Frontier::new().push_subtree(64, Hash::ZERO));
    }

    #[test]
    fn frontier_parts_must_fit_the_size() {
        for (size, hashes, fits) in [
            (0, 0, true),
            (0, 1, false),
            (1, 0, false),
            (6, 2, true),
            (6, 3, false),
            (TREE_SIZE_MAX, 63, true),
            (TREE_SIZE_MAX + 1, 1, false),
            (u64::MAX, 64, false),
        ] {
            assert_eq!(
                Frontier::from_parts(size, vec![Hash::ZERO; hashes]).is_some(),
                fits,
                "{size} {hashes}"
            );
        }
    }

    #[test]
    fn every_inclusion_proof_up_to_70_leaves_verifies_and_only_for_its_place() {
        let leaves = leaves(70);
        for size in 1..=leaves.len() {
            let tree = &leaves[..size];
            let root = root_of(tree);
            for (index, leaf) in tree.iter().enumerate() {
                let proof = inclusion_proof(tree, index as u64).unwrap();
                for claimed in 0..=size {
                    let verified =
                        verify_inclusion(leaf, claimed as u64, size as u64, &proof, &root);
                    assert_eq!(
                        verified,
                        claimed == index,
                        "leaf {index} of {size} as {claimed}"
                    );
                }
            }
            assert_eq!(inclusion_proof(tree, size as u64), None);
        }
        assert_eq!(inclusion_proof(&[], 0), None);
    }

    #[test]
    fn every_consistency_proof_up_to_70_leaves_verifies_and_only_for_its_size() {
        let leaves = leaves(70);
        let roots: Vec<Hash> = (0..=leaves.len())
            .map(|size| root_of(&leaves[..size]))
            .collect();
        for size2 in 1..=leaves.len() {
            let tree = &leaves[..size2];
            assert_eq!(consistency_proof(tree, 0), None);
            assert_eq!(consistency_proof(tree, size2 as u64 + 1), None);
            for size1 in 1..=size2 {
                let proof = consistency_proof(tree, size1 as u64).unwrap();
                for (claimed, root) in roots.iter().enumerate() {
                    let verified = verify_consistency(
                        claimed as u64,
                        size2 as u64,
                        root,
                        &roots[size2],
                        &proof,
                    );
                    assert_eq!(
                        verified,
                        claimed == size1,
                        "{size1} to {size2} as {claimed}"
                    );
                }
            }
        }
    }

    #[test]
    fn hostile_sizes_end_quickly() {
        let proof = vec![Hash::ZERO; 1_000];
        for (a, b) in [
            (u64::MAX, u64::MAX),
            (u64::MAX - 1, u64::MAX),
            (1 << 63, u64::MAX),
            (0, u64::MAX),
            (1, 1),
        ] {
            assert!(!verify_inclusion(&Hash::ZERO, a, b, &proof, &Hash::ZERO));
            assert!(!verify_consistency(a, b, &Hash::ZERO, &Hash::ZERO, &proof));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn a_changed_inclusion_proof_fails(
            size in 2u64..300, index in any::<Index>(), at in any::<Index>(), bit in 0usize..256,
        ) {
            let leaves = leaves(size);
            let (index, root) = (index.index(leaves.len()) as u64, root_of(&leaves));
            let leaf = leaves[index as usize];
            let proof = inclusion_proof(&leaves, index).unwrap();
            prop_assert!(verify_inclusion(&leaf, index, size, &proof, &root));

            let mut changed = proof.clone();
            flip(&mut changed[at.index(proof.len())], bit);
            prop_assert!(!verify_inclusion(&leaf, index, size, &changed, &root));
            let mut shorter = proof.clone();
            shorter.remove(at.index(proof.len()));
            prop_assert!(!verify_inclusion(&leaf, index, size, &shorter, &root));
            let mut longer = proof.clone();
            longer.insert(at.index(proof.len() + 1), root);
            prop_assert!(!verify_inclusion(&leaf, index, size, &longer, &root));
            let (mut other_leaf, mut other_root) = (leaf, root);
            flip(&mut other_leaf, bit);
            flip(&mut other_root, bit);
            prop_assert!(!verify_inclusion(&other_leaf, index, size, &proof, &root));
            prop_assert!(!verify_inclusion(&leaf, index, size, &proof, &other_root));
        }

        #[test]
        fn a_changed_consistency_proof_fails(
            size2 in 2u64..300, size1 in any::<Index>(), at in any::<Index>(), bit in 0usize..256,
        ) {
            let leaves = leaves(size2);
            let size1 = size1.index(leaves.len() - 1) as u64 + 1;
            let (root1, root2) = (root_of(&leaves[..size1 as usize]), root_of(&leaves));
            let proof = consistency_proof(&leaves, size1).unwrap();
            prop_assert!(verify_consistency(size1, size2, &root1, &root2, &proof));

            let mut changed = proof.clone();
            flip(&mut changed[at.index(proof.len())], bit);
            prop_assert!(!verify_consistency(size1, size2, &root1, &root2, &changed));
            let mut shorter = proof.clone();
            shorter.remove(at.index(proof.len()));
            prop_assert!(!verify_consistency(size1, size2, &root1, &root2, &shorter));
            let mut longer = proof.clone();
            longer.insert(at.index(proof.len() + 1), root1);
            prop_assert!(!verify_consistency(size1, size2, &root1, &root2, &longer));
            let (mut other1, mut other2) = (root1, root2);
            flip(&mut other1, bit);
            flip(&mut other2, bit);
            prop_assert!(!verify_consistency(size1, size2, &other1, &root2, &proof));
            prop_assert!(!verify_consistency(size1, size2, &root1, &other2, &proof));
        }
    }
}

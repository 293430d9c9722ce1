//! The open ledger: appends sealed batches. One writer, one write and one fdatasync per batch.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};

use super::line::{self, LineError};
use super::note::{self, Checkpoint, SignerKey, VerifierKey};
use super::prune::Missing;
use super::recover::Corruption;
use super::reserve::{self, Room};
use super::rotation::{self, LogIdentity, Order, Rotation, RotationError};
use super::scan::BATCH_BYTES_MAX;
use super::seal::Seal;
use super::segment::{self, Previous, Rest, SEGMENT_BYTES_MAX, SEGMENT_LINES_MAX, Segment};
use super::tree::{Frontier, Hash, leaf_hash};
use crate::disk::{self, Disk, Kind, LogFile, Mode};

/// Why a ledger operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// A disk operation failed. Nothing of the batch was released.
    #[error("ledger `{path}`: {source}")]
    Disk {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The bytes read back differ from the bytes written.
    #[error(
        "ledger `{path}`: line {seq} reads back differently than it was written; the medium or \
            memory is faulty"
    )]
    ReadBack {
        /// The path.
        path: PathBuf,
        /// Number of the line.
        seq: u64,
    },
    /// An operation failed earlier, so that no further write or sync would prove anything.
    #[error("the ledger failed earlier in this process; start again")]
    Poisoned,
    /// A line cannot be written.
    #[error("{0}")]
    Line(#[from] LineError),
    /// The keys cannot be handed over to.
    #[error("{0}")]
    Rotation(RotationError),
    /// A batch cannot be written.
    #[error("a batch of {0} bytes is longer than {BATCH_BYTES_MAX}")]
    BatchTooLong(u64),
    /// A checkpoint cannot be signed.
    #[error("{0}")]
    Note(#[from] note::NoteError),
    /// The log does not verify.
    #[error("{0}")]
    Corrupt(Box<Corruption>),
    /// Content that is needed was pruned.
    #[error("{0}")]
    Pruned(Missing),
    /// The position in state.db is not on this log.
    #[error("the state was built from another log than this one")]
    NotOnLog,
}

/// A place after a sealed batch, with everything needed to continue from there. Stored in state.db;
/// a cache that is checked against the log before it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Segment number, from 1.
    pub segment: u32,
    /// Offset after the last line.
    pub offset: u64,
    /// Lines in this segment.
    pub lines: u64,
    /// Number of the next line.
    pub seq: u64,
    /// Number of the next batch.
    pub batch: u64,
    /// Leaf hash of the last line; zeros at the very beginning.
    pub head: Hash,
    /// Length of the last line without its LF.
    pub last_length: u64,
    /// Root in the last seal.
    pub root: Hash,
    /// The tree's right edge.
    pub frontier: Frontier,
    /// The keys in force at this place.
    pub keys: Arc<LogIdentity>,
    /// Leaf hash of the line before the last seal; zeros at the very beginning.
    pub before_seal: Hash,
    /// Signature of the last seal, base64. It makes this place a head that is provably on this log.
    pub seal_sig: String,
}

/// [`Position`] in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPosition {
    segment: u32,
    offset: u64,
    lines: u64,
    seq: u64,
    batch: u64,
    head: String,
    last_length: u64,
    root: String,
    edge: Vec<String>,
    log_key: String,
    seal_key: String,
    before_seal: String,
    seal_sig: String,
}

impl Position {
    /// The place before the first line of a log that begins with these keys.
    pub fn start(keys: LogIdentity) -> Position {
        Position {
            segment: 1,
            offset: 0,
            lines: 0,
            seq: 0,
            batch: 0,
            head: Hash::ZERO,
            last_length: 0,
            root: Hash::ZERO,
            frontier: Frontier::default(),
            keys: Arc::new(keys),
            before_seal: Hash::ZERO,
            seal_sig: String::new(),
        }
    }

    /// The last seal. `None` before the first line.
    pub fn seal(&self) -> Option<Seal> {
        let size = self.seq.checked_sub(1)?;
        Some(Seal {
            size,
            root: self.root.to_string(),
            sig: self.seal_sig.clone(),
        })
    }

    /// Converts the position into its stored form.
    pub fn to_stored(&self) -> StoredPosition {
        StoredPosition {
            segment: self.segment,
            offset: self.offset,
            lines: self.lines,
            seq: self.seq,
            batch: self.batch,
            head: self.head.to_string(),
            last_length: self.last_length,
            root: self.root.to_string(),
            edge: self.frontier.to_hex_list(),
            log_key: self.keys.log_key.to_string(),
            seal_key: self.keys.seal_key_hex(),
            before_seal: self.before_seal.to_string(),
            seal_sig: self.seal_sig.clone(),
        }
    }

    /// Reads the stored form. `None` if it contradicts itself.
    pub fn from_stored(stored: &StoredPosition) -> Option<Position> {
        let edge = stored
            .edge
            .iter()
            .map(|text| Hash::from_hex(text))
            .collect::<Option<Vec<Hash>>>()?;
        // The log's key is named after the log.
        let (origin, _) = stored.log_key.split_once('+')?;
        let keys = LogIdentity::new(origin, &stored.log_key, &stored.seal_key).ok()?;
        Some(Position {
            segment: stored.segment,
            offset: stored.offset,
            lines: stored.lines,
            seq: stored.seq,
            batch: stored.batch,
            head: Hash::from_hex(&stored.head)?,
            last_length: stored.last_length,
            root: Hash::from_hex(&stored.root)?,
            frontier: Frontier::from_parts(stored.seq, edge)?,
            keys: Arc::new(keys),
            before_seal: Hash::from_hex(&stored.before_seal)?,
            seal_sig: stored.seal_sig.clone(),
        })
    }
}

/// The keys that a log is written with.
pub struct LogSigner {
    /// The log's origin.
    pub origin: String,
    /// Signs checkpoints.
    pub log: SignerKey,
    /// Signs seals. A separate key, because a seal that survives in a torn batch would otherwise
    /// look like a second checkpoint of the same size.
    pub seal: SigningKey,
}

impl LogSigner {
    /// The public keys that verify what these keys sign.
    pub fn identity(&self) -> LogIdentity {
        LogIdentity {
            origin: self.origin.clone(),
            log_key: self.log.verifier().clone(),
            seal_key: self.seal.verifying_key(),
        }
    }

    /// The public key that verifies this log's checkpoints.
    pub fn verifier(&self) -> &VerifierKey {
        self.log.verifier()
    }
}

/// Where a written line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Segment number.
    pub segment: u32,
    /// Offset in its file.
    pub offset: u64,
    /// Length without LF.
    pub length: u64,
    /// Its leaf hash: bytes that are read there later must be the bytes that were sealed.
    pub leaf: Hash,
}

/// A durable batch.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Locations of the bodies, in order.
    pub locations: Vec<Location>,
}

/// A durable rotation.
#[derive(Clone, Debug)]
pub struct Rotated {
    /// Number of the `rotate` line.
    pub seq: u64,
    /// Content of the `rotate` line.
    pub rotation: Rotation,
    /// Locations of the segment line and the `rotate` line.
    pub sealed: Sealed,
}

/// A ledger open for writing.
pub struct Ledger {
    disk: Arc<dyn Disk>,
    signer: LogSigner,
    file: Box<dyn LogFile>,
    position: Position,
    poisoned: bool,
    room: Room,
    aside: Vec<PathBuf>,
}

/// Path of the newest checkpoint below the home.
pub const CHECKPOINT_FILE: &str = "audit/checkpoint";

/// A rendered batch, ready to be written.
struct Rendered {
    bytes: String,
    leaves: Vec<Hash>,
    lengths: Vec<u64>,
    after: Position,
}

impl Rendered {
    /// Locations of the first `count` lines in a batch that begins at `start`.
    fn locations(&self, start: &Position, count: usize) -> Vec<Location> {
        let (segment, mut offset) = (start.segment, start.offset);
        let lines = self.lengths.iter().zip(&self.leaves).take(count);
        lines
            .map(|(length, leaf)| {
                let location = Location {
                    segment,
                    offset,
                    length: *length,
                    leaf: *leaf,
                };
                offset += length + 1;
                location
            })
            .collect()
    }
}

impl Ledger {
    /// Wraps an open last segment.
    pub fn at(
        disk: Arc<dyn Disk>,
        signer: LogSigner,
        file: Box<dyn LogFile>,
        position: Position,
    ) -> Ledger {
        Ledger {
            disk,
            signer,
            file,
            position,
            poisoned: false,
            room: Room::default(),
            aside: Vec::new(),
        }
    }

    /// Starts a log with its first batch, which begins with the genesis line.
    ///
    /// ```
    /// use std::{path::Path, sync::Arc};
    ///
    /// use ed25519_dalek::SigningKey;
    /// use spoolgate_ledger::{Ledger, log::LogSigner, memory::Memory, note::SignerKey, verify};
    ///
    /// let origin = "example.org/log".to_owned();
    /// let log = SignerKey::from_seed(&origin, &[1; 32])?;
    /// let signer = LogSigner { origin, log, seal: SigningKey::from_bytes(&[2; 32]) };
    /// let keys = signer.identity();
    /// let genesis = serde_json::json!({
    ///     "origin": keys.origin, "log_key": keys.log_key.to_string(),
    ///     "seal_key": keys.seal_key_hex(), "timestamp": "2026-03-02T12:00:00.000Z", "format": 1,
    ///     "nonce": "", "rulebook": "", "program": "example", "changes": [],
    /// });
    /// let disk = Arc::new(Memory::default());
    /// Ledger::create(disk.clone(), signer, &[("genesis", genesis.to_string())])?;
    /// let options = verify::Options::default();
    /// let report = verify::verify(&*disk, Path::new("audit"), &options, &|_| ())?;
    /// assert!(report.ok && report.lines == 2, "the genesis line and its seal");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LedgerError`]; an existing log is not touched.
    pub fn create(
        disk: Arc<dyn Disk>,
        signer: LogSigner,
        bodies: &[(&str, String)],
    ) -> Result<Ledger, LedgerError> {
        let rendered = render_batch(&Position::start(signer.identity()), &signer, bodies)?;
        let file = reserve::write_segment(disk.as_ref(), 1, rendered.bytes.as_bytes())?;
        let mut ledger = Ledger {
            disk,
            signer,
            file,
            position: rendered.after,
            poisoned: false,
            room: Room::default(),
            aside: Vec::new(),
        };
        ledger.publish_head()?;
        Ok(ledger)
    }

    /// Where the log ends.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The keys that the log is written with.
    pub fn signer(&self) -> &LogSigner {
        &self.signer
    }

    /// What was in the place of the checkpoint and is kept under these names: something that is not
    /// a file, or a file that may not be read. A file may name lines that the log has lost.
    pub fn aside(&self) -> &[PathBuf] {
        &self.aside
    }

    /// Takes room for the next batches: a quarter of `reserve` bytes behind the last line, and
    /// `reserve` bytes for the next segment. Begins that segment if this one is full, or can take no
    /// more room. Call it before a batch is numbered: the new segment's first lines take numbers of
    /// their own.
    ///
    /// Returns whether all of that room is taken. If it is not, the disk is full, and what was taken
    /// earlier is left for what cannot wait.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the new segment cannot be written.
    pub fn make_room(&mut self, reserve: u64) -> Result<bool, LedgerError> {
        if self.poisoned {
            return Err(LedgerError::Poisoned);
        }
        let has_room = self.take_ahead(reserve);
        let is_reserved = self.room.fill_reserve(self.disk.as_ref(), reserve);
        let is_long =
            self.position.offset >= SEGMENT_BYTES_MAX || self.position.lines >= SEGMENT_LINES_MAX;
        // A segment that is too long on a full disk only grows longer.
        let may_begin = is_reserved || self.room.has_reserve();
        if !(may_begin && (is_long || !has_room)) {
            return Ok(is_reserved && has_room);
        }
        self.poisoned = true;
        self.cut(None)?;
        self.poisoned = false;
        let has_room = self.take_ahead(reserve);
        Ok(self.room.fill_reserve(self.disk.as_ref(), reserve) && has_room)
    }

    fn take_ahead(&mut self, reserve: u64) -> bool {
        let (segment, offset) = (self.position.segment, self.position.offset);
        self.room
            .take_ahead(self.disk.as_ref(), segment, offset, reserve / 4)
    }

    /// Appends a batch of (kind, body) and its seal: one write, one read back, one fdatasync. When
    /// this returns, the batch survives a power cut; before, nothing of it may leave the process.
    /// The caller publishes the head before the next batch.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use spoolgate_ledger::log::read_line;
    /// # use spoolgate_ledger::memory::Memory;
    /// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/setup.rs")); }
    /// # let disk = Arc::new(Memory::default());
    /// # let mut ledger = setup::create(&disk);
    ///
    /// let note = |text: &str| ("note", serde_json::json!({ "text": text }).to_string());
    /// let sealed = ledger.append(&[note("one"), note("two")])?;
    /// ledger.publish_head()?;
    /// // Both lines and the seal follow the genesis line and its seal.
    /// assert_eq!(ledger.position().seq, 5);
    /// let line = String::from_utf8(read_line(&*disk, sealed.locations[1])?)?;
    /// assert!(line.ends_with(r#""seq":3,"batch":1,"kind":"note","text":"two"}"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LedgerError`]; if there is no room for the batch, nothing was written. After a
    /// failed write or sync every further call is [`LedgerError::Poisoned`]: a second fsync that
    /// succeeds proves nothing (Rebello et al., ATC'20).
    pub fn append(&mut self, bodies: &[(&str, String)]) -> Result<Sealed, LedgerError> {
        if self.poisoned {
            return Err(LedgerError::Poisoned);
        }
        // If rendering fails, the disk was not touched.
        let rendered = render_batch(&self.position, &self.signer, bodies)?;
        let (segment, offset) = (self.position.segment, self.position.offset);
        let bytes = u64::try_from(rendered.bytes.len()).unwrap_or(u64::MAX);
        self.room.take(self.disk.as_ref(), segment, offset, bytes)?;
        self.poisoned = true;
        self.write(&rendered)?;
        let locations = rendered.locations(&self.position, bodies.len());
        self.position = rendered.after;
        self.poisoned = false;
        Ok(Sealed { locations })
    }

    fn write(&self, rendered: &Rendered) -> Result<(), LedgerError> {
        let path = segment::path(self.position.segment);
        let fail = |source| LedgerError::Disk {
            path: path.clone(),
            source,
        };
        self.file.append(rendered.bytes.as_bytes()).map_err(fail)?;
        let back = disk::read_exact_at(
            self.file.as_ref(),
            self.position.offset,
            rendered.bytes.len(),
        )
        .map_err(fail)?;
        let mut rest = back.as_slice();
        for (seq, (length, leaf)) in
            (self.position.seq..).zip(rendered.lengths.iter().zip(&rendered.leaves))
        {
            let line = usize::try_from(*length)
                .ok()
                .and_then(|length| rest.split_at_checked(length));
            let Some((_, [b'\n', behind @ ..])) = line.filter(|(line, _)| leaf_hash(line) == *leaf)
            else {
                return Err(LedgerError::ReadBack { path, seq });
            };
            rest = behind;
        }
        self.file.sync_data().map_err(fail)
    }

    /// Publishes the checkpoint of the last seal. Answers need not wait for it: after a crash in
    /// between, the checkpoint is behind the log, and the next start renews it.
    ///
    /// Returns whether there was room for it on the disk. Without it the log is as sound; the next
    /// checkpoint stands for this one too.
    ///
    /// # Errors
    /// Returns [`LedgerError`]; every further call is then [`LedgerError::Poisoned`].
    pub fn publish_head(&mut self) -> Result<bool, LedgerError> {
        if self.poisoned {
            return Err(LedgerError::Poisoned);
        }
        self.poisoned = true;
        let is_published = self.publish_checkpoint(&self.sign_checkpoint()?)?;
        self.poisoned = false;
        Ok(is_published)
    }

    /// Publishes the checkpoint unless it equals `published`: Ed25519 signs the same text the same
    /// way every time.
    pub(super) fn renew_checkpoint(&mut self, published: &str) -> Result<(), LedgerError> {
        let text = self.sign_checkpoint()?;
        if text != published {
            self.publish_checkpoint(&text)?;
        }
        Ok(())
    }

    /// Signs the checkpoint of the last seal, with the same size and root.
    fn sign_checkpoint(&self) -> Result<String, LedgerError> {
        let size = self.position.seq.saturating_sub(1);
        let checkpoint = Checkpoint::new(&self.signer.origin, size, self.position.root);
        Ok(note::sign_checkpoint(&checkpoint, &self.signer.log)?)
    }

    /// Gives what is in the place of the checkpoint another name.
    pub(super) fn move_checkpoint_aside(&mut self) -> Result<(), LedgerError> {
        let path = Path::new(CHECKPOINT_FILE);
        let moved = self.move_aside(path);
        moved.map_err(|source| LedgerError::Disk {
            path: path.to_owned(),
            source,
        })
    }

    fn move_aside(&mut self, path: &Path) -> io::Result<()> {
        let mut number = 1_u32;
        let aside = loop {
            let aside = PathBuf::from(format!("{CHECKPOINT_FILE}.aside-{number}"));
            match self.disk.rename_new(path, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.checked_add(1).ok_or(error)?;
                }
                other => break other.map(|()| aside),
            }
        };
        self.aside.push(aside?);
        Ok(())
    }

    fn publish_checkpoint(&mut self, text: &str) -> Result<bool, LedgerError> {
        let path = PathBuf::from(CHECKPOINT_FILE);
        let disk = Arc::clone(&self.disk);
        let publish = || disk::replace(disk.as_ref(), &path, text.as_bytes(), Mode::Shared, false);
        let mut published = publish();
        for place in disk::temporary(&path).iter().chain([&path]) {
            let is_folder = |error: &io::Error| error.kind() == io::ErrorKind::IsADirectory;
            if published.as_ref().is_err_and(is_folder)
                && let Ok(Some(found)) = disk.stat(place)
                && found.kind == Kind::Directory
            {
                published = self.move_aside(place).and_then(|()| publish());
            }
        }
        match published {
            Ok(()) => Ok(true),
            Err(error) if disk::is_full(&error) => Ok(false),
            Err(source) => Err(LedgerError::Disk { path, source }),
        }
    }

    /// Begins a new segment. `rest` describes the bytes after the valid end of the old one.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the new segment cannot be written.
    pub fn cut(&mut self, rest: Option<Rest>) -> Result<(), LedgerError> {
        let (start, body) = self.next_segment(rest)?;
        self.begin_segment(&start, &[("segment", body)]).map(|_| ())
    }

    /// Begins a new segment with other keys; in its second line the old keys hand over to them.
    /// When this returns, the new keys are in force, and nothing is signed with the old ones any
    /// more.
    ///
    /// ```
    /// # use std::{path::Path, sync::Arc};
    /// # use spoolgate_ledger::memory::Memory;
    /// use spoolgate_ledger::{recover::keys_over_time, rotation::Order};
    /// use spoolgate_wire::{ids::Principal, time::Time};
    /// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/setup.rs")); }
    /// # let disk = Arc::new(Memory::default());
    /// # let mut ledger = setup::create(&disk);
    /// # let (next, keys) = (setup::signer(3), setup::signer(3).identity());
    ///
    /// let order = Order {
    ///     timestamp: Time::parse("2026-03-02T13:00:00.000Z")?,
    ///     by: Principal::parse("owner")?,
    ///     reason: "a new machine".to_owned(),
    /// };
    /// let rotated = ledger.rotate(next, &order)?;
    /// assert_eq!(rotated.seq, 3);
    /// assert_eq!(keys_over_time(&*disk, Path::new("audit"))?.last(), Some(&keys));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LedgerError::Rotation`] for keys that cannot be handed over to. After any other
    /// error, every further call is [`LedgerError::Poisoned`].
    pub fn rotate(&mut self, next: LogSigner, order: &Order) -> Result<Rotated, LedgerError> {
        if self.poisoned {
            return Err(LedgerError::Poisoned);
        }
        let (mut start, body) = self.next_segment(None)?;
        let first = line::render(&start.head, start.seq, start.batch, "segment", &body)?;
        let seq = start.seq.saturating_add(1);
        let rotation = rotation::sign(
            order,
            &self.signer,
            &next,
            seq,
            &leaf_hash(first.as_bytes()),
        );
        // Check first: a line that every reader rejects must not be written.
        rotation::check(
            &rotation,
            &self.position.keys,
            seq,
            &leaf_hash(first.as_bytes()),
        )
        .map_err(LedgerError::Rotation)?;
        let rotate = serde_json::to_string(&rotation)
            .map_err(|error| LedgerError::Line(LineError::Body(error.to_string())))?;
        start.keys = Arc::new(next.identity());
        self.poisoned = true;
        self.signer = next;
        let sealed = self.begin_segment(&start, &[("segment", body), ("rotate", rotate)])?;
        self.poisoned = false;
        Ok(Rotated {
            seq,
            rotation,
            sealed,
        })
    }

    /// Returns where the next segment begins, and the body of its first line.
    fn next_segment(&self, rest: Option<Rest>) -> Result<(Position, String), LedgerError> {
        let previous = Previous {
            file: segment::file_name(self.position.segment),
            length: self.position.offset,
            lines: self.position.lines,
            head: self.position.head.to_string(),
        };
        let body = serde_json::to_string(&Segment { previous, rest })
            .map_err(|error| LedgerError::Line(LineError::Body(error.to_string())))?;
        let mut start = self.position.clone();
        start.segment = start.segment.saturating_add(1);
        start.offset = 0;
        start.lines = 0;
        Ok((start, body))
    }

    fn begin_segment(
        &mut self,
        start: &Position,
        bodies: &[(&str, String)],
    ) -> Result<Sealed, LedgerError> {
        let rendered = render_batch(start, &self.signer, bodies)?;
        let bytes = rendered.bytes.as_bytes();
        let file = reserve::write_segment(self.disk.as_ref(), start.segment, bytes)?;
        // The room behind the end of the old segment is of no use any more.
        let _ = std::mem::replace(&mut self.file, file).give_back_room();
        self.room = Room::default();
        let locations = rendered.locations(start, bodies.len());
        self.position = rendered.after;
        Ok(Sealed { locations })
    }
}

/// Reads the bytes of a line of any segment.
///
/// # Errors
/// Returns [`LedgerError::NotOnLog`] if there is another line or none, [`LedgerError::Pruned`] if
/// the content of the segment was pruned, or [`LedgerError::Disk`].
pub fn read_line(disk: &dyn Disk, location: Location) -> Result<Vec<u8>, LedgerError> {
    let path = segment::path(location.segment);
    let fail = |source| LedgerError::Disk {
        path: path.clone(),
        source,
    };
    let missing = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
        )
    };
    let length = usize::try_from(location.length)
        .unwrap_or(usize::MAX)
        .min(line::LINE_BYTES_MAX);
    let read = segment::open(disk, Path::new(segment::AUDIT_DIR), location.segment)
        .and_then(|file| disk::read_exact_at(file.as_ref(), location.offset, length));
    match read {
        Ok(bytes) if leaf_hash(&bytes) == location.leaf => Ok(bytes),
        Ok(_) => Err(LedgerError::NotOnLog),
        Err(error) if missing(&error) => Err(LedgerError::NotOnLog),
        Err(error) if segment::is_pruned(&error) => Err(LedgerError::Pruned(Missing::of(
            disk,
            Path::new(segment::AUDIT_DIR),
            &[location.segment],
        ))),
        Err(error) => Err(fail(error)),
    }
}

fn render_batch(
    start: &Position,
    signer: &LogSigner,
    bodies: &[(&str, String)],
) -> Result<Rendered, LedgerError> {
    let mut after = start.clone();
    // Room for the prefix of every line and for the seal.
    let room = |(_, body): &(&str, String)| body.len().saturating_add(256);
    let mut bytes =
        String::with_capacity(bodies.iter().map(room).sum::<usize>().saturating_add(1024));
    let mut leaves = Vec::new();
    let mut lengths = Vec::new();
    let mut push = |after: &mut Position, kind: &str, body: &str| -> Result<(), LedgerError> {
        let start = bytes.len();
        let length =
            line::render_into(&mut bytes, &after.head, after.seq, after.batch, kind, body)?;
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        after.head = leaf_hash(bytes.get(start..).unwrap_or_default().as_bytes());
        after.frontier.push(after.head);
        after.seq += 1;
        after.lines += 1;
        after.offset += length + 1;
        after.last_length = length;
        leaves.push(after.head);
        lengths.push(length);
        bytes.push('\n');
        Ok(())
    };
    for (kind, body) in bodies {
        push(&mut after, kind, body)?;
    }
    let root = after.frontier.root();
    let seal = Seal::sign(&signer.seal, &signer.origin, after.seq, &root, &after.head);
    after.before_seal = after.head;
    push(&mut after, "seal", &seal.body())?;
    after.root = root;
    after.seal_sig = seal.sig;
    after.batch += 1;
    let total = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if total > BATCH_BYTES_MAX {
        return Err(LedgerError::BatchTooLong(total));
    }
    Ok(Rendered {
        bytes,
        leaves,
        lengths,
        after,
    })
}

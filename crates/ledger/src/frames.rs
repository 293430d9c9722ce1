//! Archives of segments: zstd in independent frames with a seek table (zstd's seekable format,
//! version 0.1), so that `zstd -dc` gives exactly the bytes of the segment and a line can be read
//! without unpacking the rest. The input may come from anybody: sizes in it are only checked
//! against limits, never trusted.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{self, CParameter};

use crate::disk::{self, LogFile};

/// Plain bytes per frame that is written here, except for the last frame.
pub const FRAME_BYTES: usize = 256 * 1024;
/// Maximum number of plain bytes in a frame that is read.
pub const FRAME_BYTES_MAX: u32 = 1024 * 1024;
/// Maximum number of frames.
const FRAMES_MAX: u32 = 16 * 1024;
/// Maximum number of plain bytes: a full segment, the batch that filled it, a torn rest after it,
/// and spare room.
pub const PLAIN_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// zstd's compression level: higher ones save too little for the time they take.
const LEVEL: i32 = 9;
/// Number of unpacked frames that are cached, so that threads reading nearby do not unpack the same
/// frames again.
const KEPT_FRAMES: usize = 16;

/// The seek table is the content of a skippable frame.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
/// The last bytes of the seek table.
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Size of magic and length of a skippable frame.
const SKIPPABLE_HEADER: u64 = 8;
/// Size of number of frames, descriptor and magic.
const FOOTER: u64 = 9;
/// Size of a table entry: compressed and plain size of a frame. No checksum, because each frame has
/// its own.
const ENTRY: u64 = 8;
/// Bits of a frame's descriptor, except the width of its size field: the frame is its own window,
/// has a checksum, needs no dictionary, and unused bits are zero.
const DESCRIPTOR_MASK: u8 = 0b0011_1111;
const DESCRIPTOR: u8 = 0b0010_0100;

fn damaged(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the archive is damaged: {what}"),
    )
}

/// Packs the bytes of a segment. Reports to `progress` how many of them are done.
///
/// # Errors
/// Returns zstd's error, or an error if there are no bytes or more than [`PLAIN_BYTES_MAX`].
pub fn pack(plain: &dyn LogFile, progress: &mut dyn FnMut(u64)) -> io::Result<Vec<u8>> {
    let length = plain.len()?;
    if length == 0 || length > PLAIN_BYTES_MAX {
        return Err(io::Error::other(format!(
            "{length} bytes are not a segment"
        )));
    }
    let mut compressor = Compressor::new(LEVEL)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    let mut packed = Vec::new();
    let mut table = Vec::new();
    let mut frames: u32 = 0;
    let mut at = 0;
    while at < length {
        let bytes = usize::try_from(length.saturating_sub(at))
            .map_or(FRAME_BYTES, |rest| rest.min(FRAME_BYTES));
        let frame = compressor.compress(&disk::read_exact_at(plain, at, bytes)?)?;
        for size in [frame.len(), bytes] {
            table.extend(u32::try_from(size).map_err(io::Error::other)?.to_le_bytes());
        }
        packed.extend(frame);
        frames = frames.saturating_add(1);
        at = at.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        progress(at);
    }
    table.extend(frames.to_le_bytes());
    table.push(0);
    table.extend(SEEKABLE_MAGIC.to_le_bytes());
    packed.extend(SKIPPABLE_MAGIC.to_le_bytes());
    packed.extend(
        u32::try_from(table.len())
            .map_err(io::Error::other)?
            .to_le_bytes(),
    );
    packed.extend(table);
    Ok(packed)
}

/// Offset and sizes of a frame.
#[derive(Clone, Copy)]
struct Frame {
    offset: u64,
    packed: u32,
    from: u64,
    plain: u32,
}

/// The number and the bytes of an unpacked frame.
type Kept = (usize, Arc<[u8]>);

/// The plain bytes of a segment, read from its archive. Memory is limited to the seek table and a
/// few frames.
pub struct Archive {
    file: Box<dyn LogFile>,
    frames: Vec<Frame>,
    length: u64,
    kept: Mutex<Vec<Kept>>,
}

impl Archive {
    /// Reads the seek table of an open archive.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::InvalidData`] if no seek table fits the file, or an error if
    /// reading fails.
    pub fn over(file: Box<dyn LogFile>) -> io::Result<Archive> {
        let (frames, length) = read_table(file.as_ref())?;
        Ok(Archive {
            file,
            frames,
            length,
            kept: Mutex::new(Vec::new()),
        })
    }

    /// A frame's plain bytes.
    fn unpacked(&self, number: usize) -> io::Result<Arc<[u8]>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = kept();
            if let Some(at) = kept.iter().position(|(kept, _)| *kept == number) {
                let found = kept.remove(at);
                let bytes = Arc::clone(&found.1);
                kept.push(found);
                return Ok(bytes);
            }
        }
        let frame = self
            .frames
            .get(number)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes: Arc<[u8]> = unpack(self.file.as_ref(), *frame)?.into();
        let mut kept = kept();
        if kept.len() >= KEPT_FRAMES {
            kept.remove(0);
        }
        kept.push((number, Arc::clone(&bytes)));
        Ok(bytes)
    }
}

/// Reads the seek table and checks it against the length of the file.
fn read_table(file: &dyn LogFile) -> io::Result<(Vec<Frame>, u64)> {
    let length = file.len()?;
    let footer_at = length
        .checked_sub(FOOTER)
        .ok_or_else(|| damaged("it is cut"))?;
    let footer = disk::read_exact_at(file, footer_at, FOOTER as usize)?;
    let (count, descriptor, magic) = match footer.as_slice() {
        [a, b, c, d, descriptor, magic @ ..] => {
            (u32::from_le_bytes([*a, *b, *c, *d]), *descriptor, magic)
        }
        _ => return Err(damaged("it is cut")),
    };
    if magic != SEEKABLE_MAGIC.to_le_bytes() || descriptor != 0 {
        return Err(damaged("it ends without a seek table"));
    }
    if count == 0 || count > FRAMES_MAX {
        return Err(damaged("its seek table has an impossible number of frames"));
    }
    let content = u64::from(count)
        .saturating_mul(ENTRY)
        .saturating_add(FOOTER);
    let table_at = length
        .checked_sub(content.saturating_add(SKIPPABLE_HEADER))
        .ok_or_else(|| damaged("its seek table is longer than itself"))?;
    let bytes =
        usize::try_from(content.saturating_add(SKIPPABLE_HEADER)).map_err(io::Error::other)?;
    let table = disk::read_exact_at(file, table_at, bytes)?;
    let words: Vec<u32> = table
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .collect();
    let (head, entries) = words.split_at_checked(2).unwrap_or_default();
    if head.first() != Some(&SKIPPABLE_MAGIC)
        || head.get(1).copied().map(u64::from) != Some(content)
    {
        return Err(damaged("its seek table does not begin like a seek table"));
    }
    let mut frames = Vec::new();
    let (mut offset, mut from) = (0, 0);
    for entry in entries
        .as_chunks::<2>()
        .0
        .iter()
        .take(usize::try_from(count).unwrap_or(usize::MAX))
    {
        let [packed, plain] = *entry;
        let bound = zstd_safe::compress_bound(usize::try_from(plain).unwrap_or(usize::MAX));
        if plain == 0
            || plain > FRAME_BYTES_MAX
            || usize::try_from(packed).is_ok_and(|bytes| bytes > bound)
        {
            return Err(damaged("its seek table has a frame of an impossible size"));
        }
        frames.push(Frame {
            offset,
            packed,
            from,
            plain,
        });
        offset = offset.saturating_add(u64::from(packed));
        from = from.saturating_add(u64::from(plain));
    }
    if offset != table_at {
        return Err(damaged("its frames do not end where the seek table begins"));
    }
    if from > PLAIN_BYTES_MAX {
        return Err(damaged("it claims more bytes than a segment can have"));
    }
    Ok((frames, from))
}

/// Unpacks one frame, which must match the seek table exactly.
fn unpack(file: &dyn LogFile, frame: Frame) -> io::Result<Vec<u8>> {
    let packed = disk::read_exact_at(file, frame.offset, frame.packed as usize)?;
    let known = packed
        .get(4)
        .is_some_and(|descriptor| descriptor & DESCRIPTOR_MASK == DESCRIPTOR);
    let alone =
        zstd_safe::find_frame_compressed_size(&packed).is_ok_and(|bytes| bytes == packed.len());
    let told = zstd_safe::get_frame_content_size(&packed).ok().flatten();
    if !known || !alone || told != Some(u64::from(frame.plain)) {
        return Err(damaged("a frame differs from the seek table"));
    }
    let mut plain = Vec::with_capacity(frame.plain as usize);
    let written = Decompressor::new()?
        .decompress_to_buffer(&packed, &mut plain)
        .map_err(|error| damaged(&error.to_string()))?;
    if written != frame.plain as usize || plain.len() != written {
        return Err(damaged("a frame contains fewer bytes than it states"));
    }
    Ok(plain)
}

impl LogFile for Archive {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn append(&self, _bytes: &[u8]) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "an archived segment is never written to",
        ))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.length || buffer.is_empty() {
            return Ok(0);
        }
        let number = self
            .frames
            .partition_point(|frame| frame.from <= offset)
            .saturating_sub(1);
        let bytes = self.unpacked(number)?;
        let from = self.frames.get(number).map_or(0, |frame| frame.from);
        let skip = usize::try_from(offset.saturating_sub(from)).map_err(io::Error::other)?;
        let found = bytes.get(skip..).unwrap_or_default();
        let count = found.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(found) {
            *to = *from;
        }
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn drop_cache(&self, _from: u64) -> io::Result<()> {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        self.file.drop_cache(0)
    }
}

//! Frames in a stream of bytes: a length (4 bytes, big endian), then that many bytes. No input or
//! output here.

/// Number of bytes of the length before each frame.
pub const LENGTH_BYTES: usize = 4;

/// Buffer capacity that is kept after a long frame was handed out, in bytes; more is freed.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Why bytes are not a frame. After a fault the connection is closed as soon as pending answers are
/// written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The announced length exceeds the limit.
    #[error(
        "a frame of {declared_bytes} bytes is longer than this gate takes on its socket; send less \
            in one frame"
    )]
    TooLong {
        /// The announced length.
        declared_bytes: u32,
    },
    /// The stream ended inside a frame, or the rest did not come in time.
    #[error("{}", incomplete(*.got_bytes, *.declared_bytes))]
    Incomplete {
        /// Number of bytes that arrived: of the content, or of the length if that is incomplete
        /// itself.
        got_bytes: u64,
        /// The announced length, if it arrived completely.
        declared_bytes: Option<u32>,
    },
}

fn incomplete(got: u64, declared: Option<u32>) -> String {
    match declared {
        Some(declared) => {
            format!("only {got} of a frame's {declared} bytes came; send all of them, at once")
        }
        None => {
            format!("only {got} of the 4 bytes of a frame's length came; send all of them, at once")
        }
    }
}

/// Renders a frame. `None` if the length of `content` does not fit into four bytes.
pub fn frame(content: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(content.len()).ok()?;
    let mut bytes = Vec::with_capacity(content.len().saturating_add(LENGTH_BYTES));
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(content);
    Some(bytes)
}

/// Splits a stream into frames, in whatever pieces it arrives. After a fault it yields nothing
/// more.
///
/// ```
/// use spoolgate_wire::frames::{FrameReader, frame};
///
/// let stream = [frame(b"one"), frame(b"two")].map(Option::unwrap).concat();
/// let mut reader = FrameReader::new(1024);
/// // A stream may arrive in pieces of any length.
/// reader.push(&stream[..5]);
/// assert!(reader.next_frame().is_none());
/// reader.push(&stream[5..]);
/// assert_eq!(reader.next_frame(), Some(Ok(b"one".to_vec())));
/// assert_eq!(reader.next_frame(), Some(Ok(b"two".to_vec())));
/// assert_eq!(reader.finish(), None);
/// ```
#[derive(Debug)]
pub struct FrameReader {
    frame_bytes_max: usize,
    pending: Vec<u8>,
    used: usize,
    broken: bool,
    missing: u64,
}

impl FrameReader {
    /// Reads frames of at most `frame_bytes_max` bytes, not counting the length.
    pub fn new(frame_bytes_max: usize) -> FrameReader {
        FrameReader {
            frame_bytes_max,
            pending: Vec::new(),
            used: 0,
            broken: false,
            missing: 0,
        }
    }

    /// Adds the next bytes of the stream. They are kept until [`FrameReader::next_frame`] hands
    /// them out, so take the frames out before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.broken {
            return;
        }
        self.pending.drain(..self.used.min(self.pending.len()));
        self.used = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the next frame if it is complete, or the fault.
    pub fn next_frame(&mut self) -> Option<Result<Vec<u8>, Fault>> {
        let (declared_bytes, content) = self.ahead().0?;
        let bytes = usize::try_from(declared_bytes).unwrap_or(usize::MAX);
        if bytes > self.frame_bytes_max {
            let came = u64::try_from(content.len()).unwrap_or(u64::MAX);
            self.missing = u64::from(declared_bytes).saturating_sub(came);
            self.give_up();
            return Some(Err(Fault::TooLong { declared_bytes }));
        }
        let content = content.get(..bytes)?;
        if bytes > KEPT_BYTES_MAX {
            // Handed out as it lies here: a copy of a long frame would take its room twice.
            let start = self.used.saturating_add(LENGTH_BYTES);
            let rest = self
                .pending
                .split_off(start.saturating_add(bytes).min(self.pending.len()));
            let mut content = std::mem::replace(&mut self.pending, rest);
            content.drain(..start);
            self.used = 0;
            return Some(Ok(content));
        }
        let content = content.to_vec();
        self.used = self.used.saturating_add(LENGTH_BYTES).saturating_add(bytes);
        if self.used >= self.pending.len() {
            self.used = 0;
            self.pending.clear();
            self.pending.shrink_to(KEPT_BYTES_MAX);
        }
        Some(Ok(content))
    }

    /// The length of the next frame, if it has begun and is not complete, in bytes.
    pub fn awaited(&self) -> Option<usize> {
        let (declared_bytes, _) = self.ahead().0?;
        usize::try_from(declared_bytes).ok()
    }

    /// Takes the room that the next frame needs at once, instead of twice as much step by step.
    pub fn reserve(&mut self) {
        let whole = self
            .awaited()
            .filter(|bytes| *bytes <= self.frame_bytes_max);
        let whole = whole.unwrap_or(0).saturating_add(LENGTH_BYTES);
        let missing = whole.saturating_sub(self.pending.len().saturating_sub(self.used));
        self.pending.reserve_exact(missing);
    }

    /// Whether there are bytes that were not handed out.
    pub fn has_rest(&self) -> bool {
        self.pending.len() > self.used
    }

    /// Returns how many bytes of a frame that is too long had not arrived when it was refused; 0 if
    /// there was no such frame. Read and drop them: the other side can then finish writing and read the
    /// answer.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Ends the stream. Returns the fault if a frame is incomplete. Take the complete frames out
    /// first.
    pub fn finish(&mut self) -> Option<Fault> {
        let (length, rest) = self.ahead();
        let fault = match length {
            Some((declared, content)) => Some((content.len(), Some(declared))),
            None => (!rest.is_empty()).then_some((rest.len(), None)),
        };
        self.give_up();
        let (got, declared_bytes) = fault?;
        Some(Fault::Incomplete {
            got_bytes: u64::try_from(got).unwrap_or(u64::MAX),
            declared_bytes,
        })
    }

    /// Returns the next length and the bytes after it, if all four bytes of the length are there,
    /// and all remaining bytes.
    fn ahead(&self) -> (Option<(u32, &[u8])>, &[u8]) {
        let rest = self.pending.get(self.used..).unwrap_or_default();
        let length = rest.split_first_chunk::<LENGTH_BYTES>();
        (
            length.map(|(length, content)| (u32::from_be_bytes(*length), content)),
            rest,
        )
    }

    fn give_up(&mut self) {
        self.broken = true;
        self.used = 0;
        self.pending = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drained(reader: &mut FrameReader) -> Vec<Result<Vec<u8>, Fault>> {
        std::iter::from_fn(|| reader.next_frame()).collect()
    }

    #[test]
    fn the_missing_bytes_of_a_frame_that_is_too_long_are_counted() {
        for (came, missing) in [(&[][..], 9), (&[1, 2], 7), (&[0; 9], 0), (&[0; 12], 0)] {
            let mut reader = FrameReader::new(8);
            assert_eq!(reader.missing(), 0);
            reader.push(&[&[0, 0, 0, 9], came].concat());
            assert_eq!(
                reader.next_frame(),
                Some(Err(Fault::TooLong { declared_bytes: 9 }))
            );
            assert_eq!(reader.missing(), missing);
        }
    }

    #[test]
    fn a_frame_of_no_bytes_is_a_frame() {
        let mut reader = FrameReader::new(3);
        reader.push(&[0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]);
        assert_eq!(drained(&mut reader), [Ok(vec![]), Ok(vec![1, 2, 3])]);
        assert_eq!(reader.finish(), None);
    }

    #[test]
    fn too_long_is_known_by_the_length_alone_and_ends_it() {
        let mut reader = FrameReader::new(3);
        reader.push(&[0, 0, 0, 1, 9, 0, 0, 0, 4]);
        assert_eq!(
            drained(&mut reader),
            [Ok(vec![9]), Err(Fault::TooLong { declared_bytes: 4 })]
        );
        reader.push(&[0, 0, 0, 0]);
        assert!(drained(&mut reader).is_empty());
        assert_eq!(reader.finish(), None);
        assert!(!reader.has_rest());
    }

    #[test]
    fn missing_bytes_are_counted() {
        for (bytes, got_bytes, declared_bytes) in [
            (&[0][..], 1, None),
            (&[0, 0, 0, 2], 0, Some(2)),
            (&[0, 0, 0, 2, 7], 1, Some(2)),
        ] {
            let mut reader = FrameReader::new(3);
            reader.push(bytes);
            assert_eq!(reader.next_frame(), None);
            assert_eq!(
                reader.finish(),
                Some(Fault::Incomplete {
                    got_bytes,
                    declared_bytes
                })
            );
            assert_eq!(reader.finish(), None);
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            cuts in prop::collection::vec(1_usize..30, 1..40),
            tail in 0_usize..8,
        ) {
            let mut stream: Vec<u8> = contents.iter()
                .flat_map(|content| frame(content).unwrap()).collect();
            stream.extend(frame(b"last").unwrap().iter().take(tail));
            let mut reader = FrameReader::new(40);
            let (mut rest, mut got) = (stream.as_slice(), Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at(rest.len().min(*cut));
                reader.push(piece);
                got.extend(drained(&mut reader));
                rest = after;
            }
            let wanted: Vec<Result<Vec<u8>, Fault>> = contents.into_iter().map(Ok).collect();
            prop_assert_eq!(got, wanted);
            prop_assert_eq!(reader.finish().is_some(), tail > 0);
        }
    }
}

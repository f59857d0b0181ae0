//! Decompression as a stream, within the memory that the last bytes take: what a section may have when it is decompressed
//! its reader decides, not the file.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::ZlibDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// The memory that decompressing may take for what was written last. `zstd` asks for 8 MiB unless told otherwise.
const MOST_WINDOW: u64 = 8 << 20;

/// How a section is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Zlib,
    Zstandard,
}

impl Form {
    /// By its number in `Elf64_Chdr`.
    pub(crate) const fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Zlib),
            2 => Some(Self::Zstandard),
            _ => None,
        }
    }
}

/// Gives the first `size` bytes of what is decompressed, in pieces, and says how many there were.
///
/// # Errors
/// The stream is damaged or cannot be read, or `take` has failed.
pub(crate) fn inflate(
    form: Form,
    packed: impl Read,
    size: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let packed = BufReader::new(packed);
    let mut source: Box<dyn Read + '_> = match form {
        Form::Zlib => Box::new(ZlibDecoder::new(packed)),
        Form::Zstandard => Box::new(Frames::Between(packed)),
    };
    let mut buffer = vec![0; 1 << 16];
    let mut given = 0;
    while given < size {
        let most = usize::try_from(size - given).unwrap_or(usize::MAX);
        let most = buffer.len().min(most);
        let Some(free) = buffer.get_mut(..most) else {
            break;
        };
        match source.read(free)? {
            0 => break,
            read => {
                take(free.get(..read).unwrap_or_default())?;
                given += read as u64;
            }
        }
    }
    Ok(given)
}

/// Zstandard frames, one behind the other: linkers that compress in parallel write several.
enum Frames<R: BufRead> {
    Between(R),
    Within(Box<StreamingDecoder<R, FrameDecoder>>),
    Failed,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(self, Self::Failed) {
                Self::Between(mut rest) => {
                    if rest.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let frame = StreamingDecoder::new_with_max_window_size(rest, MOST_WINDOW);
                    *self = Self::Within(Box::new(frame.map_err(io::Error::other)?));
                }
                Self::Within(mut frame) => match frame.read(buffer)? {
                    0 => *self = Self::Between(frame.into_inner()),
                    read => {
                        *self = Self::Within(frame);
                        return Ok(read);
                    }
                },
                Self::Failed => return Ok(0),
            }
        }
    }
}

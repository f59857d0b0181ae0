//! What is packed by Zstandard (RFC 8878): one frame, of which whoever unpacks it trusts nothing.

use std::io::{self, Read as _};

use ruzstd::{
    decoding::StreamingDecoder,
    encoding::{CompressionLevel, compress_to_vec},
};

/// The memory that unpacking may take for what was unpacked last.
const MOST_WINDOW: u64 = 8 << 20;

/// Why something cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Packed {
    /// It is no frame, or not one alone.
    #[error("it is not packed by zstd as one frame ({0})")]
    Frame(io::Error),
    /// It has too many bytes.
    #[error("it has more than {0} bytes, unpacked")]
    TooLarge(usize),
}

/// As it is sent.
pub(super) fn pack(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// Unpacks one frame, behind which nothing stands: of many that are empty, each would take the memory of a whole one.
pub(super) fn unpack(body: &[u8], most: usize) -> Result<Vec<u8>, Packed> {
    let frame = StreamingDecoder::new_with_max_window_size(body, MOST_WINDOW);
    let mut frame = frame.map_err(|error| Packed::Frame(io::Error::other(error)))?;
    let mut unpacked = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let read = frame.by_ref().take(limit).read_to_end(&mut unpacked);
    read.map_err(Packed::Frame)?;
    if unpacked.len() > most {
        return Err(Packed::TooLarge(most));
    }
    if !frame.into_inner().is_empty() {
        let behind = io::Error::other("something stands behind it");
        return Err(Packed::Frame(behind));
    }
    Ok(unpacked)
}

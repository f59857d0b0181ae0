//! What DWARF is read from: a part of a file in pages, of an image, or of bytes in memory. What is read spends the
//! effort of the question (see [`effort`]).

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

use gimli::{Error, LittleEndian, ReaderOffsetId, Result};

use super::effort;
use super::pages::{Page, PagedFile};
use crate::image::Image;

/// The longest text or block that is copied as a whole.
const LONGEST_COPY: usize = 1 << 16;

/// Bytes that stand one behind the other, read from the front.
#[derive(Clone)]
pub(super) struct Reader {
    source: Source,
    /// That of the source with `at`, where it has been read.
    page: Option<Page>,
    /// Where it begins in the source.
    at: u64,
    len: usize,
}

#[derive(Clone)]
enum Source {
    Bytes(Arc<[u8]>),
    Image(Image),
    File(Arc<PagedFile>),
}

impl Reader {
    pub(super) fn empty_one() -> Self {
        Self::of_bytes(Arc::from([]))
    }

    pub(super) fn of_bytes(bytes: Arc<[u8]>) -> Self {
        Self {
            len: bytes.len(),
            source: Source::Bytes(bytes),
            page: None,
            at: 0,
        }
    }

    /// `len` bytes of an image from a file offset on; fewer where it has fewer.
    pub(super) fn of_image(image: &Image, at: u64, len: usize) -> Self {
        let all = image.data().len();
        let rest = usize::try_from(at).map_or(0, |at| all.saturating_sub(at));
        Self {
            source: Source::Image(image.clone()),
            page: None,
            at,
            len: len.min(rest),
        }
    }

    /// `len` bytes of a file from an offset on. Where the file turns out to be shorter, reading fails.
    pub(super) const fn of_file(file: Arc<PagedFile>, at: u64, len: usize) -> Self {
        Self {
            source: Source::File(file),
            page: None,
            at,
            len,
        }
    }

    /// The part from an offset on; empty where there is none.
    pub(super) fn behind(&self, offset: usize) -> Self {
        let mut rest = self.clone();
        if gimli::Reader::skip(&mut rest, offset).is_err() {
            gimli::Reader::empty(&mut rest);
        }
        rest
    }

    /// At most the first `len` bytes.
    pub(super) fn first(&self, len: usize) -> Self {
        let mut part = self.clone();
        part.len = part.len.min(len);
        part
    }

    /// The next bytes, as many of them as lie together; at least one where it is not empty.
    fn next_bytes(&mut self) -> Result<&[u8]> {
        let error = Error::UnexpectedEof(ReaderOffsetId(self.at));
        let bytes = match &self.source {
            Source::Bytes(bytes) => usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)),
            Source::Image(image) => {
                let at = usize::try_from(self.at).ok();
                at.and_then(|at| image.data().get(at..))
            }
            Source::File(file) => {
                let is_there = |page: &Page| page.from(self.at).is_some();
                if !self.page.as_ref().is_some_and(is_there) {
                    self.page = file.page(self.at);
                }
                self.page.as_ref().and_then(|page| page.from(self.at))
            }
        };
        let bytes = bytes.and_then(|bytes| bytes.get(..bytes.len().min(self.len)));
        bytes
            .filter(|bytes| !bytes.is_empty() || self.len == 0)
            .ok_or(error)
    }

    fn advance(&mut self, len: usize) {
        self.at += len as u64;
        self.len -= len;
    }

    fn eof(&self) -> Error {
        Error::UnexpectedEof(ReaderOffsetId(self.at))
    }

    fn copy(&self) -> Result<Vec<u8>> {
        if self.len > LONGEST_COPY {
            return Err(self.eof());
        }
        let mut bytes = vec![0; self.len];
        gimli::Reader::read_slice(&mut self.clone(), &mut bytes)?;
        Ok(bytes)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.len, self.at)
    }
}

impl io::Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.len == 0 {
            return Ok(0);
        }
        let bytes = self.next_bytes().map_err(io::Error::other)?;
        let len = bytes.len().min(buffer.len());
        let (Some(to), Some(from)) = (buffer.get_mut(..len), bytes.get(..len)) else {
            return Ok(0);
        };
        to.copy_from_slice(from);
        self.advance(len);
        Ok(len)
    }
}

impl gimli::Reader for Reader {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    fn len(&self) -> usize {
        self.len
    }

    fn empty(&mut self) {
        self.len = 0;
    }

    fn truncate(&mut self, len: usize) -> Result<()> {
        if len > self.len {
            return Err(self.eof());
        }
        self.len = len;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        usize::try_from(self.at.saturating_sub(base.at)).unwrap_or(usize::MAX)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let offset = usize::try_from(id.0.checked_sub(self.at)?).ok()?;
        (offset <= self.len).then_some(offset)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let mut rest = self.clone();
        while rest.len > 0 {
            let bytes = rest.next_bytes()?;
            let found = bytes.iter().position(|&other| other == byte);
            let passed = found.unwrap_or(bytes.len());
            rest.advance(passed);
            if !effort::spend(passed) {
                break;
            }
            if found.is_some() {
                return Ok(rest.offset_from(self));
            }
        }
        Err(self.eof())
    }

    fn skip(&mut self, len: usize) -> Result<()> {
        if len > self.len || !effort::spend(0) {
            return Err(self.eof());
        }
        self.advance(len);
        Ok(())
    }

    fn split(&mut self, len: usize) -> Result<Self> {
        if len > self.len || !effort::spend(0) {
            return Err(self.eof());
        }
        let mut part = self.clone();
        part.len = len;
        self.advance(len);
        Ok(part)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        let together = usize::try_from(self.at).ok().and_then(|at| {
            let bytes: &[u8] = match &self.source {
                Source::Bytes(bytes) => bytes,
                Source::Image(image) => image.data(),
                Source::File(_) => return None,
            };
            bytes.get(at..at.checked_add(self.len)?)
        });
        match together {
            Some(bytes) => Ok(bytes.into()),
            None => Ok(self.copy()?.into()),
        }
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        let text = String::from_utf8(self.copy()?);
        text.map(Cow::Owned).map_err(|_| Error::BadUtf8)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Ok(String::from_utf8_lossy(&self.copy()?).into_owned().into())
    }

    fn read_u8(&mut self) -> Result<u8> {
        if self.len == 0 || !effort::spend(1) {
            return Err(self.eof());
        }
        let byte = self.next_bytes()?.first().copied();
        self.advance(1);
        byte.ok_or_else(|| self.eof())
    }

    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        if buffer.len() > self.len || !effort::spend(buffer.len()) {
            return Err(self.eof());
        }
        let mut rest = buffer;
        while !rest.is_empty() {
            let bytes = self.next_bytes()?;
            let len = bytes.len().min(rest.len());
            let (to, behind) = rest.split_at_mut(len);
            to.copy_from_slice(bytes.get(..len).unwrap_or_default());
            rest = behind;
            self.advance(len);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use gimli::Reader as _;

    use super::*;

    /// Check that bytes in memory and in a file read alike, across pages, and that reading ends with the effort of a
    /// question.
    #[test]
    fn sources_read_alike() {
        effort::begin();
        let bytes: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let file = Arc::new(PagedFile::new(file));
        let readers = [
            Reader::of_bytes(bytes.clone().into()),
            Reader::of_file(file, 0, bytes.len()),
        ];
        for mut whole in readers {
            let mut part = whole.split(65_534).unwrap();
            assert_eq!((part.len(), whole.offset_from(&part)), (65_534, 65_534));
            part.skip(65_530).unwrap();
            assert_eq!(part.read_u32().unwrap(), 0x3fff_0000);
            assert!(part.read_u8().is_err() && part.is_empty());
            assert_eq!(whole.read_u64().unwrap(), 0x4001_0000_4000_0000);
            whole.skip(2).unwrap();
            let at = whole.find(0xff).unwrap();
            assert_eq!(whole.behind(at).read_u8().unwrap(), 0xff);
            assert!(whole.first(3).find(0xff).is_err());
            assert_eq!(*whole.first(4).to_slice().unwrap(), [2, 0x40, 0, 0]);
            assert!(whole.to_string_lossy().is_err(), "too long to be copied");
            effort::leave(100);
            assert!(whole.read_u64().is_ok());
            while whole.read_u8().is_ok() {}
            assert!(effort::is_spent() && !whole.is_empty());
            effort::begin();
        }
    }

    /// Check that a file that has become shorter ends without an answer.
    #[test]
    fn cut_short() {
        effort::begin();
        let file = tempfile::tempfile().unwrap();
        file.set_len(10).unwrap();
        let mut reader = Reader::of_file(Arc::new(PagedFile::new(file)), 4, 100);
        assert_eq!(reader.read_u32().unwrap(), 0);
        assert!(reader.read_u64().is_err());
        assert!(reader.find(1).is_err());
    }
}

//! The files in an archive (`ar`): static libraries, Rust's `.rlib`. The format: `ar.h`, with the long
//! names and thin archives of GNU and the long names of BSD, read by the `object` crate.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::read::archive::ArchiveFile;

use super::{Bytes, Image, ImageError};

/// What archives begin with; thin ones name files elsewhere.
const MAGICS: [&[u8]; 2] = [b"!<arch>\n", b"!<thin>\n"];

/// `sizeof(struct ar_hdr)`, and where it has the size of what follows, in decimal digits.
const HEADER_SIZE: usize = 60;
const SIZE_FIELD: Range<usize> = 48..58;

/// An archive of files, mapped.
pub struct Archive {
    bytes: Arc<Bytes>,
    members: Vec<Member>,
}

struct Member {
    /// The archive's name, with the member's in parentheses.
    name: PathBuf,
    place: Place,
}

enum Place {
    /// Its bytes within the archive.
    Within(Range<usize>),
    /// Of a thin archive: the file.
    Elsewhere(PathBuf),
}

impl Archive {
    /// The archive that these bytes are of; gives them back where they are of something else.
    pub(super) fn parse(bytes: Bytes, name: &Path) -> Result<Result<Self, Bytes>, ImageError> {
        let data = bytes.as_slice();
        if !MAGICS.iter().any(|magic| data.starts_with(magic)) {
            return Ok(Err(bytes));
        }
        let members = members(data, name).map_err(|error| ImageError::Unsupported {
            file: name.into(),
            what: format!("an archive that cannot be read ({error})"),
            mend: "the file is damaged: build it or copy it again",
        })?;
        let bytes = Arc::new(bytes);
        Ok(Ok(Self { bytes, members }))
    }

    /// How many files it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Its files: their names, and what there is to be read of each.
    pub fn members(&self) -> impl Iterator<Item = (&Path, Result<Image, ImageError>)> {
        self.members.iter().map(|member| {
            let name = member.name.as_path();
            let image = match &member.place {
                Place::Within(range) => {
                    Image::new(Bytes::Part(Arc::clone(&self.bytes), range.clone()), name)
                }
                Place::Elsewhere(path) => Image::open_any(path),
            };
            (name, image)
        })
    }
}

/// Checks that the whole of each header, and of what follows it, is there: the symbol table and the names are no
/// members, and where they are cut short there seem to be none.
fn check_whole(data: &[u8]) -> Result<(), String> {
    let is_thin = data.starts_with(MAGICS[1]);
    let mut at = MAGICS[0].len();
    while at < data.len() {
        let cut = || format!("it ends within what begins at offset {at:#x}");
        let header = data.get(at..).and_then(|tail| tail.get(..HEADER_SIZE));
        let header = header.ok_or_else(cut)?;
        let digits = header.get(SIZE_FIELD).unwrap_or_default().trim_ascii();
        let size: usize = (str::from_utf8(digits).ok())
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| format!("at offset {at:#x} there is no size"))?;
        // The files of thin archives are elsewhere; the tables are not.
        let is_table = header.starts_with(b"/ ") || header.starts_with(b"//");
        let is_table = is_table || header.starts_with(b"/SYM64/");
        let size = if is_thin && !is_table { 0 } else { size };
        let end = (at + HEADER_SIZE).checked_add(size);
        let end = end.filter(|&end| end <= data.len()).ok_or_else(cut)?;
        at = end.next_multiple_of(2);
    }
    Ok(())
}

fn members(data: &[u8], name: &Path) -> Result<Vec<Member>, String> {
    check_whole(data)?;
    let archive = ArchiveFile::parse(data).map_err(|error| error.to_string())?;
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.map_err(|error| error.to_string())?;
        let own_name = String::from_utf8_lossy(member.name());
        let place = if member.is_thin() {
            // Relative to the archive, as `ar` writes it.
            let dir = name.parent().unwrap_or(Path::new(""));
            Place::Elsewhere(dir.join(&*own_name))
        } else {
            let (start, size) = member.file_range();
            let start = usize::try_from(start).unwrap_or(usize::MAX);
            let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
            if end > data.len() {
                return Err(format!("its member {own_name} is cut short"));
            }
            Place::Within(start..end)
        };
        members.push(Member {
            name: format!("{}({own_name})", name.display()).into(),
            place,
        });
    }
    Ok(members)
}

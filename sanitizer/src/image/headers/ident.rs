//! Whose file it is: class, byte order, machine and kind.

use std::path::Path;

use crate::image::machine::Machine;
use crate::image::{Encoding, ImageError};

const EI_CLASS: usize = 4;

const EI_DATA: usize = 5;

const ELFCLASS32: u8 = 1;

const ELFCLASS64: u8 = 2;

const ELFDATA2LSB: u8 = 1;

const ELFDATA2MSB: u8 = 2;

const ET_REL: u16 = 1;

const ET_EXEC: u16 = 2;

const ET_DYN: u16 = 3;

const ET_CORE: u16 = 4;

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    FixedAddress,
    PositionIndependent,
    Object,
}

pub(super) fn encoding_of(data: &[u8], file: &Path) -> Result<Encoding, ImageError> {
    let class = data.get(EI_CLASS).copied();
    let order = data.get(EI_DATA).copied();
    let is_known = matches!(class, Some(ELFCLASS32 | ELFCLASS64) | None)
        && matches!(order, Some(ELFDATA2LSB | ELFDATA2MSB) | None);
    if !is_known {
        return Err(ImageError::Unsupported {
            file: file.into(),
            what: "an ELF file of a class or a byte order that there is not".into(),
            mend: "the file is damaged: build it or copy it again",
        });
    }
    Ok(Encoding {
        is_32_bit: class == Some(ELFCLASS32),
        is_big_endian: order == Some(ELFDATA2MSB),
    })
}

pub(super) fn kind_of(
    header: &[u8],
    encoding: Encoding,
    file: &Path,
) -> Result<(Machine, FileKind), ImageError> {
    let unsupported = |what: String, mend| ImageError::Unsupported {
        file: file.into(),
        what,
        mend,
    };
    let half = |at| encoding.u16_at(header, at).unwrap_or_default();
    let machine = Machine::of(half(18));
    match half(16) {
        ET_EXEC => Ok((machine, FileKind::FixedAddress)),
        ET_DYN => Ok((machine, FileKind::PositionIndependent)),
        ET_REL => Ok((machine, FileKind::Object)),
        ET_CORE => Err(unsupported(
            "a core dump".into(),
            "give the executable that dumped it",
        )),
        other => Err(unsupported(
            format!("ELF type {other}"),
            "give an executable or a shared library",
        )),
    }
}

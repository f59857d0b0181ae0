//! Sections that a linker or `objcopy` has compressed: the System V ABI's `SHF_COMPRESSED`, with
//! `Elf64_Chdr` or `Elf32_Chdr` in front.

use std::path::Path;

use super::inflate::{Form, inflate};
use super::{Encoding, ImageError};

/// How many times its size a section may have decompressed, unless it is small. Tables shrink to a third or a tenth; a
/// larger factor asks for memory rather than for a table.
const MOST_GROWTH: u64 = 64;
const SMALL: u64 = 1 << 20;
/// What any section may have decompressed: the tables of the largest programs have a tenth of it.
const MOST_BYTES: u64 = 32 << 20;

/// The bytes of the section `name`, of which the file has `data`.
pub(super) fn decompress(
    data: &[u8],
    encoding: Encoding,
    file: &Path,
    name: &str,
) -> Result<Vec<u8>, ImageError> {
    let unsupported = |what: String| ImageError::Unsupported {
        file: file.into(),
        what: format!("section {name} {what}"),
        mend: "write it as it is: llvm-objcopy --compress-sections=NAME=none FILE",
    };
    let truncated = || unsupported("ends within the header of its compression".into());
    // The form, in eight bytes where addresses have eight; the size, and the alignment.
    let word = encoding.address_size();
    let number = encoding.u32_at(data, 0).ok_or_else(truncated)?;
    let size = encoding.word_at(data, word).ok_or_else(truncated)?;
    let packed = data.get(3 * word..).ok_or_else(truncated)?;
    let form = Form::of(number)
        .ok_or_else(|| unsupported(format!("is compressed in the unknown form {number}")))?;
    let most = (data.len() as u64).saturating_mul(MOST_GROWTH);
    if size > most.clamp(SMALL, MOST_BYTES) {
        return Err(unsupported(format!(
            "says that it has {size:#x} bytes when it is decompressed, too many to be true or to be kept"
        )));
    }
    let mut bytes = Vec::new();
    let taken = inflate(form, packed, size, |more| {
        bytes.extend_from_slice(more);
        Ok(())
    });
    match taken {
        Ok(taken) if taken == size => Ok(bytes),
        Ok(taken) => Err(unsupported(format!(
            "cannot be decompressed (it ends after {taken:#x} of {size:#x} bytes)"
        ))),
        Err(error) => Err(unsupported(format!("cannot be decompressed ({error})"))),
    }
}

//! Files that are read by the process that needs to know of them.

use std::path::Path;

use super::{Outline, Outlined};
use crate::image::{HandedOver, Image, Raw};
use crate::tracee::modules::{ModuleError, OpenFile, Reads};

/// See the module.
pub struct Here;

impl Reads<Outlined> for Here {
    fn file(&mut self, file: OpenFile<'_>) -> Result<Outlined, ModuleError> {
        read(match file.is_served {
            true => Raw::of_served_file(file.file, file.name)?,
            false => Raw::of_file(file.file, file.name)?,
        })
    }

    fn bytes(&mut self, bytes: Vec<u8>, name: &Path) -> Result<Outlined, ModuleError> {
        read(Raw::of_bytes(bytes, name))
    }
}

fn read(mut raw: Raw) -> Result<Outlined, ModuleError> {
    raw.check_elf()?;
    let image = match raw.handed_over() {
        HandedOver::File(file, size) => {
            Image::from_file_of_size(file, size, raw.name())?.linked()?
        }
        HandedOver::Bytes(bytes) => Image::parse(bytes.to_vec(), raw.name())?,
    };
    let outline = Outline::of(&image);
    raw.close();
    Ok(Outlined::new(raw, outline))
}

//! Whether exceptions may lead into a function: those that have a place for it are described with a table of their
//! own (LSDA; Linux Standard Base, "Exception Frames").

use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, UnwindSection as _};

use crate::addr::LinkAddr;
use crate::image::Image;

/// Whether the function at an address has such a table; also where that is not known.
pub(super) fn may_land(image: &Image, pc: LinkAddr) -> bool {
    has_table(image, pc).unwrap_or(true)
}

fn has_table(image: &Image, pc: LinkAddr) -> Option<bool> {
    const ADDRESS_SIZE: u8 = 8;
    let section = |name| {
        image
            .section(name)
            .filter(|section| !section.data.is_empty())
    };
    let (header, frames) = (section(".eh_frame_hdr")?, section(".eh_frame")?);
    let address = |name| image.section(name).map_or(0, |section| section.address.0);
    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(header.address.0)
        .set_eh_frame(frames.address.0)
        .set_text(address(".text"))
        .set_got(address(".got"));
    let mut descriptions = EhFrame::new(frames.data, LittleEndian);
    descriptions.set_address_size(ADDRESS_SIZE);
    let header = EhFrameHdr::new(header.data, LittleEndian)
        .parse(&bases, ADDRESS_SIZE)
        .ok()?;
    let description = header
        .table()?
        .fde_for_address(&descriptions, &bases, pc.0, EhFrame::cie_from_offset)
        .ok()?;
    Some(description.lsda().is_some())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use object::{Object as _, ObjectSymbol as _};

    use super::*;

    const SOURCE: &str = r#"
extern "C" {
void work();
struct Held { ~Held(); };
void holds() { Held held; work(); }
void passes_through() { work(); work(); }
}
"#;

    /// Check that a function with a destructor to run may be landed in, and one without may not; nor is that claimed
    /// of what is not described.
    #[test]
    fn by_their_tables() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let (source, program) = (dir.path().join("a.cpp"), dir.path().join("a.so"));
        std::fs::write(&source, SOURCE).expect("the source can be written");
        let status = Command::new("clang++-22")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([&program, &source])
            .status()
            .expect("clang++-22 is installed");
        assert!(status.success());
        let bytes = std::fs::read(&program).expect("the library is there");
        let file = object::File::parse(&*bytes).expect("it parses");
        let image = Image::open(&program).expect("it is a library");
        let lands = |name: &str| {
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
            may_land(&image, LinkAddr(symbol.expect("it is there").address() + 1))
        };
        assert!(lands("holds"));
        assert!(!lands("passes_through"));
        assert!(may_land(&image, LinkAddr(1)));
    }
}

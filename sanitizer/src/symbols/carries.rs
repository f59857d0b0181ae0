//! Whether a file carries metadata, by its headers (gabi, elf(5)): what is asked of the files of all programs of a machine, by whoever decides which of them to watch.

use std::io;

use super::elf_headers::{Headers, SHF_ALLOC, SHT_NOBITS, SHT_NULL, Section};
use super::read_at::ReadAt;
use crate::image::Machine;
use crate::pcmeta::is_metadata;

/// Files that linkers have made: programs at a fixed address, and programs and libraries at any.
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

/// What the headers of a file tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Whether it is a whole program or library with metadata, of whatever version.
    pub metadata: bool,
    /// The GNU build id; empty where there is none.
    pub build_id: Vec<u8>,
    /// Whether it ends before its tables do.
    pub is_cut: bool,
}

impl Carried {
    /// By a file of so many bytes. What is read of it, and the memory for that, is bounded.
    ///
    /// # Errors
    /// Fails for what is no ELF file of 64 bits, and where it cannot be read.
    pub fn by(file: &(impl ReadAt + ?Sized), size: u64) -> io::Result<Self> {
        let headers = Headers::read(file)?;
        let is_linked =
            matches!(headers.kind, ET_EXEC | ET_DYN) && Machine::of(headers.machine).is_known();
        Ok(Self {
            metadata: is_linked
                && is_whole(&headers, size)
                && headers.sections.iter().any(has_metadata),
            build_id: headers.build_id,
            is_cut: headers.end > size,
        })
    }
}

/// Whether all is there that its headers tell of.
fn is_whole(headers: &Headers, size: u64) -> bool {
    let mut segments = headers.segments.iter();
    headers.end <= size
        && segments.all(|segment| segment.offset.saturating_add(segment.file_size) <= size)
}

fn has_metadata(section: &Section) -> bool {
    section.has(SHF_ALLOC)
        && section.size > 0
        && ![SHT_NULL, SHT_NOBITS].contains(&section.kind)
        && str::from_utf8(&section.name).is_ok_and(is_metadata)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::symbols::tests::child::{sources, tool};
    use crate::{image::Image, pcmeta::Metadata};

    const SOURCE: &str = "int shared; int main(void) { return shared; }\n";
    const METADATA: &str = "-fexperimental-sanitize-metadata=atomics";

    /// Check that headers tell of whole programs and libraries that carry metadata, and of nothing else, what those tell who read all of them; by an open file as by its bytes.
    #[test]
    fn headers_tell() {
        let dir = sources(&[("code.c", SOURCE)]);
        let at = |name: &str| dir.path().join(name);
        let with = "with";
        let builds: [(&str, &[&str]); 6] = [
            (with, &[METADATA, "-Wl,--build-id"]),
            ("without", &[]),
            ("library", &[METADATA, "-shared", "-fPIC"]),
            ("fixed", &[METADATA, "-no-pie"]),
            ("object", &[METADATA, "-c"]),
            ("other", &[METADATA, "-c", "--target=s390x-linux-gnu"]),
        ];
        for (name, flags) in builds {
            let arguments = [flags, &["code.c", "-o", name][..]].concat();
            tool(dir.path(), "clang-22", &arguments);
        }
        for (flag, name) in [("--strip-sections", "bare"), ("--strip-all", "stripped")] {
            tool(dir.path(), "llvm-objcopy-22", &[flag, with, name]);
        }
        let whole = fs::read(at(with)).unwrap();
        for (name, len) in [
            ("cut", whole.len() - 1),
            ("half", whole.len() / 2),
            ("header", 40),
        ] {
            fs::write(at(name), &whole[..len]).unwrap();
        }
        for (name, expected) in [
            (with, true),
            ("stripped", true),
            ("library", true),
            ("fixed", true),
            ("without", false),
            ("object", false),
            ("other", false),
            ("bare", false),
            ("cut", false),
            ("half", false),
            ("header", false),
            ("code.c", false),
        ] {
            let path = at(name);
            let told = |carried: io::Result<Carried>| carried.is_ok_and(|told| told.metadata);
            let size = fs::metadata(&path).unwrap().len();
            let by_file = Carried::by(&File::open(&path).unwrap(), size);
            assert_eq!(told(by_file), expected, "{name}");
            let bytes = fs::read(&path).unwrap();
            assert_eq!(told(Carried::by(&bytes[..], size)), expected, "{name}");
            let by_all = Image::open(&path).is_ok_and(|image| Metadata::is_carried_by(&image));
            assert_eq!(by_all, expected, "{name}");
        }
        let carried = Carried::by(&whole[..], whole.len() as u64).unwrap();
        assert!(!carried.build_id.is_empty() && !carried.is_cut);
        let image = Image::open(&at(with)).unwrap();
        assert_eq!(Some(&carried.build_id[..]), image.build_id());
        // The headers of sections are at its end.
        let cut = Carried::by(&whole[..], whole.len() as u64 - 1).unwrap();
        assert!(cut.is_cut && cut.build_id == carried.build_id);
    }

    /// Check that whatever stands in the first headers, there is an answer.
    #[test]
    fn damaged_headers() {
        let dir = sources(&[("code.c", SOURCE)]);
        tool(dir.path(), "clang-22", &[METADATA, "code.c", "-o", "with"]);
        let whole = fs::read(dir.path().join("with")).unwrap();
        let mut answers = [0; 2];
        for at in 0..1024 {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let carried = Carried::by(&bytes[..], bytes.len() as u64);
                answers[usize::from(carried.is_ok_and(|told| told.metadata))] += 1;
            }
        }
        assert!(answers.iter().all(|count| *count > 0), "{answers:?}");
    }
}

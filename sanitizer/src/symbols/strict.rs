//! Whether code was compiled by the strict flags of the user guide, under which LLVM executes no load that the source does not ask for
//! (`mustSuppressSpeculation` of `llvm/lib/Analysis/ValueTracking.cpp`, by the attribute `sanitize_thread`). Nothing but the constructor tells that
//! each such object has, among the local symbols behind the one with the name of its source file (gabi, "Symbol Table").

use gimli::{UnitOffset, UnitRef, constants as dw};

use super::entries::Entries;
use super::reader::Reader;
use super::text;

/// The constructor (`kTsanModuleCtorName` of `ThreadSanitizer.cpp`).
pub(super) const CONSTRUCTOR: &str = "tsan.module_ctor";

/// The first clang that leaves out functions which are not to be checked, and so are not compiled strictly, of the metadata as well; older ones
/// were not looked at, but for 16, which does not.
const FIRST_CLANG: u32 = 22;

/// The file name of a unit's source, where its compiler is one of these.
pub(super) fn source(
    unit: &UnitRef<'_, Reader>,
    function: Option<UnitOffset<usize>>,
) -> Option<String> {
    function?;
    let entries = Entries::of(*unit);
    let root = entries.at(entries.root()?)?;
    let text = |name| text::of(&unit.attr_string(root.attr_value(name)?).ok()?);
    if !is_known(&text(dw::DW_AT_producer)?) {
        return None;
    }
    let path = text(dw::DW_AT_name)?;
    path.rsplit('/').next().map(str::to_owned)
}

fn is_known(producer: &str) -> bool {
    let version = producer.split_once("clang version ");
    let major = version.and_then(|(_, version)| version.split('.').next()?.parse().ok());
    major.is_some_and(|major: u32| major >= FIRST_CLANG)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which compilers are known.
    #[test]
    fn compilers() {
        assert!(is_known("Debian clang version 22.1.8 (1~deb12u1)"));
        assert!(is_known("clang version 23.0.0"));
        assert!(!is_known("Debian clang version 16.0.6 (15~deb12u1)"));
        assert!(!is_known("clang LLVM (rustc version 1.95.0)"));
        assert!(!is_known("GNU C17 14.2.0"));
    }
}

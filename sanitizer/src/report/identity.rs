//! What a race is called, so that two runs mean the same one: three levels, from the exact to what people have in hand. Each name begins with
//! the version of the rule by which it is made, and a rule that changes gets another version: names are stored for years.
//!
//! - *pair*: the build and offset of both instructions. Needs no symbols, and is another one in each build.
//! - *race*: of both sides the function with its parameters, what the access does and its line counted from the function's declaration, and the
//!   variable with the way to its member. The same after a rebuild with changes elsewhere, with other options, or in another folder.
//! - *issue*: the two functions, each with the names of its module and of its file: several files may have functions of one name.
//!
//! A side is the innermost frame of the user's own code: what is inlined of a library differs from build to build. Where that has no name, in a program without symbols, it is its exact
//! place; the name of a caller would be that of many races.

use sha2::{Digest as _, Sha256};

use super::clean::clean;
use super::model::{Access, Identity, LocationKind, Race, StackFrame};
use super::names;
use super::own_code::own_place;
use crate::insn::AccessKind;

/// The version of all rules; it stands behind the letter of the level.
pub const VERSION: u32 = 3;
/// Bytes of a hash that are kept.
const KEPT: usize = 16;
/// An element of an array, in the way to a member.
const ELEMENT: &str = "[]";

/// The names of a race, which are made of nothing but what its JSON form has.
#[must_use]
pub fn identity(race: &Race) -> Identity {
    let sides = &race.accesses;
    let pair = match sides.each_ref().map(exact) {
        [Some(first), Some(second)] => Some(name('p', [first, second], "")),
        _ => None,
    };
    Identity {
        pair,
        race: name('r', sides.each_ref().map(side), &variable(race)),
        issue: name('i', sides.each_ref().map(function), ""),
    }
}

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoName {
    /// It does not look like one.
    Form,
    /// It is one of this other version.
    Version(u32),
}

/// Checks that a text may be one of the names.
///
/// # Errors
/// It cannot be, or not one of this version.
pub fn check(text: &str) -> Result<(), NoName> {
    let (level, hash) = text.split_once(':').ok_or(NoName::Form)?;
    let version = level.strip_prefix(['p', 'r', 'i']).ok_or(NoName::Form)?;
    let is_hash = hash.len() == 2 * KEPT
        && hash
            .bytes()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let version: u32 = version.parse().map_err(|_| NoName::Form)?;
    match (is_hash, version == VERSION) {
        (false, _) => Err(NoName::Form),
        (true, false) => Err(NoName::Version(version)),
        (true, true) => Ok(()),
    }
}

/// Checks that all names of a race are such as [`identity`] makes.
///
/// # Errors
/// One is not, or is one of another version.
pub fn check_all(names: &Identity) -> Result<(), NoName> {
    let all = [
        ('r', Some(&names.race)),
        ('i', Some(&names.issue)),
        ('p', names.pair.as_ref()),
    ];
    for (level, name) in all {
        let Some(name) = name else { continue };
        check(name)?;
        if !name.starts_with(&format!("{level}{VERSION}:")) {
            return Err(NoName::Form);
        }
    }
    Ok(())
}

/// The name of two sides, whichever was stalled.
fn name(level: char, mut sides: [String; 2], of_both: &str) -> String {
    sides.sort();
    let [first, second] = sides;
    let hash = Sha256::digest(format!("{level}{VERSION}\n{first}\n{second}\n{of_both}\n"));
    let mut name = format!("{level}{VERSION}:");
    for byte in hash.iter().take(KEPT) {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

fn exact(access: &Access) -> Option<String> {
    let frame = access.stack.first()?;
    Some(format!("{}\t{}", frame.build_id.as_deref()?, frame.offset))
}

/// What is stable of a side: the writing half of an instruction that reads as well counts, since it depends on options whether there is one
/// instruction or two.
fn side(access: &Access) -> String {
    let kind = match access.kind {
        AccessKind::Read => "read",
        AccessKind::Write | AccessKind::ReadWrite => "write",
    };
    let atomic = if access.atomic { "atomic" } else { "plain" };
    let place = own_place(access);
    let line = place.map(line).unwrap_or_default();
    let name = place.and_then(|frame| frame.function.as_deref());
    let parameters = clean(names::parameters(name.unwrap_or_default()));
    format!("{}{parameters}\t{kind}\t{atomic}\t{line}", function(access))
}

/// A line counted from the declaration of its function; from the beginning of its file where that is not known, or comes later.
fn line(frame: &StackFrame) -> String {
    let Some(line) = frame.line else {
        return String::new();
    };
    match frame
        .function_line
        .and_then(|first| line.checked_sub(first))
    {
        Some(line) => format!("+{line}"),
        None => format!(":{line}"),
    }
}

/// The function of a side, its module and its file. Where it has no name, the exact place: what is elsewhere in another build is not to be taken for it.
fn function(access: &Access) -> String {
    let Some(frame) = own_place(access) else {
        let module = access.module.as_deref().unwrap_or_default();
        return format!("{}\t@{}", clean(names::module(module)), access.offset);
    };
    let module = names::module(frame.module.as_deref().unwrap_or_default());
    let module = clean(module);
    match frame.function.as_deref() {
        Some(function) => {
            let file = names::file(frame.file.as_deref().unwrap_or_default());
            let function = names::function(function);
            format!("{module}\t{}\t{}", clean(file), clean(&function))
        }
        None => {
            let build = frame.build_id.as_deref().unwrap_or_default();
            format!("{module}\t{build}@{}", frame.offset)
        }
    }
}

/// The variable, as far as its name is that of the source. An array is what its elements are: one instruction may access several.
fn variable(race: &Race) -> String {
    let location = &race.location;
    match (location.kind, &location.name) {
        (LocationKind::Global, Some(name)) => {
            let member = location.member.as_deref().unwrap_or_default();
            let member = member.trim_end_matches(ELEMENT);
            format!("{}{}", clean(&names::variable(name)), clean(member))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

//! What a function calls the bytes at an address: by a variable of its own, or by the type of an object to which one points.

use gimli::{LocationLists, UnitOffset, UnitRef, constants as dw};
use serde::{Deserialize, Serialize};

use super::super::entries::{DEPTH, Entries, Entry};
use super::super::reader::Reader;
use super::super::text;
use super::Stopped;
use super::bytes::Types;
use super::path::way_to;
use super::variables::{Found, Variables, is_pointer};

/// See the module. Nothing is told where several would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The variable that has the bytes, with the way from it to them: `total.value`.
    pub variable: Option<String>,
    /// The object to which a variable points.
    pub pointee: Option<Pointee>,
}

/// An object that has a structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointee {
    /// What its type is called.
    pub name: String,
    /// The way from it to the bytes: `.last[].hits`. Empty where they are all of it, or more than one member.
    pub member: String,
}

/// What the variables of `function` are called that have, or point to, all of the `len` bytes from the run-time address `address` on. `bias` is what was added to
/// link-time addresses, `cfa` the canonical frame address, `locations` are the file's lists of where variables are.
pub(in crate::symbols) fn named_at(
    unit: &UnitRef<'_, Reader>,
    function: Option<UnitOffset<usize>>,
    locations: &LocationLists<Reader>,
    stopped: Stopped<'_>,
    (bias, cfa): (u64, Option<u64>),
    (address, len): (u64, u32),
) -> Named {
    let entries = Entries::of(*unit);
    let types = Types::of(&entries);
    let variables = Variables {
        entries: &entries,
        locations,
        stopped,
        bias,
        cfa,
    };
    // How far into an object the bytes are, if all are in it; and its size.
    let within = |start: u64, ty| {
        let size = types.size(ty)?;
        let offset = address.checked_sub(start)?;
        (offset.checked_add(len.into())? <= size).then_some((offset, size))
    };
    let (mut own, mut pointees) = (Vec::new(), Vec::new());
    let all = variables.each_of_the_function(function, |variable, ty, found| {
        if let Found::At(place) = found
            && let Some((offset, _)) = within(place, ty.offset())
        {
            let way = way_to(&entries, &types, ty.offset(), (offset, len));
            own.push(name_where_declared(&entries, variable).map(|name| name + &way));
        } else if is_pointer(ty) {
            pointees.extend((|| {
                let target = entries.type_of(ty)?;
                let (offset, size) = within(variables.pointer(found)?, target)?;
                let name = name_of_structure(&entries, target)?;
                let member = way_to(&entries, &types, target, (offset, len));
                Some((size, Pointee { name, member }))
            })());
        }
    });
    if all.is_none() {
        return Named::default();
    }
    // Of an object and its part, to both of which something points, the object. What is no part of it contradicts it, as a pointer does that was not assigned yet.
    let largest = pointees.iter().max_by_key(|(size, _)| *size).cloned();
    if let Some((largest, object)) = largest {
        pointees.retain(|(size, part)| *size == largest || !object.member.ends_with(&part.member));
    }
    let pointees = pointees.into_iter().map(|(_, pointee)| Some(pointee));
    Named {
        variable: only(own.into_iter()),
        pointee: only(pointees),
    }
}

/// The one of which all are.
fn only<T: PartialEq>(mut all: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first))
        .then_some(first)
}

fn name(entries: &Entries<'_>, entry: &Entry) -> Option<String> {
    let name = entries
        .unit()
        .attr_string(entry.attr_value(dw::DW_AT_name)?);
    text::of(&name.ok()?)
}

/// The name of a variable, which may stand where it is declared.
fn name_where_declared(entries: &Entries<'_>, variable: &Entry) -> Option<String> {
    let mut entry = variable.clone();
    for _ in 0..DEPTH {
        if let Some(name) = name(entries, &entry) {
            return Some(name);
        }
        entry = entries.at(entries.referenced(&entry, dw::DW_AT_abstract_origin)?)?;
    }
    None
}

/// What a type is called, by a name that was given to it as well, if its values have members.
fn name_of_structure(entries: &Entries<'_>, ty: UnitOffset<usize>) -> Option<String> {
    let is_structure = |entry: &Entry| {
        matches!(
            entry.tag(),
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type
        )
    };
    entries.plain(ty).filter(is_structure)?;
    let mut entry = entries.at(ty)?;
    for _ in 0..DEPTH {
        if let Some(name) = name(entries, &entry) {
            return Some(name);
        }
        entry = entries.at(entries.type_of(&entry)?)?;
    }
    None
}

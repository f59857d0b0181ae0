//! Circles of imports between the modules of a folder.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;

/// What the modules of one folder import from each other, with an example for each.
type Folder<'a> = BTreeMap<&'a str, BTreeMap<&'a str, String>>;

/// Each import that is part of a circle, told.
pub fn of(tree: &Tree) -> Vec<String> {
    let mut folders: BTreeMap<&[String], Folder<'_>> = BTreeMap::new();
    for (names, module) in &tree.modules {
        for (home, path) in tree.imported(module) {
            let common = names.iter().zip(home).take_while(|(a, b)| a == b).count();
            // Nothing where one is the other's parent.
            if let (Some(from), Some(to)) = (names.get(common), home.get(common)) {
                let folder = folders.entry(&names[..common]).or_default();
                let example = || format!("{} imports {}", told(names), told(path));
                folder
                    .entry(from)
                    .or_default()
                    .entry(to)
                    .or_insert_with(example);
            }
        }
    }
    let mut circles = Vec::new();
    for (names, folder) in &folders {
        for (from, imported) in folder {
            for (to, example) in imported {
                if reaches(folder, to, from) {
                    circles.push(format!("in {}: {example}", told(names)));
                }
            }
        }
    }
    circles
}

fn told(names: &[String]) -> String {
    ["crate"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join("::")
}

/// Whether a module imports from another one, directly or by others.
fn reaches(folder: &Folder<'_>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut pending = vec![from];
    while let Some(name) = pending.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            pending.extend(folder.get(name).into_iter().flat_map(BTreeMap::keys));
        }
    }
    false
}

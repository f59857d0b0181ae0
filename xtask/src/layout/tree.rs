//! The modules of a crate, as their declarations lead to them, with what each imports and defines. Those of tests are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::tokens;

/// The path of a module from the root of its crate, or of something in it.
pub type Names = Vec<String>;

/// What begins the tests of a file.
const TESTS: &str = "#[cfg(test)]\nmod tests {";
/// The same before a single item, as tokens.
const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// One module.
pub struct Module {
    pub file: PathBuf,
    /// Lines of its file, without its tests.
    pub lines: usize,
    /// Each imported path from the crate's root, and the name that it has here; `*` for all of a module.
    imports: Vec<(Names, String)>,
    /// What is named by its path, as if it were imported.
    mentions: Vec<Names>,
    defines: BTreeSet<String>,
}

/// All modules of a crate.
pub struct Tree {
    pub modules: BTreeMap<Names, Module>,
}

impl Tree {
    /// The modules of the crate that begins with this file.
    pub fn read(root: &Path) -> Result<Self> {
        let mut modules = BTreeMap::new();
        let folder = root.parent().context("a file without a folder")?;
        let mut pending = vec![(Names::new(), root.to_owned(), folder.to_owned())];
        while let Some((names, file, folder)) = pending.pop() {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let code = text.find(TESTS).map_or(&text[..], |at| &text[..at]);
            let (module, children) = read(file, code, &names);
            for child in children {
                let beside = folder.join(format!("{child}.rs"));
                let below = folder.join(&child).join("mod.rs");
                // What stands elsewhere is a module of another crate, too.
                if let Some(file) = [beside, below].into_iter().find(|file| file.is_file()) {
                    let names = names.iter().cloned().chain([child.clone()]).collect();
                    pending.push((names, file, folder.join(child)));
                }
            }
            modules.insert(names, module);
        }
        Ok(Self { modules })
    }

    /// The modules from which one takes something, where they are defined, and the path by which it is named.
    pub fn imported<'a>(
        &'a self,
        from: &'a Module,
    ) -> impl Iterator<Item = (&'a Names, &'a Names)> {
        let imports = from.imports.iter().map(|(names, _)| names);
        let all = imports.chain(&from.mentions);
        all.filter_map(|names| Some((self.home(names, &mut BTreeSet::new())?, names)))
    }

    /// The module in which something is defined, whoever else passes it on.
    fn home<'a>(&'a self, names: &[String], seen: &mut BTreeSet<Names>) -> Option<&'a Names> {
        let depth = (0..=names.len())
            .rev()
            .find(|&depth| self.modules.contains_key(&names[..depth]))?;
        let (here, module) = self.modules.get_key_value(&names[..depth])?;
        let Some(name) = names.get(depth) else {
            return Some(here);
        };
        if name == "*" || module.defines.contains(name) || !seen.insert(names.to_owned()) {
            return Some(here);
        }
        let behind = &names[depth + 1..];
        for (path, _) in module.imports.iter().filter(|(_, as_name)| as_name == name) {
            let path: Names = path.iter().chain(behind).cloned().collect();
            if path[..] != *names {
                return self.home(&path, seen);
            }
        }
        for (path, _) in module.imports.iter().filter(|(_, as_name)| as_name == "*") {
            let (_, of) = path.split_last()?;
            let path: Names = of.iter().chain([name]).chain(behind).cloned().collect();
            let home = self.home(&path, seen);
            if home.is_some_and(|home| self.modules[home].defines.contains(name)) {
                return home;
            }
        }
        Some(here)
    }
}

/// What a file's code says, and the modules that it declares.
fn read(file: PathBuf, code: &str, names: &Names) -> (Module, Vec<String>) {
    let tokens = tokens::of(code);
    let mut module = Module {
        file,
        lines: code.lines().count(),
        imports: Vec::new(),
        mentions: Vec::new(),
        defines: BTreeSet::new(),
    };
    let mut children = Vec::new();
    let mut paths = Vec::new();
    let mut at = 0;
    while let Some(&token) = tokens.get(at) {
        let next = tokens.get(at + 1).copied().unwrap_or_default();
        match token {
            "use" if next != "<" => {
                let end = tokens[at..].iter().position(|token| *token == ";");
                let end = end.map_or(tokens.len(), |len| at + len);
                if !is_of_tests(&tokens[..at]) {
                    leaves(&tokens[at + 1..end], &[], &mut paths);
                }
                at = end;
            }
            "mod" if tokens.get(at + 2) == Some(&";") && !is_of_tests(&tokens[..at]) => {
                children.push(next.to_owned());
            }
            "struct" | "enum" | "union" | "fn" | "const" | "static" | "type" | "trait" | "mod" => {
                module.defines.insert(next.to_owned());
            }
            "crate" | "super" if next == "::" && tokens.get(at.wrapping_sub(1)) != Some(&"::") => {
                let mut path = vec![token];
                while tokens.get(at + 1) == Some(&"::")
                    && let Some(name) = tokens.get(at + 2)
                {
                    path.push(name);
                    at += 2;
                }
                module.mentions.extend(from_root(names, &children, &path));
            }
            _ => {}
        }
        at += 1;
    }
    for (path, name) in paths {
        if let Some(path) = from_root(names, &children, &path) {
            module.imports.push((path, name.to_owned()));
        }
    }
    (module, children)
}

/// Whether what stands before an item says that it is for tests; its visibility may come between.
fn is_of_tests(before: &[&str]) -> bool {
    let mut before = before;
    if let Some(start) = before.iter().rposition(|token| *token == "pub")
        && before.len() - start <= 4
        && !before[start..].contains(&";")
    {
        before = &before[..start];
    }
    before.ends_with(&TEST)
}

/// The paths that an import names, and as what.
fn leaves<'a>(tokens: &[&'a str], prefix: &[&'a str], found: &mut Vec<(Vec<&'a str>, &'a str)>) {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        *token == "," && depth == 0
    });
    for part in parts {
        let words = part.iter().copied().filter(|token| *token != "::");
        if let Some(open) = part.iter().position(|token| *token == "{") {
            let prefix: Vec<_> = prefix
                .iter()
                .copied()
                .chain(words.take_while(|word| *word != "{"))
                .collect();
            leaves(&part[open + 1..part.len() - 1], &prefix, found);
            continue;
        }
        let words: Vec<_> = prefix.iter().copied().chain(words).collect();
        let as_at = words.iter().position(|word| *word == "as");
        let mut path = words[..as_at.unwrap_or(words.len())].to_vec();
        if path.last() == Some(&"self") {
            path.pop();
        }
        let name = match as_at {
            Some(at) => words.get(at + 1),
            None => path.last(),
        };
        if let Some(name) = name.copied() {
            found.push((path, name));
        }
    }
}

/// A path from the crate's root, as it is meant in a module; nothing for one of another crate.
fn from_root(names: &Names, children: &[String], path: &[&str]) -> Option<Names> {
    let first = *path.first()?;
    let ups = path.iter().take_while(|name| **name == "super").count();
    let (base, rest) = match first {
        "crate" => (&names[..0], &path[1..]),
        "self" => (&names[..], &path[1..]),
        "super" => (&names[..names.len().saturating_sub(ups)], &path[ups..]),
        child if children.iter().any(|known| known == child) => (&names[..], path),
        _ => return None,
    };
    let rest = rest.iter().map(|name| (*name).to_owned());
    Some(base.iter().cloned().chain(rest).collect())
}

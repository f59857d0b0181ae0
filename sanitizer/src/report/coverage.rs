//! Which access sites were sampled, by function: what `--coverage` writes.
//!
//! One line of comma-separated values a function that was looked at, sorted by module and offset;
//! the first line names the columns. It opens in any spreadsheet.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::{Deserialize, Serialize};

use super::clean::clean;

/// A function that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookedAt {
    /// Run-time address of its first instruction.
    pub start: u64,
    /// Its access sites.
    pub sites: u32,
    /// Those where a thread was stalled.
    pub sampled: u32,
    /// Those whose bytes another thread was seen to use.
    pub contended: u32,
}

/// What is known of all functions of all processes.
#[derive(Debug, Default)]
pub struct Coverage {
    /// By module and link-time offset.
    functions: BTreeMap<(String, u64), (String, LookedAt)>,
}

impl Coverage {
    /// Adds what was seen of a function in one process. Of several processes the best counts.
    pub fn add(&mut self, module: String, offset: u64, name: String, looked_at: LookedAt) {
        let entry = self.functions.entry((module, offset));
        let (_, known) = entry.or_insert((name, looked_at));
        known.sites = known.sites.max(looked_at.sites);
        known.sampled = known.sampled.max(looked_at.sampled);
        known.contended = known.contended.max(looked_at.contended);
    }

    /// Writes the table.
    ///
    /// # Errors
    /// Fails where `out` does.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = io::BufWriter::new(out);
        writeln!(out, "module,offset,function,sites,sampled,contended")?;
        for ((module, offset), (name, looked_at)) in &self.functions {
            let LookedAt {
                sites,
                sampled,
                contended,
                ..
            } = looked_at;
            let (module, name) = (field(module), field(name));
            writeln!(
                out,
                "{module},{offset:#x},{name},{sites},{sampled},{contended}"
            )?;
        }
        out.flush()
    }
}

/// A value as RFC 4180 wants it.
fn field(value: &str) -> String {
    let value = clean(value);
    if value.contains([',', '"']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that functions are sorted and merged, and that names with commas stay one value.
    #[test]
    fn tables_are_csv() {
        let looked_at = |sampled, contended| LookedAt {
            start: 0,
            sites: 4,
            sampled,
            contended,
        };
        let mut coverage = Coverage::default();
        let mut add = |offset, name: &str, looked_at| {
            coverage.add("/bin/server".to_owned(), offset, name.to_owned(), looked_at);
        };
        add(0x20, "pair<int, \"x\">", looked_at(1, 0));
        add(0x10, "main", looked_at(0, 1));
        add(0x10, "main", looked_at(3, 0));
        let mut text = Vec::new();
        coverage.write(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "module,offset,function,sites,sampled,contended\n\
             /bin/server,0x10,main,4,3,1\n\
             /bin/server,0x20,\"pair<int, \"\"x\"\">\",4,1,0\n"
        );
    }
}

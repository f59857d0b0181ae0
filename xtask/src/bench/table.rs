//! A table of results: CSV for machines, Markdown for readers, both to stdout and to a file.

use std::{fmt::Write as _, fs};

use anyhow::{Context as _, Result};

use crate::paths;

/// A table.
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn csv(&self) -> String {
        let mut out = String::new();
        let names = self.columns.iter().map(|&name| name.to_owned()).collect();
        for row in std::iter::once(&names).chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
            out += &(cells.join(",") + "\n");
        }
        out
    }

    fn markdown(&self) -> String {
        let mut out = format!("| {} |\n|", self.columns.join(" | "));
        out += &" --- |".repeat(self.columns.len());
        out.push('\n');
        for row in &self.rows {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "| {} |", row.join(" | "));
        }
        out
    }

    /// Prints the table, and writes it below target/bench with what it was measured on.
    pub fn publish(&self, name: &str, description: &[String]) -> Result<()> {
        let directory = paths::target().join("bench");
        fs::create_dir_all(&directory)?;
        let notes = description.join("  \n");
        for (suffix, text) in [
            ("csv", self.csv()),
            ("md", format!("{notes}\n\n{}", self.markdown())),
        ] {
            let path = directory.join(format!("{name}.{suffix}"));
            fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
            println!("\n{}:\n\n{text}", path.display());
        }
        Ok(())
    }
}

/// A cell as CSV has it (RFC 4180).
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check both forms.
    #[test]
    fn forms() {
        let mut table = Table::new(&["program", "seconds, median"]);
        table.row(vec!["hot".into(), "0.1".into()]);
        assert_eq!(table.csv(), "program,\"seconds, median\"\nhot,0.1\n");
        assert_eq!(
            table.markdown(),
            "| program | seconds, median |\n| --- | --- |\n| hot | 0.1 |\n"
        );
    }
}

//! The results of all boots as a table: a row a trial, a column a kernel.

use std::fmt::Write as _;

use super::results::Results;

/// A cell says no more than this.
const LONGEST: usize = 300;

/// See the module.
#[derive(Default)]
pub struct Table {
    kernels: Vec<String>,
    rows: Vec<Row>,
    findings: usize,
}

struct Row {
    about: String,
    /// By kernel.
    cells: Vec<Option<String>>,
}

impl Table {
    /// Adds what came of a boot.
    pub fn add(&mut self, kernel: &str, lockdown: &str, results: Results) {
        let column = self.column(kernel);
        for row in results.into_rows() {
            let about = match lockdown {
                "none" => row.about,
                level => format!("lockdown={level}: {}", row.about),
            };
            let mut found: String = row.found.replace(['\n', '\r'], " ").replace('|', "\\|");
            if found.chars().count() > LONGEST {
                found = found.chars().take(LONGEST).chain(['…']).collect();
            }
            if !row.ok {
                self.findings += 1;
                found = format!("**not as it should be**: {found}");
            }
            let cells = &mut self.row(about).cells;
            if cells.len() <= column {
                cells.resize(column + 1, None);
            }
            if let Some(cell) = cells.get_mut(column) {
                *cell = Some(found);
            }
        }
    }

    fn column(&mut self, kernel: &str) -> usize {
        let known = self.kernels.iter().position(|other| other == kernel);
        known.unwrap_or_else(|| {
            self.kernels.push(kernel.to_owned());
            self.kernels.len() - 1
        })
    }

    fn row(&mut self, about: String) -> &mut Row {
        let known = self.rows.iter().position(|row| row.about == about);
        let index = known.unwrap_or(self.rows.len());
        if known.is_none() {
            self.rows.push(Row {
                about,
                cells: Vec::new(),
            });
        }
        &mut self.rows[index]
    }

    /// How many trials did not come to what they should.
    pub fn findings(&self) -> usize {
        self.findings
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("| | {} |\n| --- |", self.kernels.join(" | "));
        text += &" --- |".repeat(self.kernels.len());
        text.push('\n');
        for row in &self.rows {
            // Writing to a String cannot fail.
            let _ = write!(text, "| {} |", row.about);
            for column in 0..self.kernels.len() {
                let cell = row.cells.get(column).and_then(Option::as_deref);
                let _ = write!(text, " {} |", cell.unwrap_or("–"));
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(trials: &[(&str, bool, &str)]) -> Results {
        let mut results = Results::default();
        for (about, ok, found) in trials {
            let line = serde_json::json!({"trial": "x", "about": about, "ok": ok, "found": found});
            results.hear(&line.to_string());
        }
        results
    }

    /// Check that the same trial is one row over all kernels, with lockdown another one, and that findings stand out.
    #[test]
    fn rows_and_columns() {
        let mut table = Table::default();
        table.add(
            "6.1",
            "none",
            results(&[("run", true, "a|b"), ("attach", true, "x")]),
        );
        table.add("6.1", "integrity", results(&[("run", true, "y")]));
        table.add(
            "7.3",
            "none",
            results(&[("run", false, "two\nlines"), ("more", true, "z")]),
        );
        assert_eq!(
            table.markdown(),
            "| | 6.1 | 7.3 |\n| --- | --- | --- |\n\
             | run | a\\|b | **not as it should be**: two lines |\n\
             | attach | x | – |\n\
             | lockdown=integrity: run | y | – |\n\
             | more | – | z |\n"
        );
        assert_eq!(table.findings(), 1);
    }
}

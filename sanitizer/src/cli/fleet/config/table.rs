//! A table of a TOML file, whose keys are taken one after the other: what nobody has taken is unknown. Whatever is wrong is told with its line, all
//! of it at once.

use std::{cell::RefCell, collections::BTreeMap, fmt, ops::Range, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A key whose name differs from a known one in less than this share of its letters was meant to be that.
const LIKENESS: f64 = 0.6;

/// What is wrong in a file, line by line.
#[derive(Debug)]
pub struct Problems<'a> {
    path: &'a Path,
    text: &'a str,
    found: RefCell<Vec<(usize, String)>>,
}

impl<'a> Problems<'a> {
    /// Of a file with this text. Nothing yet.
    pub const fn of(path: &'a Path, text: &'a str) -> Self {
        Self {
            path,
            text,
            found: RefCell::new(Vec::new()),
        }
    }

    /// Takes note of one. `span`: the bytes of the text that it is about.
    pub fn add(&self, span: &Range<usize>, what: impl fmt::Display) {
        let line = self.line(span);
        self.found.borrow_mut().push((line, what.to_string()));
    }

    /// The line of a place in the text, from 1.
    pub fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start);
        let ends = before
            .unwrap_or_default()
            .iter()
            .filter(|&&byte| byte == b'\n');
        ends.count() + 1
    }

    /// All of them, a line each, in the order of the text.
    ///
    /// # Errors
    /// There are some.
    pub fn none(self) -> Result<(), String> {
        let mut found = self.found.into_inner();
        found.sort();
        let path = self.path.display();
        let lines = found
            .into_iter()
            .map(|(line, what)| format!("{path}:{line}: {what}"));
        let text = lines.collect::<Vec<_>>().join("\n");
        if text.is_empty() { Ok(()) } else { Err(text) }
    }
}

type Value<'v> = Spanned<DeValue<'v>>;

/// See the module.
pub struct Table<'v, 'p> {
    /// As the file writes it: `[budget]`; empty for the file itself.
    name: String,
    span: Range<usize>,
    values: BTreeMap<&'v str, (Range<usize>, &'v Value<'v>)>,
    known: Vec<&'static str>,
    problems: &'p Problems<'p>,
}

impl<'v, 'p> Table<'v, 'p> {
    /// The whole file.
    pub fn of_file(table: &'v Spanned<DeTable<'v>>, problems: &'p Problems<'p>) -> Self {
        Self::new(String::new(), table.span(), table.get_ref(), problems)
    }

    fn new(
        name: String,
        span: Range<usize>,
        table: &'v DeTable<'v>,
        problems: &'p Problems<'p>,
    ) -> Self {
        let values = table
            .iter()
            .map(|(key, value)| (key.get_ref().as_ref(), (key.span(), value)));
        Self {
            name,
            span,
            values: values.collect(),
            known: Vec::new(),
            problems,
        }
    }

    /// The line in which it begins, from 1.
    pub fn line(&self) -> usize {
        self.problems.line(&self.span)
    }

    /// Takes note of something that is wrong with it as a whole.
    pub fn is_wrong(&self, what: impl fmt::Display) {
        self.problems.add(&self.span, what);
    }

    /// Takes a value as it is written.
    fn take(&mut self, key: &'static str) -> Option<(Range<usize>, &'v Value<'v>)> {
        self.known.push(key);
        self.values.remove(key)
    }

    /// Takes a text, as something that is read from it.
    pub fn text<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (_, value) = self.take(key)?;
        let done = match value.get_ref().as_str() {
            Some(text) => read(text),
            None => Err(format!(
                "{} is no text: put it into quotes",
                value.get_ref().type_str()
            )),
        };
        self.told(key, value, done)
    }

    /// Takes `true` or `false`.
    pub fn truth(&mut self, key: &'static str) -> Option<bool> {
        let (_, value) = self.take(key)?;
        let truth = value.get_ref().as_bool();
        self.told(key, value, truth.ok_or("write true or false".to_owned()))
    }

    /// Takes a whole number, as something that is read from it.
    pub fn number<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(u64) -> Result<T, String>,
    ) -> Option<T> {
        let (_, value) = self.take(key)?;
        let number = value.get_ref().as_integer();
        let number = number
            .and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok())
            .ok_or_else(|| "write a whole number without quotes".to_owned());
        self.told(key, value, number.and_then(read))
    }

    fn told<T>(&self, key: &str, value: &Value<'_>, done: Result<T, String>) -> Option<T> {
        done.inspect_err(|what| {
            let of = if self.name.is_empty() { "" } else { " of " };
            let name = &self.name;
            self.problems
                .add(&value.span(), format!("{key}{of}{name}: {what}"));
        })
        .ok()
    }

    /// Takes a table below this one; an empty one where there is none.
    pub fn table(&mut self, key: &'static str) -> Option<Self> {
        let (span, value) = self.take(key)?;
        match value.get_ref().as_table() {
            Some(table) => {
                let name = format!("[{}]", self.below(key));
                Some(Self::new(name, span, table, self.problems))
            }
            None => {
                let path = self.below(key);
                let what = format!("{key} is a table: write [{path}] in a line of its own");
                self.problems.add(&span, what);
                None
            }
        }
    }

    /// What a table below this one is called, without brackets.
    fn below(&self, key: &str) -> String {
        match self.name.trim_matches(['[', ']']) {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }

    /// Whether something is said of a key.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Takes tables that stand one after the other, at most so many.
    pub fn tables(&mut self, key: &'static str, most: usize) -> Vec<Self> {
        let Some((span, value)) = self.take(key) else {
            return Vec::new();
        };
        let array = value.get_ref().as_array();
        let tables: Option<Vec<_>> = array.map(|array| {
            array
                .iter()
                .filter_map(|one| Some((one.span(), one.get_ref().as_table()?)))
                .collect()
        });
        let count = array.map_or(0, |array| array.len());
        match tables {
            Some(tables) if tables.len() == count && count <= most => tables
                .into_iter()
                .map(|(span, table)| Self::new(format!("[[{key}]]"), span, table, self.problems))
                .collect(),
            _ => {
                let what = format!("write each {key} as [[{key}]], and {most} at most");
                self.problems.add(&span, what);
                Vec::new()
            }
        }
    }

    /// Nothing more is taken: what is left is unknown.
    pub fn end(self) {
        for (key, (span, _)) in &self.values {
            let place = match &*self.name {
                "" => "here".to_owned(),
                name => format!("in {name}"),
            };
            let advice = match nearest(key, &self.known) {
                Some(known) => format!("write {known}"),
                None => format!("known {place} are: {}", self.known.join(", ")),
            };
            let what = format!("there is no key {:?} {place}: {advice}", &**key);
            self.problems.add(span, what);
        }
    }
}

/// The known key that was meant, if one is near.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(key, known);
    let nearest = known
        .iter()
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(nearest) >= LIKENESS).then_some(*nearest)
}

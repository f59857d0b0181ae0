//! All that people have said and done, in its order.

use super::{
    Store,
    alias::{self, Merge},
    connect::Connection,
    error::StoreError,
    triage::{self, Said},
};

/// One of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// What a race or issue is to be taken for.
    Said(Said),
    /// That a name counts as another one, or does not any more.
    Merge(Merge),
}

impl Entry {
    /// The race or issue that it is about.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Said(said) => &said.name,
            Self::Merge(merge) => &merge.name,
        }
    }

    /// The other one, where there is one.
    fn target(&self) -> Option<&str> {
        match self {
            Self::Said(_) => None,
            Self::Merge(merge) => Some(&merge.target),
        }
    }

    const fn number(&self) -> i64 {
        match self {
            Self::Said(said) => said.number,
            Self::Merge(merge) => merge.number,
        }
    }
}

impl Store {
    /// All that was said of these races and issues, or of any, the first first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn log(&mut self, names: Option<&[&str]>) -> Result<Vec<Entry>, StoreError> {
        let mut all = self.with(async |connection| entries(connection).await)?;
        if let Some(names) = names {
            all.retain(|entry| {
                let mut of = std::iter::once(entry.name()).chain(entry.target());
                of.any(|name| names.contains(&name))
            });
        }
        Ok(all)
    }
}

/// All of it, the first first.
pub(super) async fn entries(connection: &mut Connection) -> sqlx::Result<Vec<Entry>> {
    let said = triage::said(&mut *connection).await?;
    let merges = alias::merges(connection).await?;
    let said = said.into_iter().map(Entry::Said);
    let mut all: Vec<Entry> = said.chain(merges.into_iter().map(Entry::Merge)).collect();
    all.sort_by_key(Entry::number);
    Ok(all)
}

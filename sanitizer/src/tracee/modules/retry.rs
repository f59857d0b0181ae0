//! When files are tried again that could not be read, and what there is to tell of them.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use super::{ModuleError, Unreadable};

/// So long it takes until they are tried again for the first time.
const FIRST: Duration = Duration::from_secs(10);
/// And never longer.
const LONGEST: Duration = Duration::from_mins(5);

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    next: Option<Next>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    when: Instant,
    pause: Duration,
    /// So many could not be read.
    count: usize,
}

impl Retry {
    /// Whether it is time.
    pub(super) fn is_due(&self) -> bool {
        self.next.is_some_and(|next| Instant::now() >= next.when)
    }

    /// Takes note of what cannot be read after a look. As long as there are no fewer, each pause is longer.
    pub(super) fn note(&mut self, now: &[Unreadable]) {
        // It has not been tried.
        let is_unasked = |code: &Unreadable| matches!(*code.reason, ModuleError::Unasked);
        if now.iter().any(is_unasked) && self.next.is_some() {
            return;
        }
        let count = now.iter().filter(|code| code.reason.is_not_yet()).count();
        let pause = match self.next {
            _ if count == 0 => {
                self.next = None;
                return;
            }
            Some(next) if Instant::now() < next.when => return,
            Some(next) if count >= next.count => (2 * next.pause).min(LONGEST),
            _ => FIRST,
        };
        self.next = Some(Next {
            when: Instant::now() + pause,
            pause,
            count,
        });
    }

    /// Has the pause be over.
    #[cfg(test)]
    pub(super) fn hurry(&mut self) {
        if let Some(next) = &mut self.next {
            next.when = Instant::now();
        }
    }

    #[cfg(test)]
    pub(super) fn pause(&self) -> Option<Duration> {
        self.next.map(|next| next.pause)
    }
}

/// What was told of code that is not read: of which file, and what kind of reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(HashSet<(u64, u64, Discriminant<ModuleError>)>);

impl Told {
    /// The code that is to be told of after a look, which counts as told from now on. What is not there any more is forgotten.
    pub(super) fn news(&mut self, now: &[Unreadable]) -> Vec<Unreadable> {
        let file = |code: &Unreadable| (code.mapping.dev, code.mapping.inode);
        let files: HashSet<_> = now.iter().map(file).collect();
        self.0
            .retain(|&(dev, inode, _)| files.contains(&(dev, inode)));
        let before = self.0.clone();
        let mut news = Vec::new();
        for code in now.iter().filter(|code| !code.reason.is_of_the_moment()) {
            let (dev, inode) = file(code);
            let key = (dev, inode, discriminant(&*code.reason));
            if !before.contains(&key) {
                self.0.insert(key);
                news.push(code.clone());
            }
        }
        news
    }
}

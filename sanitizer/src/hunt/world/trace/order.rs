//! One order of what all threads did: that in which they synchronized, and otherwise by time.
//!
//! What has a number comes in the order of the numbers; what has none, an access, by its time, but never before or after its own thread's neighbours.

use std::{cmp::Reverse, collections::BinaryHeap, iter::Peekable};

use super::format::Entry;

/// Whose turn it is with each number.
#[derive(Clone, Debug, Default)]
pub struct Turns(Vec<u32>);

impl Turns {
    /// Of what threads did.
    pub fn of<I: Iterator<Item = Entry>>(threads: impl IntoIterator<Item = I>) -> Self {
        let mut numbers = Vec::new();
        for (thread, entries) in (0..).zip(threads) {
            numbers.extend(entries.filter_map(|entry| Some((entry.sequence?, thread))));
        }
        Self::sorted(numbers)
    }

    /// Of numbers, each with its thread.
    #[must_use]
    pub fn sorted(mut numbers: Vec<(u64, u32)>) -> Self {
        numbers.sort_unstable();
        Self(numbers.into_iter().map(|(_, thread)| thread).collect())
    }
}

/// What all threads did, each with the thread's index.
pub struct InOrder<I: Iterator<Item = Entry>> {
    threads: Vec<Peekable<I>>,
    turns: std::vec::IntoIter<u32>,
    /// The thread that synchronizes next.
    turn: Option<usize>,
    /// Threads that may go on, by the time of what they do next.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<I: Iterator<Item = Entry>> InOrder<I> {
    /// The threads, from their beginning, whose turns are these.
    pub fn new(threads: impl IntoIterator<Item = I>, turns: Turns) -> Self {
        let mut turns = turns.0.into_iter();
        let mut all = Self {
            threads: threads.into_iter().map(Iterator::peekable).collect(),
            turn: turns.next().map(|thread| thread as usize),
            turns,
            ready: BinaryHeap::new(),
        };
        for thread in 0..all.threads.len() {
            all.look_at(thread);
        }
        all
    }

    /// Whether a thread may go on: it waits where it is another one's turn.
    fn look_at(&mut self, thread: usize) {
        let next = self.threads.get_mut(thread).and_then(Peekable::peek);
        if let Some(next) = next
            && (next.sequence.is_none() || self.turn == Some(thread))
        {
            self.ready.push(Reverse((next.time, thread)));
        }
    }
}

impl<I: Iterator<Item = Entry>> Iterator for InOrder<I> {
    type Item = (usize, Entry);

    fn next(&mut self) -> Option<(usize, Entry)> {
        let Reverse((_, thread)) = self.ready.pop()?;
        let entry = self.threads.get_mut(thread)?.next()?;
        self.turn = if entry.sequence.is_some() {
            let turn = self.turns.next().map(|thread| thread as usize);
            if let Some(next) = turn.filter(|next| *next != thread)
                && let Some(waits) = self.threads.get_mut(next).and_then(Peekable::peek)
                && waits.sequence.is_some()
            {
                self.ready.push(Reverse((waits.time, next)));
            }
            turn
        } else {
            self.turn
        };
        self.look_at(thread);
        Some((thread, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::world::trace::format::What;

    fn order(threads: &[&[(u64, Option<u64>)]]) -> Vec<(usize, u64)> {
        let entries = |thread: &&[(u64, Option<u64>)]| {
            let entry = |&(time, sequence): &(u64, Option<u64>)| Entry {
                time,
                site: 0,
                sequence,
                what: What::Freed,
            };
            thread.iter().map(entry).collect::<Vec<_>>().into_iter()
        };
        let turns = Turns::of(threads.iter().map(entries));
        let order = InOrder::new(threads.iter().map(entries), turns);
        order.map(|(thread, entry)| (thread, entry.time)).collect()
    }

    /// Check that times count where there are no numbers, and numbers where they contradict the times; and that numbers may be missing.
    #[test]
    fn numbers_count_more_than_times() {
        let by_time = order(&[&[(1, None), (4, None)], &[(2, None), (3, None)]]);
        assert_eq!(by_time, [(0, 1), (1, 2), (1, 3), (0, 4)]);
        // The first thread's clock is behind: it waits for what the other one does at 5.
        let by_number = order(&[
            &[(1, None), (2, Some(9)), (3, None)],
            &[(4, None), (5, Some(7)), (6, None)],
        ]);
        assert_eq!(by_number, [(0, 1), (1, 4), (1, 5), (0, 2), (0, 3), (1, 6)]);
        // One thread after the other.
        let alone = order(&[&[(5, Some(1)), (6, Some(2))], &[(1, Some(3)), (2, None)]]);
        assert_eq!(alone, [(0, 5), (0, 6), (1, 1), (1, 2)]);
    }
}

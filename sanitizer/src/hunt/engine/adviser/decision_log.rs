//! Telling what the planner hears, is asked and answers, where that is wanted (`--decision-log`): each second, and when there is much of it, so that a tracer which is
//! ended from outside has told all but what came last. A daemon that does not read is not waited for: what it is told of decisions has an end then, and it has room for
//! the rest.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::hunt::engine::rig::Rig;
use crate::hunt::plan::log::Record;
use crate::hunt::plan::log::file::{BODY, encode};
use crate::hunt::wire::Notice;

use super::Adviser;

/// What is not told yet takes no more memory, bytes.
const MOST: usize = 16 << 20;

/// What is still to be told, of one process; shared with whoever adds to it.
#[derive(Clone, Debug, Default)]
pub struct DecisionLog(Rc<RefCell<Untold>>);

#[derive(Debug, Default)]
struct Untold {
    /// Bodies of frames; all but the last one are full.
    bodies: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The last record was added: the hunt is over, or there was too much of it.
    is_over: bool,
    /// There was too much of it, which the user is to hear.
    is_cut: bool,
    /// The round in which some of it was told last.
    told_in: u64,
}

impl Untold {
    fn add(&mut self, record: &Record, most: usize) {
        if self.is_over {
            return;
        }
        let bytes = encode(record).ok();
        let bytes = bytes.filter(|bytes| self.bytes + bytes.len() <= most);
        self.is_cut = bytes.is_none();
        self.is_over = self.is_cut || *record == Record::Ended;
        if let Some(bytes) = bytes.or_else(|| encode(&Record::Lost).ok()) {
            self.bytes += bytes.len();
            match self.bodies.back_mut() {
                Some(body) if body.len() + bytes.len() <= BODY => body.extend(bytes),
                _ => self.bodies.push_back(bytes),
            }
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let body = self.bodies.pop_front()?;
        self.bytes -= body.len();
        Some(body)
    }
}

impl DecisionLog {
    /// Adds a record; nothing after the last one of the hunt.
    pub fn add(&self, record: &Record) {
        self.0.borrow_mut().add(record, MOST);
    }

    /// What there is of full bodies, and of others, too, with `all`.
    fn waits(&self, all: bool) -> bool {
        let untold = self.0.borrow();
        untold.bodies.len() > usize::from(!all)
    }

    fn next(&self) -> Option<Vec<u8>> {
        self.0.borrow_mut().next()
    }

    /// How many bytes are told next.
    fn next_len(&self) -> usize {
        self.0.borrow().bodies.front().map_or(0, Vec::len)
    }
}

impl Adviser {
    /// Tells some of it, in this round; nobody may stand still, because it takes its time.
    pub fn tell_some_decisions(&mut self, rig: &mut Rig, round: u64) {
        let all = self.decision_log.0.borrow().told_in != round;
        if self.decision_log.waits(all) {
            self.decision_log.0.borrow_mut().told_in = round;
            self.tell_next_decisions(rig);
        }
    }

    /// Tells the last of it: the hunt is over.
    pub fn tell_last_decisions(&mut self, rig: &mut Rig) {
        if rig.setup.decision_log {
            self.decision_log.add(&Record::Ended);
            while self.decision_log.waits(true) && self.tell_next_decisions(rig) {}
        }
    }

    /// Tells a body, if there is room for one beside what matters more.
    fn tell_next_decisions(&mut self, rig: &mut Rig) -> bool {
        let has_room = rig.outbox.has_room(self.decision_log.next_len());
        if has_room && let Some(body) = self.decision_log.next() {
            rig.outbox.send(&Notice::DecisionLog(body));
        }
        let is_cut = std::mem::take(&mut self.decision_log.0.borrow_mut().is_cut);
        if is_cut {
            rig.outbox.warn(format!(
                "the decision log of process {} has an end here: its planner decides more than could be told",
                rig.program.pid
            ));
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::plan::log::file::{Reader, beginning, frame};

    /// Check that bodies hold whole records and are not long, that too much has an end which says so, and that nothing follows the end.
    #[test]
    fn too_much_has_an_end() {
        const MOST: usize = 3 * BODY;
        let begun = |seed| Record::Begun {
            seed,
            priors: u64::MAX,
        };
        let read = |untold: &mut Untold| {
            let mut file = beginning().into_bytes();
            while let Some(body) = untold.next() {
                assert!(body.len() <= BODY);
                file.extend(frame(1, &body).unwrap());
            }
            assert_eq!(untold.bytes, 0);
            let records = Reader::new(&file[..]).unwrap();
            records.map(|record| record.unwrap().1).collect::<Vec<_>>()
        };
        let mut untold = Untold::default();
        (0..100).for_each(|seed| untold.add(&begun(seed), MOST));
        untold.add(&Record::Ended, MOST);
        untold.add(&begun(100), MOST);
        let records = read(&mut untold);
        assert!(records.len() == 101 && records.last() == Some(&Record::Ended));
        assert!(!untold.is_cut);

        let mut untold = Untold::default();
        (0..100_000).for_each(|seed| untold.add(&begun(seed), MOST));
        untold.add(&Record::Ended, MOST);
        assert!(untold.is_cut);
        let records = read(&mut untold);
        let (last, rest) = records.split_last().unwrap();
        assert_eq!(*last, Record::Lost);
        assert!(rest.len() > 1000 && rest.len() < 100_000);
        assert!((0..).zip(rest).all(|(seed, record)| *record == begun(seed)));
    }
}

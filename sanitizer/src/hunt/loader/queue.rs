//! What the loader is asked for: the last request counts, and what it has to forget because of those before.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    time::Duration,
};

use super::{Request, Wanted};

/// How often it is looked after what goes on meanwhile.
const TURN: Duration = Duration::from_millis(50);

/// See the module.
pub(super) struct Queue {
    asked: Receiver<Request>,
    next: Option<Request>,
}

impl Queue {
    pub(super) const fn of(asked: Receiver<Request>) -> Self {
        Self { asked, next: None }
    }

    /// The next request, once there is one, while something else goes on that is to be looked after; nothing when nobody can ask any more.
    pub(super) fn wait(&mut self, mut goes_on: impl FnMut() -> bool) -> Option<Request> {
        self.drain();
        while self.next.is_none() {
            let request = match goes_on() {
                true => self.asked.recv_timeout(TURN),
                false => (self.asked.recv()).map_err(|_| RecvTimeoutError::Disconnected),
            };
            match request {
                Ok(request) => self.put(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            self.drain();
        }
        self.next.take()
    }

    /// Whether nobody waits for the answer any more: something else was asked for, which is next, or nothing ever will be.
    pub(super) fn is_past(&mut self) -> bool {
        self.drain() || self.next.is_some()
    }

    /// Takes in what was asked for; whether nobody can ask any more.
    fn drain(&mut self) -> bool {
        loop {
            match self.asked.try_recv() {
                Ok(request) => self.put(request),
                Err(error) => return error == TryRecvError::Disconnected,
            }
        }
    }

    fn put(&mut self, mut request: Request) {
        if let Some(before) = self.next.take() {
            request.is_anew |= before.is_anew || before.wanted.forgets();
            if let (Wanted::Scan { anew: true, .. }, Wanted::Scan { anew, .. }) =
                (&before.wanted, &mut request.wanted)
            {
                *anew = true;
            }
        }
        self.next = Some(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Check that of several requests the last one is served, which is seen behind others as well, and that what was to be forgotten is.
    #[test]
    fn the_last_request_counts() {
        let (asks, asked) = mpsc::channel();
        let mut queue = Queue::of(asked);
        assert!(!queue.is_past());
        let scan = |anew| Wanted::Scan {
            anew,
            judged: Vec::new(),
        };
        let mut ticket = 0;
        let mut ask = |wanted| {
            ticket += 1;
            let request = Request {
                ticket,
                pid: 1,
                wanted,
                is_anew: false,
            };
            asks.send(request).unwrap();
        };
        ask(scan(false));
        assert!(queue.is_past());
        ask(Wanted::Nothing);
        assert!(queue.is_past());
        let request = queue.wait(|| false).unwrap();
        assert!(matches!(request.wanted, Wanted::Nothing) && request.ticket == 2);
        assert!(!queue.is_past());
        ask(Wanted::Nothing);
        ask(scan(false));
        let request = queue.wait(|| true).unwrap();
        assert!(matches!(request.wanted, Wanted::Scan { anew: false, .. }) && request.is_anew);
        ask(scan(true));
        ask(scan(false));
        let request = queue.wait(|| false).unwrap();
        assert!(matches!(request.wanted, Wanted::Scan { anew: true, .. }) && request.is_anew);
        ask(scan(false));
        drop(asks);
        assert!(queue.is_past() && queue.wait(|| true).is_some());
        let mut turns = 0;
        let goes_on = || {
            turns += 1;
            true
        };
        assert!(queue.is_past() && queue.wait(goes_on).is_none());
        assert_eq!(turns, 1);
    }
}

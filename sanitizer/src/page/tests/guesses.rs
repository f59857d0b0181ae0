//! What the log tells of those who are sent away.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use super::*;
use crate::delivery::Peer;

/// What was written to the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Check that a password which is none is told in the log, with the address and the name and without the password; once in a while, however many there are, and not where none was given or it was right.
#[test]
fn guesses_are_told() {
    let (_folder, address, _) = usual();
    let pages = pages_of(&address);
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let ask = |peer: &str, user: Option<&str>| {
            let mut request = Request::builder().uri("/").header("host", "localhost");
            if let Some(user) = user {
                let (name, value) = known(user);
                request = request.header(name, value);
            }
            let mut request = request.body(axum::body::Body::empty()).unwrap();
            request.extensions_mut().insert(Peer(peer.parse().unwrap()));
            let answer = runtime().block_on(pages.clone().call(request));
            answer.unwrap().status().as_u16()
        };
        let peer = "192.0.2.7:4711";
        assert_eq!(ask(peer, None), 401);
        assert_eq!(ask(peer, Some(ADA)), 200);
        for number in 0..20 {
            let guess = format!("ada\u{1b}:guess number {number} of many");
            assert_eq!(ask(peer, Some(&guess)), 401);
        }
        assert_eq!(ask("192.0.2.8:4711", Some("bob:another guess")), 401);
    });
    let log = log.0.lock().unwrap_or_else(PoisonError::into_inner);
    let log = String::from_utf8_lossy(&log);
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("sent away"))
        .collect();
    assert_eq!(told.len(), 2, "{log}");
    assert!(
        told[0].contains("WARN") && told[0].contains("192.0.2.7 "),
        "{log}"
    );
    assert!(
        told[0].contains(&format!("\"{}\"", clean("ada\u{1b}"))),
        "{log}"
    );
    assert!(
        told[1].contains("192.0.2.8 ") && told[1].contains("\"bob\""),
        "{log}"
    );
    assert!(!log.contains("guess number") && !log.contains("another guess"));
}

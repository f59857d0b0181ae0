//! Collectors that answer as they like.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::*;
use crate::{
    http::{Destination, DestinationError, Secret, Server},
    outbox::collector::Outcome,
};

/// Whatever is waited for takes milliseconds; what it takes does not count.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Hardly any pauses.
pub(super) const QUICK: Timing = Timing {
    linger: Duration::ZERO,
    shortest: Duration::from_millis(1),
    longest: Duration::from_millis(5),
    most_wanted: Duration::from_millis(5),
};
const TAKEN: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// What was sent: head and body.
pub(super) type Request = (String, Vec<u8>);

/// A collector on this machine that says these things, one to each message; then that all is taken. Its thread ends with the test.
pub(super) fn stub(answers: &[&str]) -> (String, mpsc::Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/below", listener.local_addr().unwrap());
    let answers: Vec<_> = answers.iter().map(|&answer| answer.to_owned()).collect();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        let mut answers = answers.into_iter();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            // Each answer ends the connection, so that none waits for another request in vain.
            let Some(request) = request(&mut connection) else {
                continue;
            };
            let answer = answers.next().unwrap_or_else(|| TAKEN.to_owned());
            let answer = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            let _ = connection.write_all(answer.as_bytes());
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

fn request(connection: &mut TcpStream) -> Option<Request> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if connection.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    // Who only asks for something sends none.
    let length = length.map_or(Ok(0), |length| length.trim().parse());
    let mut body = vec![0; length.unwrap()];
    connection.read_exact(&mut body).ok()?;
    Some((head, body))
}

pub(super) fn destination(address: &str) -> Destination {
    Destination {
        server: Server::new(address).unwrap(),
        secret: None,
        authorities: None,
        identity: None,
    }
}

/// Waits until it is so; what there is to say of the outbox then.
pub(super) fn until(shared: &Shared, is_so: impl Fn(&Figures) -> bool) -> Figures {
    let end = Instant::now() + PATIENCE;
    loop {
        let figures = shared.figures().unwrap();
        if is_so(&figures) {
            return figures;
        }
        assert!(Instant::now() < end, "{figures:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Check what each answer means: a message is taken by 204 alone, never to be taken where that is said, and else sent later, not before the collector wants.
#[test]
fn answers() {
    let later = |seconds: Option<u64>| Some(seconds.map(Duration::from_secs));
    for (answer, wanted) in [
        (
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
            later(Some(7)),
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n",
            later(None),
        ),
        (
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            later(None),
        ),
        (
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
            later(None),
        ),
        (
            "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
            later(None),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlogin",
            later(None),
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            later(None),
        ),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nhalf",
            later(None),
        ),
        ("song\r\n\r\n", later(None)),
        ("HTTP/1.1 204 No", later(None)),
        ("", later(None)),
        (
            "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n",
            later(None),
        ),
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
            None,
        ),
        (
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n",
            None,
        ),
        (
            "HTTP/1.1 422 Unprocessable Content\r\nContent-Length: 9\r\n\r\nno\x1b[2Jrace",
            None,
        ),
    ] {
        let (address, _requests) = stub(&[answer]);
        let collector = Collector::new(destination(&address)).unwrap();
        match (collector.post(b"message"), wanted) {
            (Outcome::Later(after, why), Some(wanted)) => {
                assert_eq!(after, wanted, "{answer}: {why}");
                assert!(!why.contains("/below"), "{why}");
            }
            (Outcome::Never(why), None) => {
                assert!(
                    why.starts_with("HTTP status 4") && !why.contains('\x1b'),
                    "{why}"
                );
            }
            (outcome, _) => panic!("{answer}: {outcome:?}"),
        }
    }
    let (address, requests) = stub(&[TAKEN]);
    let collector = Collector::new(destination(&address)).unwrap();
    assert_eq!(collector.post(b"message"), Outcome::Taken);
    let (head, body) = requests.recv_timeout(PATIENCE).unwrap();
    assert_eq!(body, b"message");
    assert!(
        head.starts_with("post /below/v1/messages http/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\ncontent-encoding: zstd\r\n"), "{head}");
    assert!(!head.contains("authorization"), "{head}");
    // Nobody listens there any more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let gone = Collector::new(destination(&address)).unwrap();
    assert!(matches!(gone.post(b"message"), Outcome::Later(None, _)));
}

/// Check that a token is sent as it stands in its file at that time, and that one which others can read, or is none, is refused with what to do.
#[test]
fn tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let (address, requests) = stub(&[]);
    let with_token = || {
        Collector::new(Destination {
            secret: Some(Secret::Token(path.clone())),
            ..destination(&address)
        })
    };
    assert!(matches!(with_token(), Err(DestinationError::Read { .. })));
    let write = |token: &str, mode| {
        fs::write(&path, token).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("abc", 0o644);
    assert!(matches!(with_token(), Err(DestinationError::Readers(_))));
    for nonsense in ["", "two words", "a\r\nb"] {
        write(nonsense, 0o600);
        assert!(
            matches!(with_token(), Err(DestinationError::Token { .. })),
            "{nonsense}"
        );
    }
    write("abc\n", 0o600);
    let collector = with_token().unwrap();
    for token in ["abc", "def"] {
        write(token, 0o600);
        assert_eq!(collector.post(b""), Outcome::Taken);
        let (head, _) = requests.recv_timeout(PATIENCE).unwrap();
        assert!(
            head.contains(&format!("\r\nauthorization: bearer {token}\r\n")),
            "{head}"
        );
    }
    write("", 0o600);
    assert!(matches!(collector.post(b""), Outcome::Later(None, why) if why.contains("openssl")));
}

/// Check that what is there is sent, one message after the other, each until it is taken or set aside, and the same each time; and that the thread ends when all is over, also in a pause.
#[test]
fn all_is_sent() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    outbox.take(&handed(1, caught(&race("hits", 0)))).unwrap();
    let (address, requests) = stub(&[
        "",
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
        "song\r\n\r\n",
        TAKEN,
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n",
    ]);
    let collector = Collector::new(destination(&address)).unwrap();
    let shared = Arc::new(Shared::new(outbox));
    let sending = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.send(&collector, &QUICK)
    });
    until(&shared, |figures| figures.taken == 1);
    let sent: Vec<_> = (0..4)
        .map(|_| requests.recv_timeout(PATIENCE).unwrap().1)
        .collect();
    assert!(sent.iter().all(|body| *body == sent[0]));
    shared.take(&handed(2, caught(&race("misses", 0)))).unwrap();
    until(&shared, |figures| figures.refused == 1);
    shared
        .take(&handed(3, counted("hits", 4, start())))
        .unwrap();
    until(&shared, |figures| {
        figures.taken == 2 && figures.failing.is_none()
    });
    let decoded = |body: &[u8]| Message::decode(body, MOST_UNPACKED).unwrap();
    let rest: Vec<_> = (0..2)
        .map(|_| decoded(&requests.recv_timeout(PATIENCE).unwrap().1))
        .collect();
    assert_eq!(
        [
            decoded(&sent[0]).sequence,
            rest[0].sequence,
            rest[1].sequence
        ],
        [1, 2, 3]
    );
    assert_eq!(times(&rest[1..]), 4);
    shared.end();
    sending.join().unwrap();
    // Where nothing is taken it ends, too.
    let (address, _requests) = stub(&[
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n",
    ]);
    let collector = Collector::new(destination(&address)).unwrap();
    let shared = Shared::new(Outbox::open(&path, MUCH).unwrap());
    shared
        .take(&handed(4, counted("hits", 4, start())))
        .unwrap();
    thread::scope(|scope| {
        let sending = scope.spawn(|| shared.send(&collector, &Timing::default()));
        until(&shared, |figures| figures.failing.is_some());
        shared.end();
        sending.join().unwrap();
    });
}

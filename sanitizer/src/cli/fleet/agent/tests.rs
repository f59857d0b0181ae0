//! Handing over through real sockets.

use std::{
    io::{Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixListener as StdListener},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::*;
use crate::{
    delivery::{MOST_UNPACKED, Message},
    hunt::wire,
    outbox::{Agent, Answer, Asked, DaemonFigures, HandingError, Question, VERSION, ask},
    report::sample,
    store::{Batch, Caught, Counted, Whereabouts},
};

fn scratch() -> (TempDir, PathBuf, Arc<Shared>) {
    let folder = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(&folder.path().join("outbox.db"), 64 << 20).unwrap();
    let socket = folder.path().join("run/agent.sock");
    let shared = Shared::new(outbox).for_whom(Some("http://host"), None);
    (folder, socket, Arc::new(shared))
}

/// An agent that sends nothing.
fn listen(socket: &Path, shared: &Arc<Shared>) -> OwnSocket {
    let (listener, own) = OwnSocket::make(socket, WHO).unwrap();
    let desk = Arc::new(Desk::new(Arc::clone(shared), None));
    tokio::spawn(serve_each(listener, move |stream| {
        Arc::clone(&desk).serve(stream)
    }));
    own
}

/// Something that was caught so often.
fn batch(times: u64) -> Batch {
    let race = sample::race();
    let counted = Counted {
        race: race.identity.race.clone(),
        build: race.build(),
        exe: race.exe.clone(),
        place: Whereabouts::on("web1"),
        times,
        last: 0,
    };
    let caught = Caught {
        race,
        place: Whereabouts::on("web1"),
        times: 1,
        last: None,
    };
    Batch {
        caught: vec![caught],
        counted: vec![counted],
        ..Batch::default()
    }
}

/// Waits elsewhere than the agent works.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// How often something was caught by what is in an outbox, by its own messages.
fn times(folder: &TempDir) -> u64 {
    let mut outbox = Outbox::open(&folder.path().join("outbox.db"), 64 << 20).unwrap();
    let mut sum = 0;
    while let Some(sealed) = outbox.message().unwrap() {
        let message = Message::decode(&sealed.body, MOST_UNPACKED).unwrap();
        let caught = message.batch.caught.iter().map(|one| one.times);
        let counted = message.batch.counted.iter().map(|one| one.times);
        sum += caught.chain(counted).sum::<u64>();
        outbox.taken(sealed.sequence).unwrap();
    }
    sum
}

/// Check that what was handed over while there was no agent is handed over once there is one, that what was taken in without an answer counts once, and that whoever asks is told of it.
#[tokio::test]
async fn handed_over_once() {
    let (folder, socket, shared) = scratch();
    let mut agent = Agent::new(&socket);
    let mut more = batch(2);
    let error = agent.hand_over(&mut more).unwrap_err();
    assert!(matches!(error, HandingError::Silent { .. }), "{error}");
    assert!(error.to_string().contains("systemctl start"), "{error}");
    assert!(more.is_empty() && agent.owes());

    // One that takes in and is killed.
    make_folder(&socket).unwrap();
    let listener = StdListener::bind(&socket).unwrap();
    let taking = Arc::clone(&shared);
    let killed = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = Vec::new();
        let asked = loop {
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).unwrap();
            buffer.extend_from_slice(&piece[..read]);
            if let Some(asked) = wire::decode::<Asked>(&mut buffer).unwrap() {
                break asked;
            }
        };
        let Question::Take(body) = asked.question else {
            panic!("{asked:?}");
        };
        let message = Message::decode(&body, MOST_UNPACKED).unwrap();
        taking.take(&message).unwrap();
    });
    let mut agent = elsewhere(move || {
        let error = agent.hand_over(&mut batch(5)).unwrap_err();
        assert!(matches!(error, HandingError::Silent { .. }), "{error}");
        killed.join().unwrap();
        agent
    })
    .await;
    assert!(agent.owes());

    let _own = listen(&socket, &shared);
    // A daemon that is root and may not pass over modes comes by the group.
    let about = std::fs::metadata(&socket).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o660);
    let path = socket.clone();
    let (figures, told) = elsewhere(move || {
        agent.hand_over(&mut batch(7)).unwrap();
        agent
            .tell(&DaemonFigures {
                stalls: 9,
                ..DaemonFigures::default()
            })
            .unwrap();
        assert!(!agent.owes());
        (
            ask(&path, Question::Status).unwrap(),
            agent.hand_over(&mut Batch::default()),
        )
    })
    .await;
    told.unwrap();
    let Answer::Status(figures) = figures else {
        panic!("{figures:?}");
    };
    assert_eq!(figures.collector, "http://host");
    assert_eq!(figures.lost_sightings, 0);
    assert_eq!(figures.daemon.map(|daemon| daemon.stalls), Some(9));
    // The second batch had not left when the agent was killed, and stays with whoever had it: here it is gone.
    assert_eq!(times(&folder), 1 + 2 + 7);
}

/// Check that nonsense is refused for good, another version for now, and that a second agent is.
#[tokio::test]
async fn what_is_refused() {
    let (folder, socket, shared) = scratch();
    let own = listen(&socket, &shared);
    let second = OwnSocket::make(&socket, WHO).err().unwrap().to_string();
    assert!(
        second.contains("another gwp-race fleet agent runs"),
        "{second}"
    );
    let path = socket.clone();
    let (nonsense, others) = elsewhere(move || {
        let nonsense = ask(&path, Question::Take(b"song".to_vec())).unwrap();
        // One that this version could read, and one that it could not.
        let question = wire::encode(&Asked {
            version: VERSION + 1,
            question: Question::Status,
        });
        let unknown = wire::encode(&(VERSION - 1, 77_u32, "song"));
        let others = [question.unwrap(), unknown.unwrap()].map(|question| {
            let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
            stream.write_all(&question).unwrap();
            let mut buffer = Vec::new();
            stream.read_to_end(&mut buffer).unwrap();
            wire::decode::<Answer>(&mut buffer).unwrap().unwrap()
        });
        (nonsense, others)
    })
    .await;
    assert!(matches!(nonsense, Answer::Never(_)), "{nonsense:?}");
    for other in others {
        let Answer::Refused(why) = other else {
            panic!("{other:?}");
        };
        assert!(why.contains("another version"), "{why}");
    }
    drop(own);
    assert!(!socket.exists());
    assert_eq!(times(&folder), 0);
}

/// Check that what an agent of another version says, which cannot be understood, is told as such.
#[tokio::test]
async fn who_cannot_be_understood() {
    let (_folder, socket, _shared) = scratch();
    make_folder(&socket).unwrap();
    let listener = StdListener::bind(&socket).unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&wire::encode(&77_u32).unwrap()).unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    let asked = elsewhere(move || ask(&socket, Question::Status)).await;
    other.join().unwrap();
    let error = asked.unwrap_err();
    assert!(matches!(error, HandingError::Foreign { .. }), "{error}");
}

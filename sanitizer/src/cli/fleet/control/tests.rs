//! Questions and answers through a real socket.

use std::{fs, os::unix::fs::PermissionsExt as _, os::unix::net::UnixListener};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use super::{client::ask, server::Server, *};

/// A daemon that says what it was asked.
async fn serve(mut server: Server, times: usize) -> Server {
    for _ in 0..times {
        let (question, answer) = server.next().await.unwrap();
        let said = match question {
            Question::Status => Answer::Status(Box::default()),
            other => Answer::Done(format!("{other:?}")),
        };
        let _ = answer.send(said);
    }
    server
}

/// Check that a folder and a socket are made for nobody else, that questions are answered, that a second daemon is refused, and that what is left of one that was killed is in nobody's way.
#[tokio::test]
async fn questions_and_answers() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run/fleet.sock");
    let server = Server::listen(&path).unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&path), mode(&scratch.path().join("run"))),
        (0o600, 0o700)
    );
    let questions = [
        Question::Pause(Some(Duration::from_secs(60))),
        Question::Resume,
        Question::Ignore(7),
    ];
    let serving = tokio::spawn(serve(server, 2 + questions.len()));
    for question in questions {
        let answer = ask(&path, question).await.unwrap();
        assert_eq!(answer, Answer::Done(format!("{question:?}")));
    }
    for _ in 0..2 {
        let answer = ask(&path, Question::Status).await.unwrap();
        assert_eq!(answer, Answer::Status(Box::default()));
    }
    let second = Server::listen(&path).err().unwrap().to_string();
    assert!(second.contains("another gwp-race fleet"), "{second}");
    drop(serving.await.unwrap());
    assert!(!path.exists());
    let error = ask(&path, Question::Status).await.unwrap_err().to_string();
    assert!(error.contains("start one"), "{error}");
    // The socket of one that was killed.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Server::listen(&path).unwrap());
    // Something else.
    fs::write(&path, "").unwrap();
    assert!(Server::listen(&path).is_err());
    assert!(path.exists());
}

/// Check that whoever says nothing, too much or nonsense is in nobody's way.
#[tokio::test]
async fn nonsense_is_not_heard() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("fleet.sock");
    let server = Server::listen(&path).unwrap();
    let serving = tokio::spawn(serve(server, 1));
    let silent = UnixStream::connect(&path).await.unwrap();
    let version = u8::try_from(VERSION).unwrap();
    for (said, heard) in [
        (&[0xff; 4][..], ""),
        (&[3, 0, 0, 0, version, 0xff, 0xff], ""),
        // As of another version, of which nothing else is known.
        (&[0; 4096], "another version of gwp-race"),
        (b"\x03\0\0\0abc", "another version of gwp-race"),
    ] {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let _ = stream.write_all(said).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        let rest = String::from_utf8_lossy(&rest);
        assert_eq!(rest.is_empty(), heard.is_empty(), "{said:?}: {rest}");
        assert!(rest.contains(heard), "{said:?}: {rest}");
    }
    assert!(ask(&path, Question::Status).await.is_ok());
    drop(silent);
    serving.await.unwrap();
}

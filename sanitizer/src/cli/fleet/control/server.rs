//! The daemon's side: a socket, and whoever asks by it.

use std::{io, path::Path};

use tokio::{
    net::UnixStream,
    sync::{mpsc, oneshot},
};

use super::{Answer, Asked, LONGEST_QUESTION, Question, VERSION};
use crate::{
    cli::fleet::socket::{MOST, OwnSocket, Who, may_ask, read_of, serve_each, write},
    hunt::wire,
};

const WHO: Who = Who {
    command: "gwp-race fleet",
    mend: "ask it with `gwp-race fleet status`",
    named: "[control]",
    mode: 0o600,
};

/// A question, and where its answer goes.
pub type Asking = (Question, oneshot::Sender<Answer>);

/// A socket that is listened to. It goes with this.
pub struct Server {
    _socket: OwnSocket,
    questions: mpsc::Receiver<Asking>,
}

impl Server {
    /// Makes the socket, and its folder where that is missing; another daemon's is left alone.
    ///
    /// # Errors
    /// Another daemon has it, or it cannot be made.
    pub fn listen(path: &Path) -> anyhow::Result<Self> {
        let (listener, socket) = OwnSocket::make(path, WHO)?;
        let (sender, questions) = mpsc::channel(MOST);
        tokio::spawn(serve_each(listener, move |stream| {
            serve(stream, sender.clone())
        }));
        Ok(Self {
            _socket: socket,
            questions,
        })
    }

    /// The next question. May be given up at any time.
    pub async fn next(&mut self) -> Option<Asking> {
        self.questions.recv().await
    }
}

async fn serve(mut stream: UnixStream, questions: mpsc::Sender<Asking>) -> io::Result<()> {
    let answer = if may_ask(&stream)? {
        let is_known =
            |question: &[u8]| wire::beginning::<u32>(question).map(|version| version == VERSION);
        match read_of::<Asked>(is_known, &mut stream, LONGEST_QUESTION).await? {
            None => Answer::Refused(
                "the daemon is another version of gwp-race: restart it, or use its program"
                    .to_owned(),
            ),
            Some(Asked { question, .. }) => {
                let (sender, answer) = oneshot::channel();
                // The daemon may be about to end.
                let _ = questions.send((question, sender)).await;
                answer
                    .await
                    .unwrap_or_else(|_| Answer::Refused("the daemon ends".to_owned()))
            }
        }
    } else {
        Answer::Refused("root and the daemon's own user alone may ask it: use sudo".to_owned())
    };
    write(&mut stream, &answer).await
}

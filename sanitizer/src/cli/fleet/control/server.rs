//! The daemon's side: a socket, and whoever asks by it.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixStream as StdStream,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use nix::unistd::geteuid;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tracing::debug;

use super::{Answer, Asked, LONGEST_QUESTION, Question, VERSION, read, write};
use crate::kernel::folder::{Folder, FolderError};

/// How long somebody may take to ask, and to take his answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many are listened to at the same time.
const MOST: usize = 8;

/// A question, and where its answer goes.
pub type Asking = (Question, oneshot::Sender<Answer>);

/// A socket that is listened to. It goes with this.
pub struct Server {
    path: PathBuf,
    /// Device and inode of the socket's name: another daemon's is not taken away.
    own: Option<(u64, u64)>,
    questions: mpsc::Receiver<Asking>,
}

impl Server {
    /// Makes the socket, and its folder where that is missing; another daemon's is left alone.
    ///
    /// # Errors
    /// Another daemon has it, or it cannot be made.
    pub fn listen(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        make_folder(path).with_context(|| {
            format!("cannot make the folder of {name}; name another socket in [control]")
        })?;
        match StdStream::connect(path) {
            Ok(_) => bail!(
                "another gwp-race fleet runs on this machine and listens to {name}: ask it with `gwp-race fleet status`, or end it"
            ),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
                anyhow::ensure!(
                    is_socket,
                    "{name} is no socket: name another one in [control]"
                );
                fs::remove_file(path).with_context(|| format!("cannot remove {name}"))?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).with_context(|| {
            format!("cannot listen to {name}; name another socket in [control]")
        })?;
        // Whoever came before this is refused by who he is.
        fs::set_permissions(path, Permissions::from_mode(0o600))
            .with_context(|| format!("cannot keep others from {name}"))?;
        let (sender, questions) = mpsc::channel(MOST);
        tokio::spawn(listen(listener, sender));
        Ok(Self {
            own: identity(path),
            path: path.to_owned(),
            questions,
        })
    }

    /// The next question. May be given up at any time.
    pub async fn next(&mut self) -> Option<Asking> {
        self.questions.recv().await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.own.is_some() && identity(&self.path) == self.own {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

/// Makes the folder of a file where it is missing, for the user alone.
pub fn make_folder(path: &Path) -> anyhow::Result<()> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    if folder.as_os_str().as_bytes() == b"/" || folder.is_dir() {
        return Ok(());
    }
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Ok(());
    };
    let told = |error| match error {
        FolderError::Call(error) => anyhow::Error::new(error),
        FolderError::ForeignLink(link) => {
            anyhow::anyhow!("{} is a link that another user may change", link.display())
        }
    };
    Folder::open(above).map_err(told)?.below(name)?;
    Ok(())
}

/// Takes in who asks.
async fn listen(listener: UnixListener, questions: mpsc::Sender<Asking>) {
    let places = Arc::new(Semaphore::new(MOST));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let questions = questions.clone();
                tokio::spawn(async move {
                    let served = timeout(PATIENCE, serve(stream, questions)).await;
                    debug!("a question: {served:?}");
                    drop(place);
                });
            }
            // Nothing but a want of descriptors, which may pass.
            Err(error) => {
                debug!("accept: {error}");
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}

async fn serve(mut stream: UnixStream, questions: mpsc::Sender<Asking>) -> io::Result<()> {
    let answer = match may_ask(stream.peer_cred()?.uid()) {
        Err(refusal) => refusal,
        Ok(()) => match read::<Asked>(&mut stream, LONGEST_QUESTION).await? {
            Asked { version, .. } if version != VERSION => Answer::Refused(
                "the daemon is another version of gwp-race: restart it, or use its program"
                    .to_owned(),
            ),
            Asked { question, .. } => {
                let (sender, answer) = oneshot::channel();
                // The daemon may be about to end.
                let _ = questions.send((question, sender)).await;
                answer
                    .await
                    .unwrap_or_else(|_| Answer::Refused("the daemon ends".to_owned()))
            }
        },
    };
    write(&mut stream, &answer).await
}

/// Whether a user may ask.
fn may_ask(user: u32) -> Result<(), Answer> {
    if user == 0 || user == geteuid().as_raw() {
        return Ok(());
    }
    let refusal = "root and the daemon's own user alone may ask it: use sudo".to_owned();
    Err(Answer::Refused(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that root and the daemon's user may ask, and nobody else.
    #[test]
    fn who_may_ask() {
        assert_eq!(may_ask(0), Ok(()));
        assert_eq!(may_ask(geteuid().as_raw()), Ok(()));
        let other = geteuid().as_raw().wrapping_add(4711);
        assert!(matches!(may_ask(other), Err(Answer::Refused(_))));
    }
}

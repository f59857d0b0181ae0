//! Sockets by which processes of gwp-race that go on are asked: for root and their own user alone.
//!
//! Both sides are the same program: messages are those of [`wire`], so that whoever has rights reads no text of others.

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
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};
use tracing::debug;

use crate::{
    hunt::wire,
    kernel::folder::{Folder, FolderError},
};

/// How long somebody may take to ask, and to take his answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// So many are listened to at the same time.
pub const MOST: usize = 8;

/// Who listens, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// The command.
    pub command: &'static str,
    /// What to do where another one of it listens already.
    pub mend: &'static str,
    /// Where another socket is named.
    pub named: &'static str,
    /// Who can connect, as chmod(2) has it. Whoever is not to ask is refused all the same, by who he is.
    pub mode: u32,
}

/// The name of a socket that is listened to. It goes with this.
pub struct OwnSocket {
    path: PathBuf,
    /// Device and inode of it: another one's is not taken away.
    own: Option<(u64, u64)>,
}

impl OwnSocket {
    /// Makes the socket, and its folder where that is missing; one to which somebody else listens is left alone.
    ///
    /// # Errors
    /// Somebody else has it, or it cannot be made.
    pub fn make(path: &Path, who: Who) -> anyhow::Result<(UnixListener, Self)> {
        let Who {
            command,
            mend,
            named,
            mode,
        } = who;
        let name = path.display();
        make_folder(path).with_context(|| {
            format!("cannot make the folder of {name}; name another socket in {named}")
        })?;
        match StdStream::connect(path) {
            Ok(_) => {
                bail!(
                    "another {command} runs on this machine and listens to {name}: {mend}, or end it"
                )
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
                anyhow::ensure!(
                    is_socket,
                    "{name} is no socket: name another one in {named}"
                );
                fs::remove_file(path).with_context(|| format!("cannot remove {name}"))?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)
            .with_context(|| format!("cannot listen to {name}; name another socket in {named}"))?;
        // Whoever came before this is refused by who he is.
        fs::set_permissions(path, Permissions::from_mode(mode))
            .with_context(|| format!("cannot keep others from {name}"))?;
        let own = Self {
            own: identity(path),
            path: path.to_owned(),
        };
        Ok((listener, own))
    }
}

impl Drop for OwnSocket {
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
pub async fn serve_each<F>(listener: UnixListener, serve: impl Fn(UnixStream) -> F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(MOST));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let serving = serve(stream);
                tokio::spawn(async move {
                    let served = timeout(PATIENCE, serving).await;
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

/// Whether whoever has connected may ask: root, and the user of this process.
///
/// # Errors
/// The kernel does not tell who he is.
pub fn may_ask(stream: &UnixStream) -> io::Result<bool> {
    Ok(is_trusted(stream.peer_cred()?.uid()))
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// Reads a question of at most so many bytes, which has the version of its form at its beginning; nothing where that is another one, of which nothing else is known. `is_known` says whether it is, by what there is of the question; nothing where that is too little.
///
/// # Errors
/// There is none, or it has more.
pub async fn read_of<T: DeserializeOwned>(
    is_known: impl Fn(&[u8]) -> Option<bool>,
    stream: &mut UnixStream,
    longest: usize,
) -> io::Result<Option<T>> {
    let mut buffer = Vec::new();
    let is_known = loop {
        if let Some(is_known) = is_known(&buffer) {
            break is_known;
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if buffer.len() > longest {
            return Err(io::ErrorKind::InvalidData.into());
        }
    };
    if !is_known {
        return Ok(None);
    }
    read_on(stream, buffer, longest).await.map(Some)
}

/// Reads a message of at most so many bytes.
///
/// # Errors
/// There is none, or it has more.
pub async fn read<T: DeserializeOwned>(stream: &mut UnixStream, longest: usize) -> io::Result<T> {
    read_on(stream, Vec::new(), longest).await
}

/// The same, where some of it is there.
async fn read_on<T: DeserializeOwned>(
    stream: &mut UnixStream,
    mut buffer: Vec<u8>,
    longest: usize,
) -> io::Result<T> {
    loop {
        let decoded = wire::decode(&mut buffer);
        let decoded = decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        if let Some(message) = decoded? {
            return Ok(message);
        }
        if buffer.len() > longest {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Writes a message.
///
/// # Errors
/// Nobody takes it.
pub async fn write(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let frame = wire::encode(message).map_err(io::Error::other)?;
    stream.write_all(&frame).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that root and the process's user may ask, and nobody else.
    #[test]
    fn who_may_ask() {
        assert!(is_trusted(0));
        assert!(is_trusted(geteuid().as_raw()));
        assert!(!is_trusted(geteuid().as_raw().wrapping_add(4711)));
    }
}

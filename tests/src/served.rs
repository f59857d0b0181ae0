//! A file system with one file, served by a thread of the test (FUSE, `include/uapi/linux/fuse.h`), that stops answering when the test wants it
//! to.

use std::{
    collections::BTreeSet,
    ffi::CString,
    fs::File,
    io,
    os::{fd::AsRawFd as _, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use nix::{fcntl::OFlag, sys::stat::Mode};

/// Kinds of requests.
mod kind {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const RELEASE: u32 = 18;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const INTERRUPT: u32 = 36;
    pub const BATCH_FORGET: u32 = 42;
}

/// `struct fuse_in_header`.
const HEADER: usize = 40;
/// The node of the file; that of the folder is 1.
const FILE: u64 = 2;
/// What the kernel knows it may keep for so long, in seconds; but for names, which it asks for each time.
const KEPT: u64 = 3600;
/// `FOPEN_KEEP_CACHE`.
const KEEP_CACHE: u32 = 2;

/// See the module. It is unmounted, and who waits for it goes on with an error, when this is dropped.
pub struct Served {
    folder: PathBuf,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_silent: AtomicBool,
    /// Threads of these names get no answer.
    unanswered: Mutex<Vec<String>>,
    waiting: Mutex<Vec<(i32, String)>>,
}

impl Served {
    /// Mounts it at a folder as root's, with a file of these contents, whatever it is called.
    ///
    /// # Errors
    /// Fails where FUSE is not there or not permitted.
    pub fn mount(folder: &Path, contents: Vec<u8>) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let connection = nix::fcntl::open("/dev/fuse", flags, Mode::empty())?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
            connection.as_raw_fd()
        );
        let options = CString::new(options)?;
        let path = CString::new(folder.as_os_str().as_bytes())?;
        // SAFETY: all are C strings.
        let result = unsafe {
            libc::mount(
                c"served".as_ptr(),
                path.as_ptr(),
                c"fuse".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                options.as_ptr().cast(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let state = Arc::new(State::default());
        let of_thread = Arc::clone(&state);
        std::thread::spawn(move || serve(&File::from(connection), &contents, &of_thread));
        Ok(Self {
            folder: folder.to_owned(),
            state,
        })
    }

    /// From now on nothing is answered.
    pub fn fall_silent(&self) {
        self.state.is_silent.store(true, SeqCst);
    }

    /// From now on threads of this name get no answer, either.
    pub fn ignore(&self, name: &str) {
        self.state.unanswered.lock().unwrap().push(name.to_owned());
    }

    /// The threads that wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> Vec<i32> {
        let waiting = self.state.waiting.lock().unwrap();
        waiting.iter().map(|(thread, _)| *thread).collect()
    }

    /// What those were called when they asked.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        let waiting = self.state.waiting.lock().unwrap();
        waiting.iter().map(|(_, name)| name.clone()).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Ok(path) = CString::new(self.folder.as_os_str().as_bytes()) {
            // SAFETY: the path is a C string.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) };
        }
    }
}

/// Until it is unmounted.
fn serve(mut connection: &File, contents: &[u8], state: &State) {
    use std::io::{Read as _, Write as _};
    let mut request = vec![0; 1 << 17];
    while let Ok(len) = connection.read(&mut request) {
        let request = &request[..len];
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let (kind, unique, node) = (word(4), long(8), long(16));
        if [kind::FORGET, kind::BATCH_FORGET, kind::INTERRUPT].contains(&kind) {
            continue;
        }
        let name = || {
            let comm = std::fs::read_to_string(format!("/proc/{}/comm", word(32)));
            comm.unwrap_or_default().trim().to_owned()
        };
        let is_ignored = || {
            let unanswered = state.unanswered.lock().unwrap();
            !unanswered.is_empty() && unanswered.contains(&name())
        };
        if state.is_silent.load(SeqCst) || is_ignored() {
            // The kernel waits for no answer to a release.
            if kind != kind::RELEASE {
                let (thread, name) = (word(32).cast_signed(), name());
                println!(
                    "thread {thread} ({name}) waits for the answer to a request of kind {kind}"
                );
                state.waiting.lock().unwrap().push((thread, name));
            }
            continue;
        }
        let answer = match kind {
            kind::INIT => Ok(greeting()),
            kind::LOOKUP => {
                let mut entry = Vec::new();
                // The node, its generation, for how long the name and what is known of the node are kept.
                for number in [FILE, 0, 0, KEPT] {
                    entry.extend(number.to_ne_bytes());
                }
                entry.extend([0; 8]);
                entry.extend(attributes(FILE, contents));
                Ok(entry)
            }
            kind::GETATTR => {
                let mut known = KEPT.to_ne_bytes().to_vec();
                known.extend([0; 8]);
                known.extend(attributes(node, contents));
                Ok(known)
            }
            kind::OPEN => {
                let mut opened = vec![0; 8];
                opened.extend(KEEP_CACHE.to_ne_bytes());
                opened.extend([0; 4]);
                Ok(opened)
            }
            kind::READ => {
                let start = usize::try_from(long(HEADER + 8))
                    .unwrap()
                    .min(contents.len());
                let end = (start + word(HEADER + 16) as usize).min(contents.len());
                Ok(contents[start..end].to_vec())
            }
            kind::RELEASE | kind::FLUSH => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        };
        let error = answer.as_ref().err().map_or(0, |errno: &i32| -errno);
        let body = answer.unwrap_or_default();
        let mut reply = u32::try_from(16 + body.len())
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        // Whoever has asked may be gone.
        let _ = connection.write(&reply);
    }
}

/// `struct fuse_init_out` of version 7.31.
fn greeting() -> Vec<u8> {
    let mut greeting = Vec::new();
    for number in [7u32, 31, 1 << 17, 0] {
        greeting.extend(number.to_ne_bytes());
    }
    for number in [16u16, 12] {
        greeting.extend(number.to_ne_bytes());
    }
    for number in [1u32 << 16, 1] {
        greeting.extend(number.to_ne_bytes());
    }
    greeting.resize(64, 0);
    greeting
}

/// `struct fuse_attr`.
fn attributes(node: u64, contents: &[u8]) -> Vec<u8> {
    let size = contents.len() as u64;
    let mut attributes = Vec::new();
    for number in [node, size, size.div_ceil(512), 0, 0, 0] {
        attributes.extend(number.to_ne_bytes());
    }
    let mode = match node {
        FILE => libc::S_IFREG | 0o755,
        _ => libc::S_IFDIR | 0o755,
    };
    for number in [0u32, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        attributes.extend(number.to_ne_bytes());
    }
    attributes
}

//! What a process does that a file has taken over: for tests of whoever has to outlive that.

use std::{fs::File, net::TcpStream};

use nix::{
    sys::signal::{Signal, kill},
    unistd::getppid,
};

/// How a file asks for it: its build id is this, and what.
const MARK: &[u8] = b"misdeed ";
/// The same of who finds out what is known of its code.
const MARK_OF_OUTLINE: &[u8] = b"outline ";

/// Does what a file with this build id asks for, if it asks for something.
pub fn asked_by(build_id: &[u8]) {
    asked(build_id.strip_prefix(MARK));
}

/// The same where all is asked that is known of its code.
pub fn asked_by_outline(build_id: &[u8]) {
    asked(build_id.strip_prefix(MARK_OF_OUTLINE));
}

fn asked(deed: Option<&[u8]>) {
    match deed {
        Some(b"crash") => {
            // SAFETY: it is meant to crash; nothing is written to any memory.
            unsafe { std::ptr::null::<u8>().read_volatile() };
        }
        Some(b"abort") => std::process::abort(),
        Some(b"panic") => panic!("as a test wants it"),
        Some(b"slow") => {
            let start = std::time::Instant::now();
            while start.elapsed() < std::time::Duration::from_secs(2) {
                std::hint::spin_loop();
            }
        }
        Some(b"hang") => loop {
            std::hint::spin_loop();
        },
        Some(b"eat") => {
            let mut eaten = Vec::new();
            loop {
                eaten.push(vec![1u8; 1 << 20]);
                std::hint::black_box(&eaten);
            }
        }
        Some(b"open") => {
            let _ = std::hint::black_box(File::open("/etc/passwd"));
        }
        Some(b"socket") => {
            let _ = std::hint::black_box(TcpStream::connect("127.0.0.1:9"));
        }
        Some(b"kill") => {
            let _ = kill(getppid(), Signal::SIGKILL);
        }
        Some(b"exec") => {
            let _ = std::process::Command::new("/bin/true").status();
        }
        // Of a descriptor that it need not have: it is ended before anybody looks. None is needed for the last two.
        Some(b"run") => map(libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE),
        Some(b"change") => map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE),
        Some(b"share") => map(
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        ),
        Some(b"grow") => map(
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN,
        ),
        Some(b"exit") => std::process::exit(0),
        // Its standard input is the socket.
        Some(b"babble") => {
            let _ = nix::unistd::write(std::io::stdin(), &[0xff; 64]);
        }
        _ => {}
    }
}

/// Maps a file, or memory.
fn map(protection: libc::c_int, flags: libc::c_int) {
    const FILE: libc::c_int = 3;
    const SIZE: usize = 4096;
    // SAFETY: the kernel chooses the place, so nothing that is there is replaced; what is mapped is not used.
    unsafe { libc::mmap(std::ptr::null_mut(), SIZE, protection, flags, FILE, 0) };
}

//! Messages between two processes over a socket, with descriptors (unix(7), `SCM_RIGHTS`).
//!
//! A message is its length (4 bytes, little-endian), whether a descriptor goes with it (1 byte), and its bytes. Whoever cannot
//! trust the other end sets a time until which it waits, and takes no descriptors.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    time::Instant,
};

use nix::{
    cmsg_space,
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg},
};

const HEADER: usize = 5;
/// Bytes that are read at a time.
const CHUNK: usize = 1 << 14;

/// One end. See the module.
#[derive(Debug)]
pub struct Passing {
    socket: UnixStream,
    received: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    takes_descriptors: bool,
}

impl Passing {
    /// The end of a process that takes descriptors and waits for as long as it takes.
    #[must_use]
    pub const fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            received: Vec::new(),
            descriptors: VecDeque::new(),
            takes_descriptors: true,
        }
    }

    /// That of a process which gives descriptors, and takes none.
    #[must_use]
    pub const fn giving(socket: UnixStream) -> Self {
        Self {
            socket,
            received: Vec::new(),
            descriptors: VecDeque::new(),
            takes_descriptors: false,
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Fails where sendmsg(2) does, with `TimedOut` where it is not taken until then, and for what is longer than 4 GiB.
    pub fn send(
        &self,
        message: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
        until: Option<Instant>,
    ) -> io::Result<()> {
        let len = u32::try_from(message.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&len.to_le_bytes());
        header[4] = u8::from(descriptor.is_some());
        // With the first bytes.
        let mut descriptor = descriptor.map(|fd| fd.as_raw_fd());
        let mut sent = 0;
        while sent < HEADER + message.len() {
            let rest = sent.saturating_sub(HEADER);
            let parts = [
                IoSlice::new(header.get(sent..).unwrap_or_default()),
                IoSlice::new(message.get(rest..).unwrap_or_default()),
            ];
            let passed: Vec<i32> = descriptor.into_iter().collect();
            let rights = [ControlMessage::ScmRights(&passed)];
            let control = if passed.is_empty() { &[][..] } else { &rights };
            let flags = MsgFlags::MSG_NOSIGNAL | waiting(until);
            match sendmsg::<()>(self.socket.as_raw_fd(), &parts, control, flags, None) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => {
                    sent += more;
                    descriptor = None;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLOUT, until)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next message of at most `most` bytes, with its descriptor if one came.
    ///
    /// # Errors
    /// Fails where recvmsg(2) does, with `TimedOut` where it is not there until then, `UnexpectedEof` where the other end is
    /// closed, and for messages that are longer.
    pub fn receive(
        &mut self,
        most: usize,
        until: Option<Instant>,
    ) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        loop {
            if let Some((header, rest)) = self.received.split_first_chunk::<HEADER>() {
                let [a, b, c, d, passes] = *header;
                let len = u32::from_le_bytes([a, b, c, d]) as usize;
                if len > most {
                    return Err(ErrorKind::InvalidData.into());
                }
                if let Some(message) = rest.get(..len) {
                    let message = message.to_vec();
                    self.received.drain(..HEADER + len);
                    if self.received.is_empty() {
                        // A long message leaves no room behind.
                        self.received = Vec::new();
                    }
                    // Where none can be had any more, nothing came.
                    let descriptor = match passes {
                        0 => None,
                        _ => self.descriptors.pop_front(),
                    };
                    return Ok((message, descriptor));
                }
            }
            self.receive_more(until)?;
        }
    }

    fn receive_more(&mut self, until: Option<Instant>) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        let mut buffer = cmsg_space!([i32; 1]);
        let (read, passed) = loop {
            let mut parts = [IoSliceMut::new(&mut chunk)];
            let control = self.takes_descriptors.then_some(buffer.as_mut_slice());
            let flags = MsgFlags::MSG_CMSG_CLOEXEC | waiting(until);
            match recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, control, flags) {
                Ok(message) => {
                    let mut passed = Vec::new();
                    for control in message.cmsgs().into_iter().flatten() {
                        if let ControlMessageOwned::ScmRights(rights) = control {
                            passed.extend(rights);
                        }
                    }
                    break (message.bytes, passed);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLIN, until)?,
                Err(error) => return Err(error.into()),
            }
        };
        for number in passed {
            // SAFETY: the kernel has just made it for this process, and nobody else knows of it.
            self.descriptors
                .push_back(unsafe { OwnedFd::from_raw_fd(number) });
        }
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.received
            .extend_from_slice(chunk.get(..read).unwrap_or_default());
        Ok(())
    }

    fn wait(&self, what: PollFlags, until: Option<Instant>) -> io::Result<()> {
        let Some(until) = until else {
            return Ok(());
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        // To the next millisecond, so that it is not asked over and over in the last one.
        let left = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), what)], timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Passes a descriptor with a byte that means nothing: for whoever reads it by [`take_descriptor`], and what comes after by itself.
///
/// # Errors
/// Fails where sendmsg(2) does.
pub fn give_descriptor(socket: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let passed = [descriptor.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&passed)];
    let part = [IoSlice::new(&[0])];
    loop {
        match sendmsg::<()>(
            socket.as_raw_fd(),
            &part,
            &rights,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes one, and nothing of what comes behind it; waits until it is there.
///
/// # Errors
/// Fails where recvmsg(2) does, with `UnexpectedEof` where the other end is closed, and `InvalidData` where the byte comes alone.
pub fn take_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut buffer = cmsg_space!([i32; 1]);
    loop {
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut buffer), flags) {
            Ok(message) if message.bytes == 0 => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(message) => {
                let mut passed = message.cmsgs()?.filter_map(|control| match control {
                    ControlMessageOwned::ScmRights(rights) => rights.first().copied(),
                    _ => None,
                });
                let number = passed.next().ok_or(ErrorKind::InvalidData)?;
                // SAFETY: the kernel has just made it for this process, and nobody else knows of it.
                return Ok(unsafe { OwnedFd::from_raw_fd(number) });
            }
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Who waits until some time does not wait in the call.
fn waiting(until: Option<Instant>) -> MsgFlags {
    match until {
        Some(_) => MsgFlags::MSG_DONTWAIT,
        None => MsgFlags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read as _, Seek as _, Write as _},
        time::Duration,
    };

    use super::*;

    /// Check that messages of all lengths come through in order, each with its own descriptor or without one.
    #[test]
    fn messages_and_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (giving, mut taking) = (Passing::giving(ours), Passing::new(theirs));
        let lengths = [0, 1, CHUNK - 5, CHUNK, 300_000, 7];
        let sender = std::thread::spawn(move || {
            for (number, len) in lengths.into_iter().enumerate() {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&[number as u8]).unwrap();
                file.rewind().unwrap();
                let file = (number % 2 == 1).then_some(file);
                let fd = file.as_ref().map(std::os::fd::AsFd::as_fd);
                giving.send(&vec![number as u8; len], fd, None).unwrap();
            }
        });
        for (number, len) in lengths.into_iter().enumerate() {
            let (message, descriptor) = taking.receive(300_000, None).unwrap();
            assert!(message == vec![number as u8; len], "{number}");
            let file = descriptor.map(File::from);
            assert_eq!(file.is_some(), number % 2 == 1, "{number}");
            if let Some(mut file) = file {
                let mut contents = Vec::new();
                file.read_to_end(&mut contents).unwrap();
                assert_eq!(contents, [number as u8]);
            }
        }
        sender.join().unwrap();
        let end = taking.receive(1, None).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    }

    /// Check that descriptors come one by one, and leave what was said after them; a byte alone is none.
    #[test]
    fn descriptors_come_alone() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let mut others: Vec<UnixStream> = Vec::new();
        for number in 0..3 {
            let (mine, passed) = UnixStream::pair().unwrap();
            give_descriptor(&ours, passed.as_fd()).unwrap();
            (&mine).write_all(&[number]).unwrap();
            others.push(mine);
        }
        ours.write_all(b"and more").unwrap();
        for number in 0..3 {
            let mut byte = [9];
            let mut taken = UnixStream::from(take_descriptor(&theirs).unwrap());
            taken.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [number]);
        }
        let mut more = [0; 8];
        theirs.read_exact(&mut more).unwrap();
        assert_eq!(&more, b"and more");
        ours.write_all(&[0]).unwrap();
        let alone = take_descriptor(&theirs).unwrap_err();
        assert_eq!(alone.kind(), ErrorKind::InvalidData);
        drop(ours);
        let end = take_descriptor(&theirs).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    }

    /// Check that whoever sets a time waits no longer, neither for what does not come nor for what is not taken, and takes neither
    /// descriptors nor messages that are too long.
    #[test]
    fn the_other_end_is_not_trusted() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut giving, other) = (Passing::giving(ours), Passing::new(theirs));
        let soon = || Some(Instant::now() + Duration::from_millis(20));
        let error = giving.receive(10, soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let file = tempfile::tempfile().unwrap();
        other.send(&[1], Some(file.as_fd()), None).unwrap();
        let (message, descriptor) = giving.receive(10, soon()).unwrap();
        assert_eq!(message, [1]);
        assert!(descriptor.is_none());
        other.send(&[0; 11], None, None).unwrap();
        let error = giving.receive(10, soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let error = giving.send(&vec![0; 64 << 20], None, soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}

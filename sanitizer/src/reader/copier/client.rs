//! The daemon's side.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use super::{
    silent::Silent,
    wire::{LONGEST_REPLY, Question, Reply, Request},
};
use crate::{
    kernel::{foreign::Via, limits::explained, passing::Passing},
    reader::process::{Process, Program},
    symbols::FileIdentity,
};

/// How long it may say nothing: whoever copies says each moment that it goes on.
const DEADLINE: Duration = Duration::from_secs(5);

/// Why nothing is known of a file that a process serves.
#[derive(Debug, thiserror::Error)]
pub enum CopierError {
    /// Its file system has not answered in time, now or before.
    #[error(
        "the process that serves its file system does not answer; see what has become of that, or unmount it (umount -f), and \
         copy the file to a disk"
    )]
    Silent,
    /// It cannot be had.
    #[error("{0}")]
    NoFile(String),
    /// There is no copier, or it has ended.
    #[error("the process that asks for it has failed: {}", explained(.0))]
    NoCopier(#[from] io::Error),
}

/// See the module.
#[derive(Debug)]
pub struct Copier {
    program: Program,
    process: Option<Process>,
    silent: Silent,
    /// CPU time of copiers that are gone, and of the readers of all, ns.
    spent_ns: u64,
}

impl Copier {
    /// One is started when it is needed.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            process: None,
            silent: Silent::default(),
            spent_ns: 0,
        }
    }

    /// CPU time that all copiers have used, and their readers, ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.spent_ns + self.process.as_ref().map_or(0, Process::cpu_ns)
    }

    /// Ends it, until it is needed again.
    pub fn rest(&mut self) {
        if let Some(process) = self.process.take() {
            self.spent_ns += process.cpu_ns();
        }
    }

    /// Whether files carry metadata, in a file system of this device or behind it; nothing where they cannot be found or read.
    ///
    /// # Errors
    /// Fails where it is not answered in time.
    pub fn carries(
        &mut self,
        device: u64,
        question: &Question,
    ) -> Result<Option<bool>, CopierError> {
        match self.ask(device, &Request::Carries(question.clone()))? {
            (Reply::Carries(carries, worked_ns), _) => {
                self.spent_ns = self.spent_ns.saturating_add(worked_ns);
                Ok(carries)
            }
            _ => Err(self.nonsense()),
        }
    }

    /// What tells a file from others, in a file system of this device or behind it.
    ///
    /// # Errors
    /// Fails where it cannot be found or is no ELF file, and where it is not answered in time.
    pub fn find(&mut self, device: u64, via: &Via) -> Result<FileIdentity, CopierError> {
        match self.ask(device, &Request::Find(via.clone()))? {
            (Reply::Found(found), _) => found.map_err(CopierError::NoFile),
            _ => Err(self.nonsense()),
        }
    }

    /// A copy of the file that was found last, which is on a disk.
    ///
    /// # Errors
    /// Fails where there is no room for one, and where it is not answered in time.
    pub fn copy(&mut self, device: u64) -> Result<File, CopierError> {
        match self.ask(device, &Request::Copy)? {
            (Reply::Copied(Ok(())), Some(copy)) => Ok(copy.into()),
            (Reply::Copied(Err(why)), _) => Err(CopierError::NoFile(why)),
            _ => Err(self.nonsense()),
        }
    }

    fn nonsense(&mut self) -> CopierError {
        self.rest();
        io::Error::from(ErrorKind::InvalidData).into()
    }

    fn ask(
        &mut self,
        device: u64,
        request: &Request,
    ) -> Result<(Reply, Option<OwnedFd>), CopierError> {
        if !self.silent.may_ask(device, Instant::now()) {
            return Err(CopierError::Silent);
        }
        let error = match self.try_ask(request) {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        if error.kind() != ErrorKind::TimedOut {
            self.rest();
            return Err(error.into());
        }
        if let Some(mut process) = self.process.take() {
            self.spent_ns += process.cpu_ns();
            process.kill();
            tracing::warn!(
                "a file system does not answer, which another process serves (its device is {}:{}): it is not asked for a while, so \
                 programs in it are not watched, and reports have addresses only; see what has become of that process",
                libc::major(device),
                libc::minor(device),
            );
            self.silent.add(device, process, Instant::now());
        }
        Err(CopierError::Silent)
    }

    fn try_ask(&mut self, request: &Request) -> io::Result<(Reply, Option<OwnedFd>)> {
        if self.process.as_mut().is_some_and(Process::is_gone) {
            self.rest();
        }
        let process = match &mut self.process {
            Some(process) => process,
            none => none.insert(Process::spawn(&self.program, Passing::new)?),
        };
        let until = || Some(Instant::now() + DEADLINE);
        process.tell(request, None, until())?;
        loop {
            match process.hear(LONGEST_REPLY, until())? {
                (Reply::Going, _) => {}
                reply => return Ok(reply),
            }
        }
    }
}

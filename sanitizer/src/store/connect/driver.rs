//! A thread that waits for sockets, for connections to servers: `sqlx` has SQLite work in a thread, and sockets in a runtime. Whoever waits for an answer may be part of a runtime himself.

use std::{io, thread};

use tokio::{
    runtime::{Builder, EnterGuard, Handle},
    sync::oneshot,
};

/// See the module. It ends when this is dropped.
pub(super) struct Driver {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl Driver {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(ended);
                // A name that is looked up may take long.
                runtime.shutdown_background();
            })?;
        Ok(Self { handle, _end: end })
    }

    /// Has sockets and clocks of this thread belong to it, as long as what is returned is there.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }
}

//! What nobody waits for any more is broken off at the server, too: it would go on with it, and with what it has locked, until it has an answer that it can send to nobody.

use sqlx::{ConnectOptions as _, Connection as _};

use super::{Database, PARTING, within};
use crate::{kernel::rights::as_caller, store::engine};

impl Database {
    /// Has the server break off what this connection waits for, by another one. Where that fails, as with a server that is away, there is nothing to do: it ends with the time that a statement may take.
    pub(super) fn cancel(&self) {
        let (Some(driver), Some(backend)) = (&self.driver, &self.backend) else {
            return;
        };
        let cancelled = async {
            let options = engine::options(&self.address)?;
            let mut other = driver.connect(options.disable_statement_logging()).await?;
            let cancel = sqlx::query(engine::CANCEL);
            let cancel = cancel.bind(backend.number).bind(&backend.began);
            let done = cancel.execute(&mut other).await;
            let _ = other.close().await;
            done.map(drop)
        };
        let cancelled = as_caller(|| self.wait(within(Some(PARTING), cancelled)));
        if !matches!(cancelled, Ok(Ok(()))) {
            tracing::debug!(?cancelled, "the server was not told to break off");
        }
    }
}

//! Debug files from servers, as debuginfod(8) of elfutils serves them: asked for by build id (`/buildid/ID/debuginfo`), kept in the cache that all clients of
//! the user share (debuginfod-client-config(7)).
//!
//! Nothing is asked unless `DEBUGINFOD_URLS` names a server. All that waits for a server is a thread of its own ([`Fetcher`]); whoever wants a file waits for that
//! thread as long as he likes.

mod asker;
mod cache;
mod download;
mod fetcher;
mod settings;
#[cfg(test)]
mod tests;
mod waiting;

pub use asker::Show;
pub use fetcher::Fetcher;
pub use settings::Settings;
pub use waiting::Haste;

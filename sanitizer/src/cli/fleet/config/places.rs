//! Files of the daemon: where races are kept, where it is asked, and what pauses it.

use std::path::{Path, PathBuf};

use super::table::Table;
use crate::store::Address;

/// Where races are kept, unless the file says otherwise.
pub(super) const STORE: &str = "/var/lib/gwp-race/races.db";
/// The same for where the daemon is asked.
const SOCKET: &str = "/run/gwp-race/fleet.sock";
/// The same for the file that pauses it.
const PAUSE: &str = "/run/gwp-race/pause";
/// The longest name of a socket, bytes: `sun_path` of unix(7) with its end.
const LONGEST_SOCKET: usize = 107;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The store of races.
    pub store: Address,
    /// The socket by which the daemon is asked.
    pub socket: PathBuf,
    /// While there is such a file, nobody is watched.
    pub pause: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            store: Address::of_file(STORE),
            socket: SOCKET.into(),
            pause: PAUSE.into(),
        }
    }
}

impl Places {
    /// Reads the tables that name them; what is not said or wrong is as it is without a file.
    pub(super) fn read(file: &mut Table<'_, '_>) -> Self {
        let mut places = Self::default();
        if let Some(mut table) = file.table("export") {
            let store = table.text("store", |text| {
                let address: Address = text.parse()?;
                if let Some(path) = address.path() {
                    absolute(&path.to_string_lossy())?;
                }
                Ok(address)
            });
            places.store = store.unwrap_or(places.store);
            table.end();
        }
        if let Some(mut table) = file.table("control") {
            let socket = table.text("socket", |text| match text.len() {
                0..=LONGEST_SOCKET => absolute(text),
                _ => Err(format!(
                    "a socket's name has {LONGEST_SOCKET} bytes at most"
                )),
            });
            places.socket = socket.unwrap_or(places.socket);
            places.pause = table.text("pause", absolute).unwrap_or(places.pause);
            table.end();
        }
        places
    }
}

/// A daemon has no folder that anybody would think of.
pub(super) fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if path.is_absolute() {
        Ok(path.to_owned())
    } else {
        Err("write the whole path, from / on".to_owned())
    }
}

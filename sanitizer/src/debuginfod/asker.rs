//! Asks the servers for a file, one after the other, and keeps what comes if it is what was asked for.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant, SystemTime},
};

use ureq::Agent;

use super::{
    cache::{Cache, CacheError, Kept, Place},
    download::{Failure, agent, download},
    settings::Settings,
    waiting::Shared,
};
use crate::{
    http::Server,
    reader::{HeaderReader, Program, Unidentified},
    symbols::hexadecimal,
};

/// A server that has not answered, or not in time, is let alone for so long.
const LET_ALONE: Duration = Duration::from_secs(300);
/// How often progress is shown; of a file that comes sooner none is.
const PERIOD: Duration = Duration::from_millis(200);
/// Bytes of the unit in which it is shown.
const MIB: f64 = (1 << 20) as f64;

/// Shows on a terminal how far a file has come, or that nothing is fetched any more.
pub type Show = Box<dyn Fn(Option<&str>) + Send>;

/// See the module.
pub(super) struct Asker {
    settings: Settings,
    cache: Cache,
    agent: Option<Agent>,
    /// Has a process without rights read the headers of what comes.
    reader: HeaderReader,
    show: Option<Show>,
    /// The build ids of which it was told that there is nothing.
    told: HashSet<Vec<u8>>,
    /// Since when servers have not answered.
    silent: HashMap<Server, Instant>,
}

impl Asker {
    /// `reader`: what reads headers.
    pub(super) fn new(settings: Settings, show: Option<Show>, reader: Program) -> Self {
        Self {
            cache: Cache::new(settings.cache.clone(), settings.reserve),
            reader: HeaderReader::of_served(reader).with_deadline(settings.reading),
            settings,
            agent: None,
            show,
            told: HashSet::new(),
            silent: HashMap::new(),
        }
    }

    /// CPU time that was used to read headers, ns.
    pub(super) fn cpu_ns_of_readers(&self) -> u64 {
        u64::try_from(self.reader.cpu().as_nanos()).unwrap_or(u64::MAX)
    }

    #[cfg(test)]
    pub(super) const fn ended_readers(&self) -> u64 {
        self.reader.ended()
    }

    /// Nobody asks for now.
    pub(super) fn rest(&mut self) {
        self.reader.rest();
    }

    /// Whether the debug file of a build id is in the cache; if not, it is told why. `of`: the module.
    pub(super) fn fetch(&mut self, shared: &Shared, build_id: &[u8], of: &str) -> bool {
        let id = hexadecimal(build_id);
        let place = self.cache.place(build_id);
        let looked = place.and_then(|place| {
            let kept = place.look(SystemTime::now(), &mut self.reader)?;
            Ok((kept, place))
        });
        let why = match looked {
            Ok((Kept::File, _)) => return true,
            Ok((Kept::Miss, _)) => {
                "no server had it when it was asked for less than ten minutes ago".to_owned()
            }
            Ok((Kept::Nothing, place)) => match self.ask_all(shared, &place, build_id, of) {
                Ok(()) => return true,
                Err(why) => why,
            },
            Err(error @ CacheError::Unread { .. }) => {
                format!("{error}; remove that file if this stays so")
            }
            Err(error) => format!(
                "what they send cannot be kept ({error}): set DEBUGINFOD_CACHE_PATH to a folder of your own"
            ),
        };
        // What has not come to its end by then is told of by whoever has waited.
        if shared.lock().is_over() {
            return false;
        }
        if self.told.insert(build_id.to_owned()) {
            tracing::warn!(
                "no debug information of {of} (build id {id}) from servers, so its frames have no lines: {why}; else name a folder that has it \
                 with --debug-dir"
            );
        } else {
            tracing::debug!(
                "still no debug information of {of} (build id {id}) from servers: {why}"
            );
        }
        false
    }

    fn ask_all(
        &mut self,
        shared: &Shared,
        place: &Place,
        build_id: &[u8],
        of: &str,
    ) -> Result<(), String> {
        let until = self.settings.whole.map(|whole| Instant::now() + whole);
        let mut why = Vec::new();
        let mut is_nowhere = true;
        let mut is_late = false;
        for server in self.settings.servers.clone() {
            let silent = self.silent.get(&server);
            if silent.is_some_and(|since| since.elapsed() < LET_ALONE) {
                is_nowhere = false;
                why.push(format!("{} has not answered in time before", server.name));
                continue;
            }
            // It would be blamed for the time that others have taken.
            is_late |= until.is_some_and(|until| until <= Instant::now());
            if is_late {
                is_nowhere = false;
                why.push(format!("{} was not asked any more", server.name));
                continue;
            }
            let asked = self.ask((shared, place), &server, build_id, until, of);
            shared.writes(None);
            if let Some(show) = &self.show {
                show(None);
            }
            let Err(failure) = asked else {
                return Ok(());
            };
            is_nowhere &= matches!(failure, Failure::Absent);
            is_late |= matches!(failure, Failure::TooLong(_));
            why.push(format!("{} {failure}", server.name));
            if failure.is_of_server() {
                self.silent.insert(server, Instant::now());
            }
        }
        if is_nowhere && let Err(error) = place.note_miss() {
            tracing::debug!(%error, "that no server has it is not noted");
        }
        Err(why.join("; "))
    }

    fn ask(
        &mut self,
        (shared, place): (&Shared, &Place),
        server: &Server,
        build_id: &[u8],
        until: Option<Instant>,
        of: &str,
    ) -> Result<(), Failure> {
        let begin = || {
            // Without one it would come in vain.
            self.reader.be_ready().map_err(Failure::NoReader)?;
            let partial = place.begin().map_err(Failure::Unwritable)?;
            shared.writes(Some(partial.unfinished().clone()));
            Ok(partial)
        };
        let url = server.at(&debug_file(build_id));
        let agent = self.agent.get_or_insert_with(|| agent(&self.settings));
        let mut shown = Instant::now();
        let progress = &mut |came: u64, size: Option<u64>| {
            if let Some(show) = &self.show
                && shown.elapsed() >= PERIOD
            {
                shown = Instant::now();
                let size =
                    size.map_or_else(String::new, |size| format!("of {:.1} ", size as f64 / MIB));
                show(Some(&format!(
                    "gwp-race: fetching debug information of {of}: {:.1} {size}MiB",
                    came as f64 / MIB
                )));
            }
        };
        let partial = download((agent, &self.settings), &url, until, begin, progress)?;
        let again = partial.file.try_clone().map_err(Failure::Unwritable)?;
        match self.reader.build_id(again, place.path()) {
            Ok(found) if found == build_id => partial.keep().map_err(Failure::Unwritable),
            Ok(found) if found.is_empty() => {
                Err(Failure::Foreign("a file without a build id".to_owned()))
            }
            Ok(found) => Err(Failure::Foreign(format!(
                "the file of the build id {}",
                hexadecimal(&found)
            ))),
            Err(error @ Unidentified::NotWhole) => Err(Failure::Foreign(error.to_string())),
            Err(Unidentified::Unread(why)) => Err(Failure::Unread(why)),
        }
    }
}

/// Where servers have the debug file of a build id.
pub(super) fn debug_file(build_id: &[u8]) -> String {
    format!("buildid/{}/debuginfo", hexadecimal(build_id))
}

//! Agents of some machines, their collector and its store, all of them real processes that a test kills and starts again as it likes.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gwp_race_tests::{
    binary::{gwp_race, gwp_race_faulty},
    children::Guarded,
};
use nix::unistd::Pid;
use serde_json::Value;

use super::{Case, Disk, front::Front, giver::Giver, until};
use crate::{
    collector::{Collector, listed_of},
    server::Server,
};

/// Room of a small disk.
const SMALL: &str = "size=24m,mode=700";
/// The same of a PostgreSQL server, which has 25 MB of its own when it begins.
const SMALL_OF_SERVER: &str = "size=64m";

/// See the module.
pub struct Site {
    folder: tempfile::TempDir,
    /// On which the store or the outbox is, as far as the others' processes see it.
    disk: Disk,
    spool: &'static str,
    store: String,
    pub server: Option<Server>,
    pub front: Front,
    collector: Option<Collector>,
    /// Another collector of the same store.
    beside: Option<Collector>,
    agents: Vec<Option<Guarded>>,
    /// Which gwp-race is started next, where two take turns.
    version: Option<Version>,
}

/// Two versions of gwp-race, of which the newer one adds something to stores and outboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Older,
    Newer,
}

impl Version {
    /// Whether somebody has named an older one.
    pub fn is_given() -> bool {
        std::env::var_os("GWP_RACE_OLD_BIN").is_some()
    }

    /// Where nothing is said, this one is the older of the two, and the one for tests (`fault-injection`) the newer one, which has a fictitious addition. With `GWP_RACE_OLD_BIN`, that is the older one.
    fn program(self) -> PathBuf {
        match (self, std::env::var_os("GWP_RACE_OLD_BIN")) {
            (Self::Older, Some(older)) => older.into(),
            (Self::Older, None) | (Self::Newer, Some(_)) => gwp_race(),
            (Self::Newer, None) => gwp_race_faulty(),
        }
    }
}

impl Site {
    pub fn start(case: &Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = case.is_on_server.then(|| match case.disk {
            Disk::Server => Server::on_a_small_disk(SMALL_OF_SERVER),
            _ => Server::start(),
        });
        let file = match case.disk {
            Disk::Collector => "disk/races.db",
            _ => "races.db",
        };
        let file = format!("sqlite:{}", folder.path().join(file).display());
        let mut site = Self {
            disk: case.disk,
            spool: case.spool,
            store: server.as_ref().map_or(file, Server::database),
            server,
            front: Front::start(),
            collector: None,
            beside: None,
            agents: Vec::new(),
            version: case.takes_turns.then_some(Version::Older),
            folder,
        };
        fs::create_dir(site.path("disk")).unwrap();
        let token = site.path("token");
        // Of each test another one, as a port of a collector that was killed may be another test's in the next moment.
        fs::write(&token, format!("token-of-{}", site.folder.path().display())).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        site.restart_collector();
        for number in 0..case.agents {
            site.agents.push(None);
            site.configure(number);
            site.restart_agent(number);
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn of_agent(&self, number: usize, what: &str) -> PathBuf {
        self.path(&format!("agent{number}{what}"))
    }

    pub fn agents(&self) -> usize {
        self.agents.len()
    }

    /// Whoever hands over to an agent, by a name of this number.
    pub fn giver(&self, agent: usize, name: u64) -> Giver {
        Giver::new(&self.of_agent(agent, ".sock"), agent as u64 + 1, name)
    }

    /// The gwp-race that is started next.
    fn program(&self) -> PathBuf {
        self.version.map_or_else(gwp_race, Version::program)
    }

    /// A command, in a mount namespace of its own with a small disk where the case has one for it.
    fn command(&self, disk: Disk) -> Command {
        let program = self.program();
        if self.disk != disk {
            return Command::new(program);
        }
        let script = "mount -t tmpfs -o \"$1\" none \"$2\" || exit 99; shift 2; exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private"])
            .args(["sh", "-c", script, "sh", SMALL])
            .arg(self.path("disk"))
            .arg(program);
        command
    }

    /// What is started from now on is of this version.
    pub const fn go_on_with(&mut self, version: Version) {
        self.version = Some(version);
    }

    /// Starts a collector beside the one that there is, to which messages go from now on.
    pub fn add_collector(&mut self) {
        self.beside = self.collector.take();
        self.restart_collector();
    }

    /// Messages go to the other one of both collectors from now on.
    pub fn change_collector(&mut self) {
        std::mem::swap(&mut self.collector, &mut self.beside);
        let collector = self.collector.as_ref().unwrap();
        self.front.lead_to(&collector.address);
    }

    /// Which fictitious versions the store is of.
    pub fn fictitious(&self) -> String {
        let sql = "SELECT version FROM _gwp_race_additions WHERE version = 1000000";
        self.server.as_ref().unwrap().answer(&self.store, sql)
    }

    /// Kills the collector, if there is one, and starts one.
    pub fn restart_collector(&mut self) {
        self.collector = None;
        let mut command = self.command(Disk::Collector);
        command.args(["races", "serve", "--store", &self.store, "--token-file"]);
        command.arg(self.path("token"));
        let collector = Collector::by(command);
        self.front.lead_to(&collector.address);
        self.collector = Some(collector);
    }

    fn configure(&self, number: usize) {
        let outbox = match self.disk {
            Disk::Agent => self.path("disk/outbox.db"),
            _ => self.of_agent(number, "/outbox.db"),
        };
        let text = format!(
            "[limits]\nspool = \"{}\"\n[export]\nagent = \"{}\"\n[agent]\ncollector = \"{}\"\ntoken = \"{}\"\noutbox = \"{}\"\n",
            self.spool,
            self.of_agent(number, ".sock").display(),
            self.front.url,
            self.path("token").display(),
            outbox.display(),
        );
        fs::write(self.of_agent(number, ".toml"), text).unwrap();
    }

    /// The same with an agent.
    pub fn restart_agent(&mut self, number: usize) {
        self.agents[number] = None;
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.of_agent(number, ".log"))
            .unwrap();
        let mut command = self.command(Disk::Agent);
        command.args(["fleet", "agent", "--config"]);
        command.arg(self.of_agent(number, ".toml"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.agents[number] = Some(Guarded::new(command.spawn().unwrap()));
    }

    /// What an agent says of itself; nothing where it does not answer.
    fn status(&self, number: usize) -> Option<Value> {
        let mut command = Command::new(self.program());
        command.args(["fleet", "agent", "status", "--format", "json", "--config"]);
        command.arg(self.of_agent(number, ".toml"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    /// What each agent says of itself when all is sent that it has.
    pub fn sent(&self) -> Vec<Value> {
        let agents = 0..self.agents.len();
        let sent = agents.map(|number| {
            let mut last = None;
            let is_empty = until(|| {
                last = self.status(number);
                let status = last.as_ref();
                status.is_some_and(|status| status["items"] == 0 && status["sending"].is_null())
            });
            let log = fs::read_to_string(self.of_agent(number, ".log")).unwrap_or_default();
            let status = last.unwrap_or_default();
            assert!(is_empty, "{status:#}\n{log}");
            status
        });
        sent.collect()
    }

    /// The process that has a small disk.
    fn on_disk(&self) -> Pid {
        match (self.disk, &self.agents[0], &self.collector) {
            (Disk::Agent, Some(agent), _) => agent.pid(),
            (_, _, Some(collector)) => collector.pid(),
            _ => panic!("nobody has a small disk"),
        }
    }

    /// A file of the small disk, as seen from here.
    fn file_on_disk(&self, name: &str) -> PathBuf {
        let own = self.path("disk").join(name);
        let own = own.strip_prefix("/").unwrap();
        Path::new(&format!("/proc/{}/root", self.on_disk())).join(own)
    }

    /// Leaves no room on the small disk.
    pub fn fill(&self) {
        let mut ballast = fs::File::create(self.file_on_disk("ballast")).unwrap();
        for size in [1 << 16, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Gives the room back.
    pub fn empty(&self) {
        fs::remove_file(self.file_on_disk("ballast")).unwrap();
    }

    /// What `races` says of the store, to which nobody writes any more.
    pub fn listed(&self, what: &str) -> Vec<Value> {
        if self.disk != Disk::Collector {
            return listed_of(&self.store, what);
        }
        // Nobody else sees it there.
        for end in ["", "-wal"] {
            let copy = self.path(&format!("copy.db{end}"));
            fs::copy(self.file_on_disk(&format!("races.db{end}")), copy).unwrap();
        }
        listed_of(&format!("sqlite:{}", self.path("copy.db").display()), what)
    }
}

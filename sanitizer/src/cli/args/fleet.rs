//! The command line of `gwp-race fleet`.

use std::{path::PathBuf, time::Duration};

use clap::ArgAction;

use crate::cli::{duration::parse_duration, list_form::ListForm};

/// Watch all of this machine's programs, a few at a time
///
/// The daemon of one machine: it finds the processes whose program or libraries carry metadata, as they come and go, and watches a few of them at a time, for some seconds each. That costs at most 1 % of the
/// machine's CPU time and 1 % of each process's, unless the configuration says otherwise. Races are told on standard error and kept in a store, which `gwp-race races` lists. SIGTERM, SIGINT and the end of the daemon, by
/// whatever reason, let all go.
///
/// The configuration is believed only if nobody but root and whoever runs this may write it, or a folder on the way to it. With --check it is read and nothing else is done; with --dry-run each process is named with
/// what decides.
///
/// The exit code is 0, and 1 if the configuration is wrong, or something cannot be written.
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "gwp-race fleet [OPTIONS] [COMMAND]",
    after_long_help = "Examples:
  gwp-race fleet --check
  sudo gwp-race fleet --dry-run
  sudo gwp-race fleet --dry-run --format json | jq 'select(.watch)'
  sudo gwp-race fleet
  sudo gwp-race fleet top
  sudo gwp-race fleet pause --for 1h
  sudo gwp-race races list --store sqlite:/var/lib/gwp-race/races.db

The file, with what holds where it says nothing (rules: none):
  rollout = \"100%\"              # of the machines, by a hash of /etc/machine-id
  [budget]
  host = \"1%\"                   # of the machine's CPU time
  process = \"1%\"                # of a process's CPU time, in the long run
  lease = \"5%\"                  # the same, while it is watched
  [limits]
  leases = 4                    # processes that are watched at the same time
  memory = \"150MiB\"             # for all of gwp-race: above it nobody is watched anew
  cpu_pressure = \"80%\"         # above it nobody is watched: some of /proc/pressure/cpu, in ten seconds
  memory_pressure = \"10%\"
  spool = \"64MiB\"               # what the agent keeps of what is not sent yet
  breakpoints = \"yield\"         # to another tool that takes some; \"share\": who is second is refused
  [learn]
  ledger = \"/var/lib/gwp-race/ledger.db\" # in the folder of the store; none: nothing is kept
  half_life = \"7d\"              # in which half of it is forgotten
  share = true                  # where there is an agent: with other machines, by its collector
  [evidence]
  values = false                # reports tell the bytes that were watched
  [export]
  store = \"sqlite:/var/lib/gwp-race/races.db\"
  agent = \"/run/gwp-race/agent.sock\" # races go to the agent there as well (default: to none)
  [agent]                       # gwp-race fleet agent --help
  [control]
  socket = \"/run/gwp-race/fleet.sock\"
  pause = \"/run/gwp-race/pause\" # while there is such a file, nobody is watched
  [[rule]]                      # the first one that matches decides
  watch = true
  exe = \"/srv/**\"               # * stands for no /, ** for any folders
  user = \"app\"
  cgroup = \"*/prod-*\"           # * stands for anything
  [[rule]]
  watch = false
  comm = \"postgres\""
)]
pub struct FleetArgs {
    /// Ask a daemon that runs.
    #[command(subcommand)]
    pub command: Option<FleetCommand>,

    /// Check the configuration and tell what it says
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,

    /// Name each process, whether it would be watched, and why
    ///
    /// What was found is told once. Processes of other users are looked into with their rights, or as root.
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigArg,

    /// Form of --dry-run (--help lists them)
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text, requires = "dry_run", conflicts_with = "check")]
    pub format: ListForm,

    /// Form of the log (--help lists them)
    ///
    /// How the daemon tells races, and each lease that is over, on standard error. Other messages begin with `gwp-race:` in either form.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogForm::Text, conflicts_with_all = ["check", "dry_run"])]
    pub log: LogForm,

    /// Say more; twice: debug messages, too
    #[arg(short, long, action = ArgAction::Count, conflicts_with_all = ["check", "dry_run"])]
    pub verbose: u8,
}

impl FleetArgs {
    /// Whether it is the daemon that is wanted.
    #[must_use]
    pub const fn is_daemon(&self) -> bool {
        !self.check && !self.dry_run && self.command.is_none()
    }

    /// How much is said by whatever goes on until it is told to end; nothing where something is asked or told once.
    #[must_use]
    pub const fn verbosity(&self) -> Option<u8> {
        match &self.command {
            Some(FleetCommand::Agent(AgentArgs {
                command: None,
                verbose,
                ..
            })) => Some(*verbose),
            _ if self.is_daemon() => Some(self.verbose),
            _ => None,
        }
    }
}

/// The configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct ConfigArg {
    /// The configuration (default: /etc/gwp-race/fleet.toml)
    ///
    /// Where none is named and there is none at the usual place, all is as without one.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How the daemon tells what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogForm {
    /// For people; leases as key=value.
    Text,
    /// One JSON object a line (docs/report.schema.json, docs/fleet.schema.json).
    Json,
}

/// What can be asked of a daemon that runs.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum FleetCommand {
    /// Tell what the daemon does
    Status(StatusArgs),
    /// The same, drawn anew each second
    Top(ConfigArg),
    /// Let all processes go, and watch nobody
    Pause(PauseArgs),
    /// End a pause
    Resume(ConfigArg),
    /// Let a process alone as long as it lives
    Ignore(IgnoreArgs),
    /// Send what the daemon finds to a collector
    Agent(AgentArgs),
}

/// Send what the daemon finds to a collector
///
/// A process that needs no rights: the daemon, which has no network, hands over to it what it finds, by a socket. It is on the disk before that is answered, and stays there until the collector has taken it, whatever ends or is away meanwhile. What
/// is kept is bounded (limits.spool of the configuration): beyond that what is worth least is dropped, counted, and told to the collector. SIGTERM and SIGINT end it; nothing is lost by that, nor by any other end.
///
/// It listens to the socket that systemd passes to it, or to the one that --socket or the configuration names. Root and its own user may hand something over.
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "gwp-race fleet agent [OPTIONS] [COMMAND]",
    after_long_help = "Examples:
  sudo systemctl enable --now gwp-race-agent.socket
  gwp-race fleet agent --config fleet.toml --socket ./agent.sock
  sudo gwp-race fleet agent status

In the configuration, with what holds where it says nothing (collector, token, ca, certificate, key: none; a collector, or [agent.otlp], or both):
  [export]
  agent = \"/run/gwp-race/agent.sock\"             # the daemon hands over what it finds there
  [agent]
  collector = \"https://races.example.org:7174\"   # gwp-race races serve, on another machine
  token = \"/etc/gwp-race/token\"                  # a file that others cannot read
  ca = \"/etc/gwp-race/ca.pem\"                    # who has signed the collector's certificate, if not whom this machine believes
  certificate = \"/etc/gwp-race/agent.pem\"        # the agent's own, and its key
  key = \"/etc/gwp-race/agent.key\"
  insecure = false                                 # true: http:// to other machines
  outbox = \"/var/lib/gwp-race-agent/outbox.db\"
  metrics = \"127.0.0.1:9464\"                      # figures for Prometheus (default: nowhere)
  [agent.otlp]                                     # an event for each new race, and figures, by OTLP/HTTP
  endpoint = \"https://otel.example.org:4318\"     # what stands before /v1/logs and /v1/metrics
  headers = \"/etc/gwp-race/otlp-headers\"         # `Name: value` a line; others cannot read it (default: none)
  interval = \"60s\"                               # figures; ca, certificate, key and insecure as above
  [limits]
  spool = \"64MiB\""
)]
pub struct AgentArgs {
    /// Ask an agent that runs.
    #[command(subcommand)]
    pub command: Option<AgentCommand>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigArg,

    /// Listen to this socket
    ///
    /// It is made, for root and the own user alone (default: export.agent of the configuration). One that systemd passes goes before it.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Say more; twice: debug messages, too
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// What can be asked of an agent that runs.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum AgentCommand {
    /// Tell what the agent keeps, and what was dropped
    Status(AgentStatusArgs),
    /// Make the folder of the outbox, for the agent's user
    Prepare(AgentPrepareArgs),
}

/// Tell what the agent keeps, and what was dropped
#[derive(Clone, Debug, clap::Args)]
pub struct AgentStatusArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigArg,

    /// Ask the agent that listens to this socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Form (--help lists them)
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text)]
    pub format: ListForm,
}

/// Make the folder of the outbox, for the agent's user
///
/// For root, before the agent is started as a user who cannot make it himself, as in a container that has a folder of its machine; systemd does the same by StateDirectory=. The folder that agent.outbox of the configuration is in is made if it is
/// missing, and belongs to this user alone from then on. One that is his already stays as it is; one in which somebody else has files is refused.
#[derive(Clone, Debug, clap::Args)]
pub struct AgentPrepareArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigArg,

    /// The user, by number
    #[arg(long, value_name = "UID")]
    pub owner: u32,
}

/// Tell what the daemon does
#[derive(Clone, Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigArg,

    /// Form (--help lists them)
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text)]
    pub format: ListForm,
}

/// Let all processes go, and watch nobody
///
/// The pause ends by `gwp-race fleet resume`, and with the daemon. To have one that outlasts it, make the file that the configuration names (/run/gwp-race/pause).
#[derive(Clone, Debug, clap::Args)]
pub struct PauseArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigArg,

    /// End the pause after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub time: Option<Duration>,
}

/// Let a process alone as long as it lives
///
/// Whatever it executes. It is forgotten when it ends, or the daemon: write a rule to keep a program out.
#[derive(Clone, Debug, clap::Args)]
pub struct IgnoreArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigArg,

    /// The process
    #[arg(value_name = "PID", value_parser = parse_pid)]
    pub pid: u32,
}

fn parse_pid(text: &str) -> Result<u32, String> {
    let pid = text.parse::<i32>().ok().filter(|pid| *pid > 0);
    pid.map(i32::cast_unsigned).ok_or_else(|| {
        "give the process's id, a number: `gwp-race fleet status` lists them".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};

    fn parse(words: &[&str]) -> Option<FleetArgs> {
        let line = ["gwp-race", "fleet"].iter().chain(words);
        match Cli::try_parse_from(line).ok()?.command {
            Command::Fleet(args) => Some(args),
            _ => None,
        }
    }

    /// Check which lines start the daemon, which ask one, and that those which could mean either are refused.
    #[test]
    fn what_is_wanted() {
        for words in [&[][..], &["--config", "x"], &["--log", "json", "-v"]] {
            assert!(parse(words).unwrap().is_daemon(), "{words:?}");
        }
        for words in [
            &["--check"][..],
            &["--dry-run", "--format", "json"],
            &["status", "--config", "x", "--format", "json"],
            &["top"],
            &["pause", "--for", "1h"],
            &["resume"],
            &["ignore", "1"],
            &["agent", "--socket", "x"],
            &["agent", "prepare", "--owner", "65532"],
        ] {
            assert!(!parse(words).unwrap().is_daemon(), "{words:?}");
        }
        let verbosity = |words: &[&str]| parse(words).unwrap().verbosity();
        assert_eq!(verbosity(&["-v"]), Some(1));
        assert_eq!(verbosity(&["agent", "-vv"]), Some(2));
        assert_eq!(verbosity(&["agent", "status"]), None);
        assert_eq!(verbosity(&["--check"]), None);
        for words in [
            &["--check", "--dry-run"][..],
            &["--format", "json"],
            &["--check", "status"],
            &["--check", "--log", "json"],
            &["ignore"],
            &["ignore", "0"],
            &["agent", "--socket", "x", "status"],
            &["agent", "prepare"],
            &["agent", "prepare", "--owner", "app"],
            &["pause", "--for", "x"],
        ] {
            assert!(parse(words).is_none(), "{words:?}");
        }
    }
}

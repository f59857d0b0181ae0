//! What is read from `fleet.toml`, and what is said of what is wrong.

use std::time::Duration;

use super::*;
use crate::http::{Destination, Secret, Server};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("fleet.toml"))
}

/// All keys, each with another value than without a file.
const ALL: &str = r#"
rollout = "5%"

[budget]
host = "0.5%"
process = "2%"
lease = "4%"

[limits]
leases = 2
memory = "1GiB"
spool = "1GiB"
cpu_pressure = "90%"
memory_pressure = "100%"
breakpoints = "share"

[learn]
ledger = "/srv/learned.db"
half_life = "36h"
share = false

[evidence]
values = true

[export]
store = "sqlite:/srv/races.db"
agent = "/run/agent.sock"

[agent]
collector = "https://races.example.org:7174/team"
token = "/etc/token"
ca = "/etc/ca.pem"
certificate = "/etc/own.pem"
key = "/etc/own.key"
insecure = true
outbox = "/srv/outbox.db"
metrics = "[::1]:9464"

[agent.otlp]
endpoint = "http://127.0.0.1:4318"
headers = "/etc/headers"
ca = "/etc/otlp.pem"
certificate = "/etc/otlp-own.pem"
key = "/etc/otlp-own.key"
insecure = true
interval = "5s"

[control]
socket = "/run/a.sock"
pause = "/run/off"

[[rule]]
watch = true
exe = "/srv/**"
user = "root"
cgroup = "*/prod-*"

[[rule]]
watch = false
comm = "postgres"
"#;

/// Check that each key is read, and that without any all is as usual.
#[test]
fn all_keys() {
    let config = parse(ALL).unwrap();
    let expected = Settings {
        budget: Budget {
            host: 0.005,
            process: 0.02,
            lease: 0.04,
        },
        leases: 2,
        memory: 1 << 30,
        spool: 1 << 30,
        pressure: Pressure {
            cpu: 90.0,
            memory: 100.0,
        },
        yields_breakpoints: false,
        values: true,
        rollout: 0.05,
    };
    assert_eq!(config.settings, expected);
    let [first, second] = &config.rules.0[..] else {
        panic!("{:?}", config.rules);
    };
    assert!(first.watch && first.exe.is_some() && first.cgroup.is_some());
    assert_eq!((first.user, first.line), (Some(0), 52));
    assert!(!second.watch && second.exe.is_none());
    assert_eq!(second.comm.as_deref(), Some("postgres"));
    assert_eq!(second.line, 58);
    let places = Places {
        store: "sqlite:/srv/races.db".parse().unwrap(),
        agent: Some("/run/agent.sock".into()),
        socket: "/run/a.sock".into(),
        pause: "/run/off".into(),
    };
    assert_eq!(config.places, places);
    let learn = Learn {
        ledger: Some("/srv/learned.db".into()),
        half_life: Duration::from_hours(36),
        share: false,
    };
    assert_eq!(config.learn, learn);
    let agent = Agent {
        collector: Some(Destination {
            server: Server::new("https://races.example.org:7174/team").unwrap(),
            secret: Some(Secret::Token("/etc/token".into())),
            authorities: Some("/etc/ca.pem".into()),
            identity: Some(("/etc/own.pem".into(), "/etc/own.key".into())),
        }),
        outbox: "/srv/outbox.db".into(),
        otlp: Some(Otlp {
            destination: Destination {
                server: Server::new("http://127.0.0.1:4318").unwrap(),
                secret: Some(Secret::Headers("/etc/headers".into())),
                authorities: Some("/etc/otlp.pem".into()),
                identity: Some(("/etc/otlp-own.pem".into(), "/etc/otlp-own.key".into())),
            },
            interval: Duration::from_secs(5),
        }),
        metrics: Some("[::1]:9464".parse().unwrap()),
    };
    assert_eq!(config.agent, agent);
    let empty = parse("").unwrap();
    assert_eq!(empty.agent, Agent::default());
    assert_eq!(empty.settings, Settings::default());
    assert_eq!(empty.places, Places::default());
    assert_eq!(empty.learn, Learn::default());
    assert!(empty.rules.0.is_empty());
}

/// Check that what is wrong is told with file and line and what to do, and a key that is not known with the one that was meant.
#[test]
fn what_is_wrong() {
    for (text, line, told) in [
        (
            "[budget]\nhots = \"1%\"",
            2,
            "no key \"hots\" in [budget]: write host",
        ),
        ("\n[budgets]", 2, "no key \"budgets\" here: write budget"),
        (
            "[export]\notlp = \"x\"",
            2,
            "no key \"otlp\" in [export]: known in [export] are: store, agent",
        ),
        (
            "[budget]\nhost = \"50%\"",
            2,
            "host of [budget]: 50% is not from 0.01% to 10%",
        ),
        (
            "[budget]\nhost = 0.01",
            2,
            "host of [budget]: float is no text: put it into quotes",
        ),
        ("[budget]\nprocess = \"6%\"", 1, "raise lease"),
        ("budget = 3", 1, "write [budget] in a line of its own"),
        (
            "[limits]\nleases = 5",
            2,
            "leases of [limits]: 5 is not from 1 to 4",
        ),
        (
            "[limits]\nmemory = \"1MiB\"",
            2,
            "memory of [limits]: 1MiB is not from 64MiB to 16GiB",
        ),
        ("[limits]\nmemory = \"150M\"", 2, "such as 150MiB"),
        (
            "[limits]\nspool = \"1MiB\"",
            2,
            "spool of [limits]: 1MiB is not from 4MiB to 16GiB",
        ),
        (
            "[export]\nagent = \"agent.sock\"",
            2,
            "write the whole path",
        ),
        (
            "[agent]\ncolector = \"https://host\"",
            2,
            "no key \"colector\" in [agent]: write collector",
        ),
        ("[agent]\ncollector = \"host\"", 2, "https://"),
        ("[agent]\ncollector = \"http://host\"", 1, "insecure = true"),
        ("[agent]\nkey = \"/key\"", 1, "write both, or none"),
        ("[agent]\nmetrics = \"9464\"", 2, "such as 127.0.0.1:9464"),
        (
            "[agent]\notlp = 1",
            2,
            "write [agent.otlp] in a line of its own",
        ),
        ("[agent.otlp]\ninterval = \"5s\"", 1, "write endpoint ="),
        (
            "[agent.otlp]\nendpoint = \"http://127.0.0.1:4318\"\nheader = \"/x\"",
            3,
            "no key \"header\" in [agent.otlp]: write headers",
        ),
        (
            "[agent.otlp]\nendpoint = \"http://host:4318\"",
            1,
            "insecure = true",
        ),
        (
            "[agent.otlp]\nendpoint = \"https://host:4318\"\ninterval = \"0s\"",
            3,
            "interval of [agent.otlp]: 0s is not from 1s to 1d",
        ),
        ("[limits]\nleases = -1", 2, "write a whole number"),
        (
            "[limits]\nbreakpoints = \"keep\"",
            2,
            "write \"yield\" or \"share\"",
        ),
        ("[export]\nstore = \"races.db\"", 2, "write sqlite:PATH"),
        (
            "[export]\nstore = \"sqlite:races.db\"",
            2,
            "write the whole path",
        ),
        ("[control]\npause = \"pause\"", 2, "write the whole path"),
        (
            "[learn]\nhalf_life = \"1m\"",
            2,
            "half_life of [learn]: 1m is not from 1h to 365d",
        ),
        ("[learn]\nhalf_life = \"7\"", 2, "such as 7s, 7m, 7h or 7d"),
        ("[learn]\nledger = \"no\"", 2, "write the whole path"),
        ("[evidence]\nvalues = \"no\"", 2, "write true or false"),
        ("rollout = \"0\"", 1, "give a share above 0"),
        ("\n[[rule]]\nexe = \"/srv/**\"", 2, "add it"),
        (
            "[[rule]]\nwatch = true\nexe = \"srv\"",
            3,
            "begin it with / or **",
        ),
        (
            "[[rule]]\nwatch = true\nuser = \"no such user\"",
            3,
            "getent passwd",
        ),
        (
            "[[rule]]\nwatch = true\ncomm = \"gwp-race-long-name\"",
            3,
            "write \"gwp-race-long-n\"",
        ),
        (
            "[[rule]]\nwatch = true\ncom = \"x\"",
            3,
            "in [[rule]]: write comm",
        ),
        ("rule = 1", 1, "write each rule as [[rule]]"),
        ("[budget\nhost = 1", 1, "this is no TOML"),
    ] {
        let error = parse(text).unwrap_err();
        let begin = format!("fleet.toml:{line}: ");
        assert!(error.starts_with(&begin) && error.contains(told), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let several = parse("rollou = 1\n[budget]\nhost = \"x\"\nlase = \"5%\"").unwrap_err();
    let lines: Vec<_> = several.lines().map(|line| &line[..13]).collect();
    assert_eq!(lines, ["fleet.toml:1:", "fleet.toml:3:", "fleet.toml:4:"]);
}

/// Check that what is learned is kept beside the store unless the file says otherwise, or that it is not kept.
#[test]
fn ledgers() {
    let ledger = |text| parse(text).unwrap().learn.ledger;
    let beside = |path: &str| Some(PathBuf::from(path));
    assert_eq!(ledger(""), beside("/var/lib/gwp-race/ledger.db"));
    let store = "[export]\nstore = \"sqlite:/srv/races.db\"\n";
    assert_eq!(ledger(store), beside("/srv/ledger.db"));
    let text = format!("{store}[learn]\nledger = \"none\"");
    assert_eq!(ledger(&text), None);
    for (hours, shown) in [(24 * 7, "7d"), (36, "1day 12h"), (1, "1h")] {
        let time = Duration::from_hours(hours);
        assert_eq!(show(&time), shown);
        assert_eq!(humantime::parse_duration(shown), Ok(time));
    }
}

/// Check that plain text is sent to this machine alone, unless somebody says that the way is safe, and what is said of it all.
#[test]
fn ways_to_the_collector() {
    let agent = |keys: &str| parse(&format!("[agent]\ncollector = {keys}"));
    assert!(agent("\"http://127.0.0.1:7174\"").is_ok());
    assert!(agent("\"http://10.0.0.1\"").is_err());
    let config = agent("\"http://10.0.0.1/secret\"\ninsecure = true\ntoken = \"/token\"").unwrap();
    let said = config.agent.said(Some(Path::new("/run/agent.sock")));
    let told =
        "sent to http://10.0.0.1 with a token, by the agent that listens to /run/agent.sock;";
    assert!(said.contains(told), "{said}");
    let said = config.agent.said(None);
    assert!(said.contains("agent of [export] is missing"), "{said}");
    let config = parse("[agent]\nmetrics = \"127.0.0.1:9464\"\n[agent.otlp]\nendpoint = \"https://otel:4318\"\nheaders = \"/headers\"").unwrap();
    let said = config.agent.said(Some(Path::new("/run/agent.sock")));
    for told in [
        "Races go to the agent that listens to /run/agent.sock, which sends them to no other machine as such;",
        "figures each 1m, are sent to https://otel:4318 with headers by OTLP.",
        "at http://127.0.0.1:9464/metrics.",
    ] {
        assert!(said.contains(told), "{said}");
    }
    let said = Agent::default().said(None);
    assert_eq!(said, "Nothing is sent anywhere.");
}

/// Check that a text cut at any place is an error or sensible, never a panic.
#[test]
fn cut_short() {
    for end in 0..ALL.len() {
        let _ = parse(&ALL[..end]);
    }
}

/// Check that a named file must be there and nobody else's to write, and that shares are shown as they are read.
#[test]
fn named_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.toml");
    let error = Config::read(Some(&path)).unwrap_err();
    assert!(format!("{error:#}").contains("--config"), "{error:#}");
    std::fs::write(&path, ALL).unwrap();
    let mode =
        |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    assert_eq!(Config::read(Some(&path)).unwrap().path, Some(path.clone()));
    mode(0o666);
    let error = Config::read(Some(&path)).unwrap_err().to_string();
    assert!(error.contains("chmod go-w"), "{error}");
    for share in [0.01, 0.005, 0.0001, 1.0] {
        assert_eq!(parse_percent(&percent(share)), Ok(share));
    }
}

//! Names and lines by debug files that servers have: a real debuginfod, and servers that are worse.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use gwp_race_tests::{
    binary::gwp_race,
    disks::{Roomy, on_a_small_disk},
    report::{Race, Report},
    stripped::{NO_PROXY, Stripped},
};

/// How often it is looked whether a server has looked through its files, and how long at most.
const POLL: Duration = Duration::from_millis(100);
const POLLS: usize = 600;

/// elfutils' server, on a port of its own.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Serves what is in a folder; ready once it knows a build id.
    fn start(folder: &Path, build_id: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let child = Command::new("debuginfod")
            .args(["--database", ":memory:", "--scan-file-dir"])
            .args(["--port", &port.to_string()])
            .arg(folder)
            .env_remove("DEBUGINFOD_URLS")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("debuginfod is there: cargo xtask setup");
        let server = Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
        };
        let is_ready = (0..POLLS).any(|_| {
            thread::sleep(POLL);
            answers(port, build_id)
        });
        assert!(is_ready, "debuginfod does not find {build_id}");
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a server has a build id.
fn answers(port: u16, build_id: &str) -> bool {
    let Ok(mut connection) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let asked = format!("GET /buildid/{build_id}/debuginfo HTTP/1.0\r\n\r\n");
    let mut begins = [0; 12];
    let sent = connection.write_all(asked.as_bytes());
    sent.and_then(|()| connection.read_exact(&mut begins))
        .is_ok()
        && begins.ends_with(b" 200")
}

/// A server that treats whoever connects to it in this way. Its thread ends with the test.
fn server(mut treat: impl FnMut(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().flatten().for_each(&mut treat));
    url
}

/// A server that listens, and never says anything.
fn silent() -> String {
    let mut connections = Vec::new();
    server(move |connection| connections.push(connection))
}

/// A server that answers everything in this way.
fn answering(status: &'static str, body: Vec<u8>) -> String {
    server(move |mut connection| {
        let _ = connection.read(&mut [0; 4096]);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = connection.write_all(head.as_bytes());
        let _ = connection.write_all(&body);
    })
}

fn has_lines(race: &Race) -> bool {
    let lines = race.accesses.each_ref().map(|access| access.stack[0].line);
    assert_eq!(lines[0].is_some(), lines[1].is_some(), "{race:?}");
    race.has_function("store_one") && race.has_function("store_other") && lines[0].is_some()
}

/// Fills in names by these variables; the report, and what was said.
fn symbolize(file: &Path, options: &[&str], variables: &[(&str, &str)]) -> (Report, String) {
    let mut command = Command::new(gwp_race());
    command.args(["races", "symbolize"]).args(options).arg(file);
    command
        .env_remove("DEBUGINFOD_URLS")
        .envs(NO_PROXY)
        .envs(variables.iter().copied());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let report = Report::read(&String::from_utf8(output.stdout).unwrap()).unwrap();
    (report, said)
}

/// What is in a cache, by names below it.
fn kept(cache: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for folder in fs::read_dir(cache).into_iter().flatten() {
        for entry in fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            names.push(
                path.strip_prefix(cache)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
    names
}

/// Check that a stripped program's races have names and lines by a debug file that only a server has; that the cache is enough when the server is gone; and that without
/// a server's name, or with the option, nobody is asked.
#[test]
fn debug_files_of_a_server() {
    let stripped = Stripped::new();
    let served = stripped.path("served");
    fs::create_dir(&served).unwrap();
    fs::copy(stripped.path("program.debug"), served.join("program.debug")).unwrap();
    let server = Server::start(&served, stripped.build_id());
    let caches = stripped.path("caches");
    let _roomy = Roomy::at(caches.clone());
    let cache = caches.join("cache");
    let url = server.url.clone();
    let urls = ("DEBUGINFOD_URLS", url.as_str());
    let variables = [urls, ("DEBUGINFOD_CACHE_PATH", cache.to_str().unwrap())];
    let unasked = stripped.caught("program", &["--no-debuginfod"], &variables);
    assert!(!has_lines(&unasked.report().races[0]) && !cache.exists());
    let unnamed = stripped.caught("program", &[], &[("DEBUGINFOD_URLS", ""), variables[1]]);
    assert!(!has_lines(&unnamed.report().races[0]) && !cache.exists());

    let asked = stripped.caught("program", &[], &variables);
    assert!(has_lines(&asked.report().races[0]), "{}", asked.said);
    let file = format!("{}/debuginfo", stripped.build_id());
    assert!(kept(&cache).contains(&file), "{:?}", kept(&cache));
    drop(server);
    let again = stripped.caught("program", &[], &variables);
    assert!(has_lines(&again.report().races[0]), "{}", again.said);

    // Of a report from elsewhere too, which names no file that is here.
    let bare = stripped.path("bare.json");
    fs::write(&bare, &unasked.json).unwrap();
    fs::rename(stripped.path("program"), stripped.path("moved")).unwrap();
    let (named, said) = symbolize(&bare, &[], &variables);
    assert!(has_lines(&named.races[0]), "{said}");
    let (nothing, _) = symbolize(&bare, &["--no-debuginfod"], &variables);
    assert!(!has_lines(&nothing.races[0]));
}

/// Check that each thing that may go wrong is told once a file, with what to do; that the report comes all the same; and that nothing of it is taken for a debug file later.
#[test]
fn what_may_go_wrong_is_told() {
    let stripped = Stripped::new();
    let other = Stripped::other();
    let caches = stripped.path("caches");
    let _roomy = Roomy::at(caches.clone());
    let bare = stripped.path("bare.json");
    fs::write(&bare, stripped.caught("program", &[], &[]).json).unwrap();
    let right = fs::read(stripped.path("program.debug")).unwrap();
    let wrong = fs::read(other.path("program.debug")).unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let file = stripped.path("file");
    fs::write(&file, "").unwrap();
    let cases = [
        (
            "refused",
            format!("http://{nobody}"),
            None,
            "check DEBUGINFOD_URLS",
        ),
        (
            "absent",
            answering("404 Not Found", Vec::new()),
            None,
            "does not have it",
        ),
        (
            "broken",
            answering("503 Service Unavailable", Vec::new()),
            None,
            "status 503",
        ),
        (
            "moved",
            answering("301 Moved Permanently", Vec::new()),
            None,
            "leads elsewhere (HTTP status 301)",
        ),
        (
            "silent",
            silent(),
            Some(("DEBUGINFOD_TIMEOUT", "1")),
            "has not answered for 1s: set DEBUGINFOD_TIMEOUT",
        ),
        (
            "large",
            answering("200 OK", right.clone()),
            Some(("DEBUGINFOD_MAXSIZE", "1000")),
            "more than 1000 bytes: set DEBUGINFOD_MAXSIZE",
        ),
        (
            "foreign",
            answering("200 OK", wrong),
            None,
            "something else (the file of the build id",
        ),
        (
            "no-elf",
            answering("200 OK", b"<html>".to_vec()),
            None,
            "no ELF file",
        ),
        (
            "unwritable",
            answering("200 OK", right.clone()),
            Some(("DEBUGINFOD_CACHE_PATH", file.to_str().unwrap())),
            "set DEBUGINFOD_CACHE_PATH",
        ),
    ];
    for (name, url, variable, expected) in cases {
        let cache = caches.join(name);
        let usual = [
            ("DEBUGINFOD_URLS", url.as_str()),
            ("DEBUGINFOD_CACHE_PATH", cache.to_str().unwrap()),
        ];
        let variables: Vec<_> = usual.into_iter().chain(variable).collect();
        let (report, said) = symbolize(&bare, &[], &variables);
        assert!(
            !report.races.is_empty() && !has_lines(&report.races[0]),
            "{name}"
        );
        let told = said.lines().filter(|line| {
            line.starts_with("gwp-race: warning: ") && line.contains(stripped.build_id())
        });
        let told: Vec<_> = told.collect();
        assert!(
            told.len() == 1 && told[0].contains(expected),
            "{name}: {said}"
        );
        let of_program = format!("{}/", stripped.build_id());
        let mut left = kept(&cache);
        left.retain(|kept| kept.starts_with(&of_program));
        let noted = format!("{of_program}debuginfo");
        let expected: &[String] = if name == "absent" { &[noted] } else { &[] };
        assert_eq!(left, expected, "{name}");
    }
    // What no server had is remembered.
    let cache = caches.join("absent");
    let variables = [
        ("DEBUGINFOD_URLS", silent()),
        ("DEBUGINFOD_CACHE_PATH", cache.to_str().unwrap().to_owned()),
    ];
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let (_, said) = symbolize(&bare, &[], &variables);
    assert!(said.contains("less than ten minutes ago"), "{said}");
    // The servers are asked one after the other.
    let both = format!("http://{nobody} {}", answering("200 OK", right));
    let cache = caches.join("both");
    let variables = [
        ("DEBUGINFOD_URLS", both.as_str()),
        ("DEBUGINFOD_CACHE_PATH", cache.to_str().unwrap()),
    ];
    let (named, said) = symbolize(&bare, &[], &variables);
    assert!(has_lines(&named.races[0]), "{said}");
}

/// Check that nothing is fetched to a disk that is nearly full, that nothing is left there, and that this is told.
#[test]
fn disks_are_not_filled() {
    let stripped = Stripped::new();
    let bare = stripped.path("bare.json");
    fs::write(&bare, stripped.caught("program", &[], &[]).json).unwrap();
    let url = answering("200 OK", fs::read(stripped.path("program.debug")).unwrap());
    let small = stripped.path("small");
    fs::create_dir(&small).unwrap();
    let mut command = Command::new("env");
    command.args(NO_PROXY.map(|(name, value)| format!("{name}={value}")));
    command.arg(format!("DEBUGINFOD_URLS={url}"));
    command.arg(format!("DEBUGINFOD_CACHE_PATH={}", small.display()));
    let command = command.arg(gwp_race()).args(["races", "symbolize"]);
    let keep = "find \"$folder\" -type f > \"$kept\"";
    // Room for the file, but not for others.
    let options = "size=64m,mode=0700";
    let (output, kept) = on_a_small_disk(command.arg(&bare), &small, options, keep);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("and 1024 MiB are to stay so"), "{said}");
    assert_eq!(kept, "");
}

/// Check that a server which never answers keeps a run from ending only for as long as is documented, even where nothing else limits it, and that the race is
/// reported without lines and the summary written.
#[test]
fn the_end_does_not_wait_for_servers() {
    let stripped = Stripped::new();
    let url = silent();
    let cache = stripped.path("cache");
    let variables = [
        ("DEBUGINFOD_URLS", url.as_str()),
        ("DEBUGINFOD_CACHE_PATH", cache.to_str().unwrap()),
        ("DEBUGINFOD_TIMEOUT", "0"),
        ("DEBUGINFOD_MAXTIME", "0"),
    ];
    let run = stripped.caught("program", &[], &variables);
    let report = run.report();
    assert!(!has_lines(&report.races[0]) && report.summary.is_some());
    assert!(
        run.said.contains("had not come when watching had ended"),
        "{}",
        run.said
    );
    assert!(kept(&cache).is_empty());
}

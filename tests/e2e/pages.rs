//! Pages about a store, as a browser asks for them: of a race that was caught in a real program.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Program, binary::gwp_race, children::Guarded, compile, watch::AGGRESSIVE,
};
use nix::sys::signal::{Signal, kill};

/// Tries that a race takes at most.
const TRIES: usize = 5;
/// How long an answer, and the end, may take.
const LIMIT: Duration = Duration::from_secs(30);

struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Asks the server at this address.
fn ask(address: &str, request: &str, headers: &[&str]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut text = format!("{request} HTTP/1.1\r\nConnection: close\r\n");
    for header in headers {
        let _ = write!(text, "{header}\r\n");
    }
    stream.write_all((text + "\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    Answer {
        status: status.parse().unwrap(),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// Check that a race which was caught is on the pages, with its source and its build; that nobody else's name is answered and nothing is written; and that the server ends when it is told to.
#[test]
fn pages_of_a_store() {
    let scratch = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}/races.db", scratch.path().display());
    let program = compile::program(&Program::new("races/write_write.c"), Configuration::USUAL);
    let program = program.unwrap();
    let listed = || {
        let mut list = Command::new(gwp_race());
        list.args(["races", "list", "--store", &store, "--format", "json"]);
        let output = list.stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let is_caught = (0..TRIES).any(|_| {
        let mut run = Command::new(gwp_race());
        run.arg("run").args(AGGRESSIVE);
        run.args(["-q", "--store", &store, "--"]);
        run.arg(&program).args(["2", "2"]);
        let output = run.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        !listed().is_empty()
    });
    assert!(is_caught);
    let race: serde_json::Value = serde_json::from_str(listed().lines().next().unwrap()).unwrap();
    let [name, build] = [&race["race"], &race["seen"][0]["build"]].map(|v| v.as_str().unwrap());

    let mut serve = Command::new(gwp_race());
    serve.args(["races", "serve", "--store", &store, "--ui", "127.0.0.1:0"]);
    serve.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut server = Guarded::new(serve.spawn().unwrap());
    let mut said = String::new();
    let mut told = BufReader::new(server.child().stderr.take().unwrap());
    told.read_line(&mut said).unwrap();
    let (_, address) = said.split_once("http://").unwrap();
    let (address, _) = address.split_once('/').unwrap();
    let host = format!("Host: {address}");
    let get = |path: &str| ask(address, &format!("GET {path}"), &[&host]);

    let list = get("/");
    assert_eq!(list.status, 200, "{said}: {}", list.body);
    assert!(
        list.head
            .contains("content-security-policy: default-src 'none'")
    );
    assert!(
        list.body.contains(&format!("href=\"/race/{name}\"")),
        "{}",
        list.body
    );
    assert!(list.body.contains("write_write.c:"), "{}", list.body);
    let page = get(&format!("/race/{name}"));
    assert_eq!(page.status, 200);
    for part in [
        build,
        "<mark>",
        "stands right before its",
        "It was seen in these builds",
        "state new",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert_eq!(get(&format!("/?build={build}&state=new")).status, 200);
    assert_eq!(get("/diff").status, 200);
    assert_eq!(get("/style.css").status, 200);
    assert_eq!(get("/race/r3:00").status, 404);
    assert_eq!(get("/?colour=red").status, 400);
    assert_eq!(ask(address, "POST /", &[&host]).status, 405);
    let other = ask(address, "GET /", &["Host: evil.example"]);
    assert_eq!(other.status, 421);
    assert!(!other.body.contains(name));

    kill(server.pid(), Signal::SIGTERM).unwrap();
    assert!(server.wait(LIMIT).unwrap().success());
}

/// Check that pages are not served to other machines by mistake, and that what is missing or taken is told with what to do.
#[test]
fn pages_for_nobody_else() {
    let scratch = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}/races.db", scratch.path().display());
    let serve = |options: &[&str]| {
        let mut serve = Command::new(gwp_race());
        serve.args(["races", "serve", "--store", &store]);
        let output = serve.args(options).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = serve(&[]);
    assert!(said.contains("give --ui"), "{said}");
    let said = serve(&["--ui", "0.0.0.0:0"]);
    assert!(said.contains("--ui-users"), "{said}");
    let said = serve(&["--ui", "127.0.0.1:0"]);
    assert!(said.contains("there is no"), "{said}");
    let races = scratch.path().join("races.json");
    std::fs::write(&races, "").unwrap();
    let mut import = Command::new(gwp_race());
    import
        .args(["races", "import", "--store", &store])
        .arg(&races);
    assert!(import.output().unwrap().status.success());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let said = serve(&["--ui", &taken.local_addr().unwrap().to_string()]);
    assert!(said.contains("name another port"), "{said}");
}

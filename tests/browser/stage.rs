//! What the pages are about: a store with races of real programs, and one in which all that has a name is called as nobody should be.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use gwp_race_tests::{
    Configuration, Program, binary::gwp_race, children::Guarded, compile, watch::AGGRESSIVE,
};
use serde_json::Value;

/// Programs with a race each, and more.
const PROGRAMS: [&str; 4] = [
    "races/write_write.c",
    "races/read_write.c",
    "races/heap.c",
    "races/local_static.c",
];
/// How often a program is run at most until it is caught.
const TRIES: usize = 5;
/// Who may read and write.
const NAME: &str = "ada";
const PASSWORD: &str = "correct-horse-battery";
/// What breaks out of pages whose makers have escaped by hand.
const HOSTILE: [&str; 10] = [
    "<script>document.title = 'broken'</script>",
    "\"><img src=x onerror=\"document.title='broken'\">",
    "'><svg/onload=\"document.title='broken'\">",
    "\" onmouseover=\"document.title='broken'\" autofocus onfocus=\"document.title='broken'\" x=\"",
    "</title></style></textarea><script>document.title = 'broken'</script>",
    "</code></td></tr></table></main><h1>No data race</h1>",
    "<iframe srcdoc=\"<script>parent.document.title='broken'</script>\"></iframe>",
    "<a id=out href=\"javascript:document.title='broken'\">here</a>",
    "<meta http-equiv=refresh content=\"0;url=about:blank\">",
    "\u{202e}<link rel=stylesheet href=data:text/css,body{display:none}>",
];

/// A store and its pages.
pub struct Stage {
    folder: tempfile::TempDir,
    server: Option<Guarded>,
    /// Where the pages are, with name and password.
    pub address: String,
    /// The same without.
    pub plain: String,
}

impl Stage {
    /// A store of races in these programs, the first of them in two builds.
    pub fn real() -> Self {
        let stage = Self::empty();
        let other = Configuration {
            opt: 1,
            ..Configuration::USUAL
        };
        let mut builds = PROGRAMS
            .map(|program| (program, Configuration::USUAL))
            .to_vec();
        builds.push((PROGRAMS[0], other));
        for (program, configuration) in builds {
            let built = compile::program(&Program::new(program), configuration).unwrap();
            let is_caught = (0..TRIES).any(|_| {
                let before = stage.races().lines().count();
                stage.run(&built, &["--store", &stage.store()]);
                let builds = stage.races().matches(&*built.to_string_lossy()).count();
                stage.races().lines().count() > before || builds > 0
            });
            assert!(is_caught, "{program} was not caught in {TRIES} tries");
        }
        stage.served()
    }

    /// A store of races in which all that has a name has a hostile one.
    pub fn hostile() -> Self {
        let stage = Self::empty();
        let built = compile::program(&Program::new(PROGRAMS[0]), Configuration::USUAL).unwrap();
        let file = stage.folder.path().join("reports.json");
        let path = file.to_str().unwrap();
        let reports = (0..TRIES)
            .map(|_| {
                stage.run(&built, &["--format", "json", "--output", path]);
                fs::read_to_string(&file).unwrap()
            })
            .find(|reports| reports.contains("\"fingerprint\""));
        let reports = reports.expect("it is caught");
        for (number, name) in HOSTILE.iter().enumerate() {
            let records = reports.lines().map(|line| {
                let mut record: Value = serde_json::from_str(line).unwrap();
                rename(&mut record, name, number);
                record.to_string() + "\n"
            });
            fs::write(&file, records.collect::<String>()).unwrap();
            let mut import = Command::new(gwp_race());
            import.args(["races", "import", "--store", &stage.store()]);
            import.args(["--host", name]).arg(&file);
            let output = import.stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        stage.served()
    }

    fn empty() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            server: None,
            address: String::new(),
            plain: String::new(),
        }
    }

    fn store(&self) -> String {
        format!("sqlite:{}/races.db", self.folder.path().display())
    }

    /// What is known of the races, a line each.
    fn races(&self) -> String {
        let mut list = Command::new(gwp_race());
        list.args([
            "races",
            "list",
            "--format",
            "json",
            "--store",
            &self.store(),
        ]);
        let output = list.stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn run(&self, built: &Path, options: &[&str]) {
        let mut run = Command::new(gwp_race());
        run.arg("run").args(AGGRESSIVE).args(options);
        run.arg("-q").arg("--").arg(built).args(["2", "2"]);
        let output = run.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Starts the pages, with forms.
    fn served(mut self) -> Self {
        let users = self.folder.path().join("users");
        fs::write(&users, format!("{NAME}:{PASSWORD}\n")).unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&users, permissions).unwrap();
        let mut serve = Command::new(gwp_race());
        serve.args(["races", "serve", "--store", &self.store()]);
        serve.args(["--ui", "127.0.0.1:0", "--allow-triage", "--ui-users"]);
        serve.arg(users).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut server = Guarded::new(serve.spawn().unwrap());
        let mut said = String::new();
        let mut told = BufReader::new(server.child().stderr.take().unwrap());
        told.read_line(&mut said).unwrap();
        let (_, rest) = said.split_once("http://").expect(&said);
        let (host, _) = rest.split_once('/').unwrap();
        self.plain = format!("http://{host}");
        self.address = format!("http://{NAME}:{PASSWORD}@{host}");
        self.server = Some(server);
        // What it says further is read, lest it waits for that.
        std::thread::spawn(move || told.lines().map_while(Result::ok).for_each(drop));
        self
    }
}

/// Gives hostile names to all that the program names itself, and other identities to each race.
fn rename(record: &mut Value, name: &str, number: usize) {
    match record {
        Value::Array(values) => {
            for value in values {
                rename(value, name, number);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                match (&**key, &mut *value) {
                    (
                        "exe" | "function" | "file" | "module" | "thread_name" | "name" | "member"
                        | "text" | "value_before" | "value_after",
                        Value::String(text),
                    ) => text.push_str(name),
                    ("pair" | "race" | "issue" | "fingerprint", Value::String(text)) => {
                        let end = text.len() - 1;
                        text.replace_range(end.., &format!("{number:x}"));
                    }
                    (_, other) => rename(other, name, number),
                }
            }
        }
        _ => {}
    }
}

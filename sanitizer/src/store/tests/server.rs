//! A PostgreSQL server of the tests' own, from Debian's package: in a temporary folder, with a socket there and no other. It ends with the process that has started it, however that ends.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use nix::unistd::{User, geteuid};

/// Where Debian has the programs, by version.
const PROGRAMS: &str = "/usr/lib/postgresql";

/// Whoever runs this carries out a word a line, and answers each, until its input ends: then nothing is left of the server. One that was killed has left processes which keep another one from starting for a
/// moment.
const KEEPER: &str = r#"
folder=$1 programs=$2
run() {
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        "$programs/pg_ctl" -D "$folder/data" -l "$folder/log" -w -s start \
            -o "-k $folder -c listen_addresses= -c fsync=off -c autovacuum=off -c shared_buffers=16MB" && return
        sleep 0.3
    done
}
end() { "$programs/pg_ctl" -D "$folder/data" -w -s -m "$1" stop; }
{
    "$programs/initdb" -D "$folder/data" -U tester --auth=trust --no-sync --no-locale --encoding=UTF8 >"$folder/log"
    # Who is called so needs a password.
    echo "local all guarded scram-sha-256" | cat - "$folder/data/pg_hba.conf" >"$folder/hba"
    mv "$folder/hba" "$folder/data/pg_hba.conf"
    run
    "$programs/psql" -q -h "$folder" -U tester -c "CREATE ROLE guarded LOGIN PASSWORD 's3cret'" postgres
} 2>>"$folder/log"
echo started
while read -r word; do
    case $word in
        start) run ;;
        stop) end fast ;;
        kill) kill -KILL "$(head -n 1 "$folder/data/postmaster.pid")" ;;
    esac 2>>"$folder/log"
    echo "$word"
done
end immediate 2>/dev/null
rm -rf "$folder"
"#;

/// See the module.
pub struct Server {
    folder: PathBuf,
    programs: PathBuf,
    keeper: Mutex<Keeper>,
    databases: AtomicUsize,
}

struct Keeper {
    process: Child,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// The newest version's programs.
fn programs() -> PathBuf {
    let all = fs::read_dir(PROGRAMS).into_iter().flatten().flatten();
    let all = all.map(|version| version.path().join("bin"));
    let newest = all.filter(|folder| folder.join("initdb").is_file()).max();
    newest.expect("there is no PostgreSQL: `cargo xtask setup` installs it")
}

impl Server {
    /// The one for all tests that do it no harm.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Server> = LazyLock::new(Server::start);
        &SHARED
    }

    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        let programs = programs();
        let mut command = Command::new("sh");
        command
            .args(["-c", KEEPER, "sh"])
            .arg(&folder)
            .arg(&programs);
        if geteuid().is_root() {
            // As root it refuses to run.
            let nobody = User::from_name("nobody").unwrap().unwrap();
            let [uid, gid] = [nobody.uid.as_raw(), nobody.gid.as_raw()];
            chown(&folder, Some(uid), Some(gid)).unwrap();
            command.uid(uid).gid(gid);
        }
        let mut process = command
            .current_dir(&folder)
            .env("LC_ALL", "C")
            .env_remove("PGDATA")
            // What ends the tests from a terminal is not to end it before it has cleaned up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut keeper = Keeper {
            words: process.stdin.take(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        };
        assert_eq!(keeper.answer(), "started");
        Self {
            folder,
            programs,
            keeper: Mutex::new(keeper),
            databases: AtomicUsize::new(0),
        }
    }

    /// Has it started, stopped or killed (`start`, `stop`, `kill`), and waits until that is so.
    pub fn tell(&self, word: &str) {
        let mut keeper = self.keeper.lock().unwrap();
        let mut words = keeper.words.as_ref().unwrap();
        writeln!(words, "{word}").unwrap();
        assert_eq!(keeper.answer(), word);
    }

    /// The socket's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A new, empty database.
    pub fn database(&self) -> String {
        self.database_of("tester")
    }

    /// The same, of this user.
    pub fn database_of(&self, owner: &str) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Relaxed));
        let made = Command::new(self.programs.join("createdb"))
            .arg("--host")
            .arg(&self.folder)
            .args(["--username", "tester", "--owner", owner, &name])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}\n{}", self.log());
        self.address(&name, "tester")
    }

    /// That of a database, for this user.
    pub fn address(&self, name: &str, user: &str) -> String {
        let host = self.folder.display();
        format!("postgres:///{name}?host={host}&user={user}")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(keeper) = self.keeper.get_mut() {
            keeper.words = None;
            let _ = keeper.process.wait();
        }
    }
}

//! A PostgreSQL server of the tests' own, from Debian's package: in a temporary folder, with a socket there and no other, and its data there or on a small disk. It ends with the process that has started it, however that ends.

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

/// Where a small disk is, for the server alone.
const SMALL_DISK: &str = "/mnt";

/// Whoever runs this carries out a word a line, and answers each, until its input ends: then nothing is left of the server. One that was killed has left processes which keep another one from starting for a
/// moment.
const KEEPER: &str = r#"
folder=$1 programs=$2 data=$3 options=$4
run() {
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        "$programs/pg_ctl" -D "$data" -l "$folder/log" -w -s start \
            -o "-k $folder -c listen_addresses= -c fsync=off -c autovacuum=off -c shared_buffers=16MB" && return
        sleep 0.3
    done
}
# One that has died since its disk was full, or is about to.
revive() {
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        "$programs/psql" -q -h "$folder" -U tester -c "SELECT 1" postgres >"$folder/alive" && return
        "$programs/pg_ctl" -D "$data" -s status || run
        sleep 0.3
    done
}
end() { "$programs/pg_ctl" -D "$data" -w -s -m "$1" stop; }
# The first one and then the others, which it starts: none is left out.
all() {
    first=$(head -n 1 "$data/postmaster.pid")
    kill "$1" "$first" && kill "$1" $(cat "/proc/$first/task/$first/children")
}
{
    "$programs/initdb" -D "$data" -U tester --auth=trust --no-sync --no-locale --encoding=UTF8 $options >"$folder/log"
    # Who is called so needs a password.
    echo "local all guarded scram-sha-256" | cat - "$data/pg_hba.conf" >"$folder/hba"
    mv "$folder/hba" "$data/pg_hba.conf"
    run
    "$programs/psql" -q -h "$folder" -U tester -c "CREATE ROLE guarded LOGIN PASSWORD 's3cret'" postgres
} 2>>"$folder/log"
echo started
while read -r word; do
    case $word in
        start) run ;;
        stop) end fast ;;
        freeze) all -STOP ;;
        thaw) all -CONT ;;
        fill) cat /dev/zero >"$data/ballast" ;;
        empty) rm "$data/ballast" ;;
        revive) revive ;;
        kill) kill -KILL "$(head -n 1 "$data/postmaster.pid")" ;;
    esac 2>>"$folder/log"
    echo "$word"
done
{ all -CONT; end immediate; } 2>/dev/null
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

/// User and group who have nothing else.
fn nobody() -> [u32; 2] {
    let nobody = User::from_name("nobody").unwrap().unwrap();
    [nobody.uid.as_raw(), nobody.gid.as_raw()]
}

impl Server {
    /// The one for all tests that do it no harm.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Server> = LazyLock::new(Server::start);
        &SHARED
    }

    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut command = Command::new("sh");
        if geteuid().is_root() {
            // As root it refuses to run.
            let [uid, gid] = nobody();
            command.uid(uid).gid(gid);
        }
        let data = folder.join("data");
        command.args(["-c", KEEPER, "sh"]);
        Self::by(command, folder, &data, "")
    }

    /// One whose data are on a disk of its own with so much room (`size=64m`), all of which is taken by `fill`, and given back by `empty`. That is for root alone, and for the end-to-end tests.
    #[allow(dead_code)]
    pub fn on_a_small_disk(room: &str) -> Self {
        let [uid, gid] = nobody();
        let script = format!(
            "mount -t tmpfs -o {room},mode=700,uid={uid},gid={gid} none {SMALL_DISK} || exit 99
            exec setpriv --reuid {uid} --regid {gid} --clear-groups sh -c \"$@\""
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .args(["sh", KEEPER, "sh"]);
        let folder = tempfile::tempdir().unwrap().keep();
        // So that the log of what is written, too, comes to the end of a file before long.
        Self::by(command, folder, Path::new(SMALL_DISK), "--wal-segsize=1")
    }

    /// One that a command starts which wants the words of the keeper yet.
    fn by(mut command: Command, folder: PathBuf, data: &Path, options: &str) -> Self {
        let programs = programs();
        if geteuid().is_root() {
            let [uid, gid] = nobody();
            chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let mut process = command
            .args([&folder, &programs])
            .arg(data)
            .arg(options)
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

    /// Has it started, stopped, killed, held or let go on (`start`, `stop`, `kill`, `freeze`, `thaw`), its disk filled or emptied, or started where it has died of that (`fill`, `empty`, `revive`), and waits until that is so.
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

    /// What a statement finds in a database, as text.
    #[allow(dead_code)]
    pub fn answer(&self, database: &str, sql: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        let output = psql.args(["-qAt", "-c", sql, database]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// What it has said.
    pub fn log(&self) -> String {
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

//! Real programs, told of and dropped.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// All that is told of processes, until it has been told that one has ended.
fn until_end(discovery: &mut Discovery, pid: u32) -> Vec<News> {
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    let is_end = |news: &News| matches!(news, News::Ended { pid: ended, .. } if *ended == pid);
    while !all.iter().any(is_end) {
        assert!(Instant::now() < deadline, "{all:?}");
        all.extend(std::iter::from_fn(|| discovery.next_news()));
        std::thread::sleep(Duration::from_millis(1));
    }
    all
}

fn spawn(program: &Path, arguments: &[&str]) -> Child {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// The file that a process was told to execute.
fn executed(news: &[News], of: u32) -> Option<Executed> {
    news.iter().find_map(|news| match news {
        News::Executes { pid, executed } if *pid == of => executed.clone(),
        _ => None,
    })
}

/// Does something with files in another process: what this one writes, a test that forks meanwhile keeps from being executed (ETXTBSY of execve(2)).
fn shell(folder: &Path, script: &str) {
    let mut shell = Command::new("sh");
    let status = shell.args(["-ec", script]).current_dir(folder).status();
    assert!(status.unwrap().success(), "{script}");
}

/// A program of its own.
fn copied(folder: &Path) -> PathBuf {
    shell(folder, "cp /bin/sh program");
    folder.join("program")
}

/// Check that programs are told of with their file and how they have ended, whoever starts them.
#[test]
fn who_executes_what() {
    if DISCOVERY_OBJECT.is_empty() {
        return;
    }
    let mut discovery = Discovery::load().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = copied(folder.path());
    let about = super::super::foreign::About::at(&program).unwrap();
    for (script, status) in [
        ("exit 0", Status::Exited(0)),
        ("exit 42", Status::Exited(42)),
        ("kill -9 $$", Status::Killed(9)),
        ("ulimit -c 0; kill -SEGV $$", Status::Killed(11)),
    ] {
        let mut child = spawn(&program, &["-c", script]);
        let pid = child.id();
        child.wait().unwrap();
        let news = until_end(&mut discovery, pid);
        assert!(executed(&news, pid).unwrap().is(&about), "{news:?}");
        let ended = News::Ended { pid, status };
        assert!(news.contains(&ended), "{script}: {news:?}");
    }
}

/// Check that files of no interest are told of no more until they change, but for processes that were told of before, that those which were changed just now are not taken for that, and that of
/// processes which are forgotten no end is told.
#[test]
fn what_is_dropped() {
    if DISCOVERY_OBJECT.is_empty() {
        return;
    }
    let mut discovery = Discovery::load().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = copied(folder.path());
    let run = |discovery: &mut Discovery, dropped: bool| {
        let mut child = spawn(&program, &["-c", ":"]);
        let pid = child.id();
        child.wait().unwrap();
        // What is told of a later one is told after what is told of it.
        let mut later = spawn(Path::new("/bin/true"), &[]);
        let last = later.id();
        later.wait().unwrap();
        let news = until_end(discovery, last);
        let file = executed(&news, pid);
        assert_eq!(file.is_none(), dropped, "{news:?}");
        file
    };
    let file = run(&mut discovery, false).unwrap().file;
    let changed = UNIX_EPOCH + Duration::from_secs(file.changed.cast_unsigned());
    assert!(!discovery.drop_file(&file, changed).unwrap());
    run(&mut discovery, false);
    assert!(discovery.drop_file(&file, changed + SETTLED).unwrap());
    discovery.dropped();
    run(&mut discovery, true);
    assert!(discovery.dropped() >= 1);
    let script = format!("exec {} -c :", program.display());
    let mut told = spawn(Path::new("/bin/sh"), &["-c", script.as_str()]);
    let pid = told.id();
    told.wait().unwrap();
    let news = until_end(&mut discovery, pid);
    let is_it = |news: &News| match news {
        News::Executes { pid: of, executed } => {
            *of == pid
                && executed
                    .as_ref()
                    .is_some_and(|executed| executed.file == file)
        }
        News::Ended { .. } => false,
    };
    assert!(news.iter().any(is_it), "{news:?}");
    // Its size is another one.
    shell(folder.path(), "cp program new; echo >> new; mv new program");
    run(&mut discovery, false);

    let mut child = Command::new(&program)
        .args(["-c", "read x"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let deadline = Instant::now() + PATIENCE;
    while !matches!(discovery.next_news(), Some(News::Executes { pid: told, .. }) if told == pid) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    discovery.forget(pid);
    drop(child.stdin.take());
    child.wait().unwrap();
    let mut later = spawn(Path::new("/bin/true"), &[]);
    later.wait().unwrap();
    let news = until_end(&mut discovery, later.id());
    let is_told = |news: &News| matches!(news, News::Ended { pid: ended, .. } if *ended == pid);
    assert!(!news.iter().any(is_told), "{news:?}");
}

/// Check that what finds no room is counted.
#[test]
fn what_is_lost_is_counted() {
    if DISCOVERY_OBJECT.is_empty() {
        return;
    }
    // A page.
    let mut discovery = Discovery::load_with(Some(4096)).unwrap();
    for _ in 0..30 {
        spawn(Path::new("/bin/true"), &[]).wait().unwrap();
    }
    assert!(discovery.lost() > 0);
    assert!(std::iter::from_fn(|| discovery.next_news()).count() > 0);
}

//! Real processes below a followed one, however fast they fork.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::*;

/// Check that everything below a followed process is told of, however fast and deep, and nothing of others.
#[test]
fn descendants_are_told_of() {
    if DESCENT_OBJECT.is_empty() {
        return;
    }
    let mut descent = Descent::load().unwrap();
    let child = Command::new("/bin/sh")
        // Waits until it is followed.
        .args([
            "-c",
            "echo; read x; sh -c \"sh -c '/bin/true; :'; :\" & wait",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    // `spawn` returns while the kernel is still executing the shell, which would be told of.
    let said = child.0.stdout.as_mut().unwrap().read_exact(&mut [0]);
    said.unwrap();
    descent.follow(child.0.id()).unwrap();
    assert!(Command::new("/bin/true").status().unwrap().success());
    drop(child.0.stdin.take());
    let mut news = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    let first = News::Ended { pid: child.0.id() };
    while !news.contains(&first) {
        assert!(Instant::now() < deadline, "{news:?}");
        news.extend(std::iter::from_fn(|| descent.next_news()));
        std::thread::sleep(Duration::from_millis(1));
    }
    let executed: Vec<_> = news
        .iter()
        .filter_map(|news| match news {
            News::Executes { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(executed, ["sh", "sh", "true"], "{news:?}");
    let forked = news
        .iter()
        .filter(|&news| matches!(news, News::Forked { .. }));
    let ended = news
        .iter()
        .filter(|&news| matches!(news, News::Ended { .. }));
    assert_eq!(forked.count() + 1, ended.count(), "{news:?}");
    assert_eq!(descent.lost(), 0);
}

/// Check that what finds no room is counted, and that who lives is known all the same.
#[test]
fn what_is_lost_is_counted() {
    if DESCENT_OBJECT.is_empty() {
        return;
    }
    // A page.
    let mut descent = Descent::load_with(Some(4096)).unwrap();
    let child = Command::new("/bin/sh")
        .args([
            "-c",
            "read x; i=0; while [ $i -lt 100 ]; do (:); i=$((i+1)); done; echo done; sleep 100; :",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // It says that the sleeper was killed.
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let pid = child.0.id();
    descent.follow(pid).unwrap();
    drop(child.0.stdin.take());
    let mut said = [0; 4];
    child
        .0
        .stdout
        .take()
        .unwrap()
        .read_exact(&mut said)
        .unwrap();
    let told = std::iter::from_fn(|| descent.next_news()).count() as u64;
    let lost = descent.lost();
    // Each is forked and ends.
    assert!(lost > 0 && told > 0 && lost + told >= 200, "{told} {lost}");
    assert_eq!(descent.lost(), 0);
    assert!(descent.followed().contains(&pid));
    // There is room again.
    let deadline = Instant::now() + Duration::from_secs(60);
    let sleeper = loop {
        let below = descent.followed().into_iter().find(|&id| id != pid);
        if let Some(below) = below {
            break below;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    };
    let sleeper = nix::unistd::Pid::from_raw(sleeper.cast_signed());
    nix::sys::signal::kill(sleeper, nix::sys::signal::Signal::SIGKILL).unwrap();
    let ended = News::Ended {
        pid: sleeper.as_raw().cast_unsigned(),
    };
    while !std::iter::from_fn(|| descent.next_news()).any(|news| news == ended) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

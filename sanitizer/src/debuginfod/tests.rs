//! What the environment means, and what becomes of whoever waits. (That files come from a real server is for end-to-end tests.)

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    io::{self, Read as _, Write as _},
    net::TcpListener,
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::{
    Fetcher, Settings,
    asker::{Asker, debug_file},
    cache::{Cache, CacheError, Kept, Place, Reserve},
    waiting::{Outcome, Shared},
};
use crate::{
    http::Server,
    reader::testing::{header_reader, program},
};

mod cache;

const ID: [u8; 3] = [0xab, 0xcd, 0xef];

/// The disk of a test may be as full as it likes.
const NO_RESERVE: Reserve = Reserve {
    bytes: 0,
    part: NonZeroU64::MAX,
};

/// Longer than a reader takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What variables mean, and what is said of them; without a reserve.
fn settings(variables: &[(&str, &str)]) -> (Option<Settings>, Vec<String>) {
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    let mut warnings = Vec::new();
    let get = |name: &str| variables.get(name).map(OsString::from);
    let mut read = Settings::read(get, &mut |warning| warnings.push(warning));
    if let Some(settings) = &mut read {
        assert_eq!(settings.reserve, Reserve::USUAL);
        settings.reserve = NO_RESERVE;
        settings.reading = PATIENCE;
    }
    (read, warnings)
}

/// An ELF file with a build id and its section headers at the end.
fn elf(build_id: &[u8]) -> Vec<u8> {
    const HEADER: usize = 64;
    const NOTE_HEADER: usize = 16;
    let note_size = NOTE_HEADER + build_id.len();
    let sections_at = (HEADER + note_size).next_multiple_of(8);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(HEADER, 0);
    file[40] = sections_at.try_into().unwrap();
    // The size of a section's header, and how many there are.
    (file[58], file[60]) = (64, 1);
    for number in [4, u32::try_from(build_id.len()).unwrap(), 3] {
        file.extend(number.to_le_bytes());
    }
    file.extend(b"GNU\0");
    file.extend(build_id);
    file.resize(sections_at + 64, 0);
    let section = &mut file[sections_at..];
    // SHT_NOTE.
    section[4] = 7;
    section[24] = HEADER.try_into().unwrap();
    section[32] = note_size.try_into().unwrap();
    file
}

fn place(cache: &Path) -> Result<Place, CacheError> {
    Cache::new(cache.to_owned(), NO_RESERVE).place(&ID)
}

/// A server that answers each request with this status, further headers, and then these bytes until it ends the connection. Its thread ends with the test.
fn answering(head: String, body: impl Into<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = body.into();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
            let _ = connection.write_all(head.as_bytes());
            let _ = connection.write_all(&body);
        }
    });
    url
}

/// Check that nothing is asked unless a server is named, where the cache is, and that limits are those of the environment, ours, or none.
#[test]
fn environments() {
    let home = ("HOME", "/home/u");
    for urls in [None, Some(""), Some(" "), Some("ima:enforcing")] {
        let urls = urls.map(|urls| ("DEBUGINFOD_URLS", urls));
        let variables: Vec<_> = urls.into_iter().chain([home]).collect();
        assert_eq!(settings(&variables), (None, Vec::new()), "{urls:?}");
    }
    let urls = ("DEBUGINFOD_URLS", "http://a:8002/ ima:ignore https://b/c");
    let (read, warnings) = settings(&[urls, home]);
    let expected = Settings {
        servers: ["http://a:8002", "https://b/c"]
            .map(|address| Server::new(address).unwrap())
            .into(),
        cache: "/home/u/.cache/debuginfod_client".into(),
        reserve: NO_RESERVE,
        reading: PATIENCE,
        answer: Some(Duration::from_secs(10)),
        whole: Some(Duration::from_secs(60)),
        largest: Some(512 << 20),
    };
    assert_eq!((read.as_ref(), warnings), (Some(&expected), Vec::new()));
    let xdg = ("XDG_CACHE_HOME", "/x");
    let cache = |variables: &[(&str, &str)]| settings(variables).0.unwrap().cache;
    assert_eq!(
        cache(&[urls, home, xdg]),
        PathBuf::from("/x/debuginfod_client")
    );
    let own = ("DEBUGINFOD_CACHE_PATH", "/own");
    assert_eq!(cache(&[urls, home, xdg, own]), PathBuf::from("/own"));
    let (read, warnings) = settings(&[
        urls,
        own,
        ("DEBUGINFOD_TIMEOUT", "3"),
        ("DEBUGINFOD_MAXTIME", "0"),
        ("DEBUGINFOD_MAXSIZE", "1 MB"),
    ]);
    let read = read.unwrap();
    let limits = (read.answer, read.whole, read.largest);
    assert_eq!(
        limits,
        (Some(Duration::from_secs(3)), None, Some(512 << 20))
    );
    assert!(
        warnings.len() == 1 && warnings[0].contains("DEBUGINFOD_MAXSIZE"),
        "{warnings:?}"
    );
    let (read, warnings) = settings(&[urls]);
    assert!(
        read.is_none() && warnings[0].contains("DEBUGINFOD_CACHE_PATH"),
        "{warnings:?}"
    );
    let (read, warnings) = settings(&[("DEBUGINFOD_URLS", "file:///srv ftp://a"), home]);
    assert!(read.is_none() && warnings.len() == 2, "{warnings:?}");
}

/// Check that what may be secret of an address is asked, but told in no message; and that a user's name is refused.
#[test]
fn secrets_of_addresses_are_not_told() {
    let server = Server::new("https://host:81/token/").unwrap();
    assert_eq!(server.name, "https://host:81");
    assert_eq!(
        server.at(&debug_file(&[0xab])),
        "https://host:81/token/buildid/ab/debuginfo"
    );
    let urls = "ima:ignore https://user:token@host https://[token token@host https://a/token";
    let (read, warnings) = settings(&[("DEBUGINFOD_URLS", urls), ("HOME", "/home/u")]);
    assert_eq!(read.unwrap().servers.len(), 1);
    assert_eq!(warnings.len(), 3);
    for (warning, nth) in warnings.iter().zip(1..) {
        let address = format!("address {nth} of DEBUGINFOD_URLS is not asked");
        let is_told = warning.contains(&address) && !warning.contains("token");
        assert!(is_told, "{warning}");
    }
    assert!(warnings[0].contains("before the @"), "{warnings:?}");
}

/// Check that a file is kept if all of it has come, and not where the connection ended before, which nothing else tells where its length was not said.
#[test]
fn what_is_not_whole_is_not_kept() {
    let right = elf(&ID);
    for (body, expected) in [
        (&right[..], Kept::File),
        (&right[..right.len() - 1], Kept::Nothing),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let url = answering("200 OK".to_owned(), body);
        let folder = cache.path().to_str().unwrap();
        let variables = [
            ("DEBUGINFOD_URLS", &*url),
            ("DEBUGINFOD_CACHE_PATH", folder),
        ];
        let mut asker = Asker::new(settings(&variables).0.unwrap(), None, program());
        let is_had = asker.fetch(&Shared::default(), &ID, "program");
        assert_eq!(is_had, expected == Kept::File);
        let place = place(cache.path()).unwrap();
        assert_eq!(
            place.look(SystemTime::now(), &mut header_reader()).unwrap(),
            expected
        );
        let left = fs::read_dir(cache.path().join("abcdef")).unwrap().count();
        assert_eq!(left, usize::from(is_had));
    }
}

/// Check that a file that comes and gets the better of whoever reads its headers ends a process without rights, and nothing else, and is not kept.
#[test]
fn what_comes_is_read_without_rights() {
    const CRASHES: &[u8] = b"misdeed crash";
    let cache = tempfile::tempdir().unwrap();
    let url = answering("200 OK".to_owned(), elf(CRASHES));
    let folder = cache.path().to_str().unwrap();
    let variables = [
        ("DEBUGINFOD_URLS", &*url),
        ("DEBUGINFOD_CACHE_PATH", folder),
    ];
    let mut asker = Asker::new(settings(&variables).0.unwrap(), None, program());
    assert!(!asker.fetch(&Shared::default(), CRASHES, "program"));
    assert_eq!(asker.ended_readers(), 1);
    let place = Cache::new(cache.path().to_owned(), NO_RESERVE)
        .place(CRASHES)
        .unwrap();
    let mut reader = header_reader();
    let mut look = || place.look(SystemTime::now(), &mut reader);
    assert_eq!(look().unwrap(), Kept::Nothing);
    // Nor is one believed that somebody has put there.
    fs::write(place.path(), elf(CRASHES)).unwrap();
    let error = look().unwrap_err().to_string();
    assert!(error.contains("signal 11"), "{error}");
}

/// Check that nobody waits for a server that never answers once it is said for how long at most, and that nothing is left of what was asked for.
#[test]
fn haste_ends_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let (asked, is_asked) = mpsc::channel();
    let silent = thread::spawn(move || {
        let (mut connection, _) = server.accept().unwrap();
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        asked.send(()).unwrap();
        // Until the other end is gone, or the test.
        let _ = connection.read_to_end(&mut Vec::new());
    });
    let cache = folder.path().to_str().unwrap();
    let (settings, _) = settings(&[
        ("DEBUGINFOD_URLS", &url),
        ("DEBUGINFOD_CACHE_PATH", cache),
        // Short enough for the threads to end with the test.
        ("DEBUGINFOD_TIMEOUT", "20"),
    ]);
    let mut fetcher = Fetcher::new(settings.unwrap(), None, program());
    let haste = fetcher.haste();
    let hurry = thread::spawn(move || {
        is_asked.recv().unwrap();
        haste.within(Duration::from_millis(10));
    });
    assert!(!fetcher.have(&ID, "program"));
    hurry.join().unwrap();
    assert!(fetcher.is_absent(&ID));
    // Nor for another file from now on.
    assert!(!fetcher.have(&[1, 2], "library"));
    fetcher.end();
    let left = fs::read_dir(folder.path().join("abcdef")).unwrap().count();
    assert_eq!(left, 0);
    assert!(!silent.is_finished());
}

/// Check that it is shown how far a file has come, until nothing comes any more; and that one which breaks off is not kept.
#[test]
fn progress_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let (seen, is_seen) = mpsc::channel();
    let sending = thread::spawn(move || {
        let (mut connection, _) = server.accept().unwrap();
        assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 268435456\r\n\r\n";
        connection.write_all(head).unwrap();
        while is_seen.try_recv().is_err() {
            connection.write_all(&[0; 1 << 12]).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    });
    let cache = folder.path().to_str().unwrap();
    let (settings, _) = settings(&[("DEBUGINFOD_URLS", &url), ("DEBUGINFOD_CACHE_PATH", cache)]);
    let (shown, shows) = mpsc::channel();
    let show = move |text: Option<&str>| {
        shown.send(text.map(str::to_owned)).unwrap();
        // The server may have ended already.
        let _ = seen.send(());
    };
    let mut fetcher = Fetcher::new(settings.unwrap(), Some(Box::new(show)), program());
    assert!(!fetcher.have(&ID, "program"));
    sending.join().unwrap();
    let shown: Vec<_> = shows.try_iter().collect();
    let [Some(text), .., None] = &shown[..] else {
        panic!("{shown:?}");
    };
    assert!(
        text.contains(" of program: 0.") && text.ends_with("of 256.0 MiB"),
        "{text}"
    );
    let left = fs::read_dir(folder.path().join("abcdef")).unwrap().count();
    assert_eq!(left, 0);
}

/// Check that only the address that was named is asked, whatever its server says.
#[test]
fn no_redirection_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let location = format!("Location: http://{}/", other.local_addr().unwrap());
    let url = answering(format!("302 Found\r\n{location}\r\nContent-Length: 0"), b"");
    let cache = folder.path().to_str().unwrap();
    let (settings, _) = settings(&[("DEBUGINFOD_URLS", &url), ("DEBUGINFOD_CACHE_PATH", cache)]);
    let mut asker = Asker::new(settings.unwrap(), None, program());
    assert!(!asker.fetch(&Shared::default(), &ID, "program"));
    other.set_nonblocking(true).unwrap();
    assert_eq!(
        other.accept().unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    // That is no absence.
    let place = place(folder.path()).unwrap();
    assert_eq!(
        place.look(SystemTime::now(), &mut header_reader()).unwrap(),
        Kept::Nothing
    );
}

/// Check that what could not be had is asked for again ten minutes later, and nothing else is.
#[test]
fn absence_is_forgotten() {
    let now = Instant::now();
    let later = |seconds| now + Duration::from_secs(seconds);
    let absent = Outcome::Absent(now);
    assert!(absent.is_absent(later(599)) && !absent.is_old(later(599)));
    assert!(!absent.is_absent(later(601)) && absent.is_old(later(601)));
    for other in [Outcome::Awaited, Outcome::There] {
        assert!(!other.is_absent(later(601)) && !other.is_old(later(601)));
    }
}

/// Check that a thread which comes to no end is not waited for, nor given more to do until it goes on.
#[test]
fn a_stuck_disk_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (mut settings, _) = settings(&[
        // Nobody listens there.
        ("DEBUGINFOD_URLS", "http://127.0.0.1:1"),
        ("DEBUGINFOD_CACHE_PATH", folder.path().to_str().unwrap()),
        ("DEBUGINFOD_TIMEOUT", "1"),
        ("DEBUGINFOD_MAXTIME", "1"),
    ]);
    let (release, held) = mpsc::channel::<()>();
    // As a disk does with whoever asks it.
    let stick = move |_: Option<&str>| {
        let _ = held.recv();
    };
    // All of it is waited for.
    settings.as_mut().unwrap().reading = Duration::from_secs(4);
    let mut fetcher = Fetcher::new(settings.unwrap(), Some(Box::new(stick)), program());
    assert!(!fetcher.have(&ID, "program"));
    assert!(fetcher.is_absent(&ID));
    let [meanwhile, afterwards] = [[1, 2], [3, 4]];
    for build_id in [meanwhile, afterwards] {
        let place = Cache::new(folder.path().to_owned(), NO_RESERVE).place(&build_id);
        let mut partial = place.unwrap().begin().unwrap();
        partial.write(&elf(&build_id)).unwrap();
        partial.keep().unwrap();
    }
    assert!(!fetcher.have(&meanwhile, "library"));
    drop(release);
    while fetcher.haste().0.lock().is_stuck {
        thread::yield_now();
    }
    assert!(fetcher.have(&afterwards, "library"));
}

/// Check that a server which sends a file for too long is let alone afterwards, and that the next one is not blamed for the time that it took.
#[test]
fn trickling_servers_are_let_alone() {
    let folder = tempfile::tempdir().unwrap();
    let trickling = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = trickling.local_addr().unwrap();
    thread::spawn(move || {
        for mut connection in trickling.incoming().flatten() {
            let mut sent = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while sent.is_ok() {
                thread::sleep(Duration::from_millis(10));
                sent = connection.write_all(b"\x7f");
            }
        }
    });
    let good = answering("200 OK".to_owned(), elf(&ID));
    let (settings, _) = settings(&[
        ("DEBUGINFOD_URLS", &format!("http://{address} {good}")),
        ("DEBUGINFOD_CACHE_PATH", folder.path().to_str().unwrap()),
        ("DEBUGINFOD_MAXTIME", "2"),
    ]);
    let mut asker = Asker::new(settings.unwrap(), None, program());
    assert!(!asker.fetch(&Shared::default(), &ID, "program"));
    assert!(asker.fetch(&Shared::default(), &ID, "program"));
}

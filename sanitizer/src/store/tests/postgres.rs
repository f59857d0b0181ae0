//! What is particular to a server: who is let in, whose a database is, and what becomes of what is written while it goes away.

use std::{thread::sleep, time::Instant};

use super::{error::Kind, server::Server, *};

fn at(address: &str) -> Address {
    address.parse().unwrap()
}

/// Has a database carry this out.
fn execute(address: &Address, sql: &'static str) {
    let mut store = Store::open(address, Access::Create).unwrap();
    store
        .with(async |connection| sqlx::query(sql).execute(connection).await)
        .unwrap();
}

/// What is said of a database that is refused.
fn refused(address: &Address, access: Access) -> String {
    Store::open(address, access).err().unwrap().to_string()
}

fn kind_of<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Kind {
    match result.unwrap_err() {
        StoreError::Database { kind, .. } => kind,
        error => panic!("{error}"),
    }
}

const fn stamp(sequence: u64) -> Stamp<'static> {
    Stamp {
        sender: "00000000000000000000000000000001",
        sequence,
        lost: Lost {
            evidence: 0,
            repeats: 0,
            sightings: 0,
        },
    }
}

/// Check that whoever is not let in, and whoever may not write, is told so with what to do, and that no password is told.
#[test]
fn whoever_is_not_let_in() {
    let server = Server::shared();
    let name = server.database_of("guarded");
    let name = name.split(['/', '?']).nth(3).unwrap();
    let with = |password: &str| -> Address {
        let address = server.address(name, "guarded");
        at(&format!("{address}&password={password}"))
    };
    let error = refused(&with("wr0ng"), Access::Create);
    assert!(
        error.contains("password authentication failed") && error.contains("~/.pgpass"),
        "{error}"
    );
    assert!(!error.contains("wr0ng"), "{error}");
    let mut store = Store::open(&with("s3cret"), Access::Create).unwrap();
    store.write(&caught(&[&race("hits", "aa11", 0)])).unwrap();

    let of_another = server.database().replace("tester", "guarded");
    let address = at(&format!("{of_another}&password=s3cret"));
    let error = refused(&address, Access::Create);
    assert!(
        error.contains("permission denied") && error.contains("OWNER"),
        "{error}"
    );
    let error = refused(&at(&server.address("absent", "tester")), Access::Create);
    assert!(error.contains("createdb"), "{error}");
    let elsewhere = format!("postgres:///x?host={}/none", server.folder().display());
    let error = refused(&at(&elsewhere), Access::Create);
    assert!(error.contains("see that the server runs"), "{error}");
}

/// Check that databases of something else, of a later version, or with nothing in them, are told as such and are left as they are.
#[test]
fn databases_that_are_no_stores() {
    let server = Server::shared();
    let address = at(&server.database());
    let error = refused(&address, Access::Existing);
    assert!(error.contains("there is no store in postgres:"), "{error}");
    execute(
        &address,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'x', TRUE, '', 0)",
    );
    let error = refused(&address, Access::Create);
    assert!(error.contains("is of version 999"), "{error}");
    // Of another program.
    let address = at(&server.database());
    execute(&address, "DROP TABLE gwp_race");
    let error = refused(&address, Access::Create);
    assert!(error.contains("not of gwp-race"), "{error}");
    let address = at(&server.database());
    execute(&address, "UPDATE gwp_race SET holds = 'songs'");
    let error = refused(&address, Access::Existing);
    assert!(error.contains("not of gwp-race"), "{error}");
}

/// Check that a server which is stopped for a while, or is killed while something is written, has all that it has acknowledged, and nothing twice; and that it is found again without a word.
#[test]
fn servers_that_go_away() {
    const BATCHES: u64 = 300;
    let server = Server::start();
    let address = at(&server.database());
    let hits = race("hits", "aa11", 0);
    let mut store = Store::open(&address, Access::Create).unwrap();
    store.write(&caught(&[&hits])).unwrap();
    server.tell("stop");
    for _ in 0..2 {
        let result = store.receive(&stamp(1), &again(&hits, &[start()]), start());
        assert_eq!(kind_of(result), Kind::Away);
    }
    server.tell("start");
    store
        .receive(&stamp(1), &again(&hits, &[start()]), start())
        .unwrap();
    // It was started anew since.
    server.tell("stop");
    server.tell("start");
    assert_eq!(store.races(start()).unwrap()[0].times, 2);

    let deadline = Instant::now() + Duration::from_secs(120);
    scope(|scope| {
        let (progress, written) = mpsc::channel();
        scope.spawn(move || {
            for sequence in 2..2 + BATCHES {
                // As whoever keeps a batch does: until it is acknowledged.
                while let Err(error) =
                    store.receive(&stamp(sequence), &again(&hits, &[start()]), start())
                {
                    assert!(Instant::now() < deadline, "{error}");
                    sleep(Duration::from_millis(20));
                }
                let _ = progress.send(());
            }
        });
        for _ in 0..2 {
            for _ in 0..BATCHES / 4 {
                written.recv().unwrap();
            }
            server.tell("kill");
            server.tell("start");
        }
    });
    let mut store = Store::open(&address, Access::Existing).unwrap();
    let times = store.races(start()).unwrap()[0].times;
    assert_eq!(times.unsigned_abs(), 2 + BATCHES);
}

/// Check that a server which does not answer in time counts as one that is away, and that what it was given is written once when it comes again.
#[test]
fn servers_that_fall_silent() {
    let address = at(&Server::shared().database());
    let hits = race("hits", "aa11", 0);
    let mut store = Store::open(&address, Access::Create).unwrap();
    store.write(&caught(&[&hits])).unwrap();
    store.set_limit(Duration::from_millis(300));
    let mut other = Store::open(&address, Access::Existing).unwrap();
    scope(|scope| {
        let (hold, held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        scope.spawn(move || {
            other
                .with(async |connection| {
                    let mut all = connect::begin(connection, &SCHEMA).await?;
                    let sql = "LOCK TABLE sender IN ACCESS EXCLUSIVE MODE";
                    sqlx::query(sql).execute(&mut *all).await?;
                    hold.send(()).unwrap();
                    let _ = released.recv();
                    all.rollback().await
                })
                .unwrap();
        });
        held.recv().unwrap();
        let result = store.receive(&stamp(1), &again(&hits, &[start()]), start());
        assert_eq!(kind_of(result), Kind::Away);
        drop(release);
    });
    store.set_limit(Duration::from_secs(60));
    for _ in 0..2 {
        store
            .receive(&stamp(1), &again(&hits, &[start()]), start())
            .unwrap();
    }
    assert_eq!(store.races(start()).unwrap()[0].times, 2);
}

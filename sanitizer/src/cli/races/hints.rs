//! `gwp-race races hints`.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{StoreArgs, now};
use crate::{
    cli::messages::tell,
    delivery::hints::made,
    kernel::{limits::explained, rights::as_caller},
    report::clean::clean,
};

/// Write what machines have learned, a file for each build
///
/// The files that a collector (`races serve --ingest`) makes when a machine asks what others have learned of a build, as DIR/NAME/BUILD, for a server of files that answers `GET /v1/hints/NAME/BUILD` in its place. Those that are the same are left as they are, others take their place at once, and none is
/// deleted: run it again every quarter of an hour. They tell where to look first, and have names of files, build ids and figures.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races hints --store postgres://races@db/races --out /srv/www/v1/hints")]
pub struct HintsArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// The folder to write to
    ///
    /// It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

pub fn run(args: &HintsArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let now = now();
    let (mut written, mut same, mut failed) = (0_u32, 0_u32, 0_u32);
    for module in store.learned_builds(now)? {
        // Hosts choose names. One that is hidden may be the configuration of whoever serves the folder.
        if module.name.starts_with('.') {
            continue;
        }
        let Some(made) = made(&mut store, &module, now)? else {
            continue;
        };
        let path = args.out.join(&module.name).join(&module.build);
        match as_caller(|| write(&path, &made.body))? {
            Ok(true) => written += 1,
            Ok(false) => same += 1,
            Err(error) => {
                failed += 1;
                tell(&format!(
                    "cannot write {}: {}",
                    clean(&path.to_string_lossy()),
                    explained(&error)
                ));
            }
        }
    }
    tell(&format!(
        "{written} files were written to {}, and {same} were the same before",
        args.out.display()
    ));
    anyhow::ensure!(
        failed == 0,
        "{failed} files could not be written; see that there is room in {}, that you may write there, and that nothing else has these names",
        args.out.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Writes a file whole or not at all; whether it was another one before.
fn write(path: &Path, body: &[u8]) -> io::Result<bool> {
    if fs::read(path).is_ok_and(|before| before == body) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)?;
    }
    // No build id ends so, and whoever writes at the same time has another one.
    let unfinished = path.with_extension(format!("unfinished-{}", std::process::id()));
    // Of one that was killed, and had the same number.
    let _ = fs::remove_file(&unfinished);
    let mut file = fs::File::create_new(&unfinished)?;
    let written = file.write_all(body);
    let done = written.and_then(|()| fs::rename(&unfinished, path));
    if done.is_err() {
        // It takes room, which may be what is wanting.
        let _ = fs::remove_file(&unfinished);
    }
    done.map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        delivery::hints::HintFile,
        learned::{KnownFunction, Learned, Module},
        store::{Access, Batch, Lost, Stamp, Store},
    };

    /// Check that each build has a file, that one which is the same is left as it is, and that one which is not takes its place.
    #[test]
    fn files() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("sqlite:{}", folder.path().join("races.db").display());
        let store: crate::store::Address = address.parse().unwrap();
        let out = folder.path().join("www/hints");
        let args = HintsArgs {
            store: StoreArgs {
                store: store.clone(),
            },
            out: out.clone(),
        };
        let learned = |build: &str, came| Learned {
            module: Module {
                name: "app x".to_owned(),
                build: build.to_owned(),
            },
            at: now(),
            functions: vec![KnownFunction {
                at: 16,
                fingerprint: 7,
                sites: vec![(4, vec![(0, came)])],
                raced: Vec::new(),
            }],
        };
        let mut store = Store::open(&store, Access::Create).unwrap();
        let mut tell = |sequence, learned: Vec<Learned>| {
            let stamp = Stamp {
                sender: "0123456789abcdef0123456789abcdef",
                sequence,
                lost: Lost::default(),
            };
            let batch = Batch::default();
            store.receive_all(&stamp, &batch, &learned, now()).unwrap();
            run(&args).unwrap();
        };
        tell(1, vec![learned("aa", 1.0), learned("bb", 2.0)]);
        let body = |build: &str| fs::read(out.join("app x").join(build)).unwrap();
        let first = ["aa", "bb"].map(body);
        for (body, build) in first.iter().zip(["aa", "bb"]) {
            assert_eq!(HintFile::decode(body).unwrap().module.build, build);
        }
        let about = || {
            fs::metadata(out.join("app x/aa"))
                .unwrap()
                .modified()
                .unwrap()
        };
        let before = about();
        tell(2, vec![learned("bb", 2.0)]);
        assert_eq!((&body("aa"), about()), (&first[0], before));
        let file = HintFile::decode(&body("bb")).unwrap();
        let came = file.functions[0].sites[0].1[0].1;
        assert!((3.9..=4.0).contains(&came), "{came}");
        let count = fs::read_dir(out.join("app x")).unwrap().count();
        assert_eq!(count, 2);

        // What stands in one's way keeps none of the others from being written, and none is hidden.
        fs::remove_dir_all(&out).unwrap();
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join("app x"), "a file").unwrap();
        let named = |name: &str| {
            let mut learned = learned("cc", 1.0);
            learned.module.name = name.to_owned();
            learned
        };
        let others = [named(".htaccess"), named("zebra")];
        let stamp = Stamp {
            sender: "0123456789abcdef0123456789abcdef",
            sequence: 3,
            lost: Lost::default(),
        };
        let batch = Batch::default();
        store.receive_all(&stamp, &batch, &others, now()).unwrap();
        let error = run(&args).unwrap_err().to_string();
        assert!(
            error.starts_with("2 files could not be written; "),
            "{error}"
        );
        let mut names: Vec<_> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["app x", "zebra"]);
        assert_eq!(fs::read_dir(out.join("zebra")).unwrap().count(), 1);
    }
}

//! The recipes of docs/cookbook.md, as somebody would paste them.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    binary::{gwp_race, root},
    children::Guarded,
};

/// How long a recipe may take.
const LIMIT: Duration = Duration::from_secs(120);
/// Chance decides what a run finds: so many tries.
const TRIES: u32 = 3;

/// A part of the page below a heading.
struct Recipe {
    heading: String,
    /// Names and contents.
    files: Vec<(String, String)>,
    /// What is typed.
    commands: String,
}

/// The recipes of a page: a file has its name, in backquotes, in the line before its block, and a block of commands is of the language `sh`.
fn recipes(page: &str) -> Vec<Recipe> {
    let mut all: Vec<Recipe> = Vec::new();
    let mut name = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            all.push(Recipe {
                heading: heading.to_owned(),
                files: Vec::new(),
                commands: String::new(),
            });
        } else if let Some(language) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|&line| line != "```").collect();
            let block = block.join("\n") + "\n";
            let recipe = all.last_mut().expect("blocks stand below headings");
            match (language, name.take()) {
                ("sh", _) => recipe.commands += &block,
                (_, Some(name)) => recipe.files.push((name, block)),
                _ => {}
            }
        } else if let Some(named) = line
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix("`:"))
        {
            name = Some(named.to_owned());
        }
    }
    all
}

fn write(folder: &Path, files: &[(String, String)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Follows a recipe in a folder of its own; what was printed, if the commands succeeded.
fn follow(recipe: &Recipe, common: &Recipe) -> Result<String, String> {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    write(folder, &common.files);
    write(folder, &recipe.files);
    let printed = folder.join("printed");
    let output = fs::File::create(&printed).unwrap();
    let tools = gwp_race();
    let tools = tools.parent().expect("it is a file");
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    command
        // Background jobs have process groups of their own, as in a terminal.
        .args([
            "-e",
            "-u",
            "-x",
            "-m",
            "-o",
            "pipefail",
            "-c",
            &recipe.commands,
        ])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", tools.display()))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output);
    let mut shell = Guarded::new(command.spawn().unwrap());
    let status = shell.wait(LIMIT);
    let printed = String::from_utf8_lossy(&fs::read(&printed).unwrap()).into_owned();
    match status {
        Ok(status) if status.success() => Ok(printed),
        status => Err(format!("{}: {status:?}\n{printed}", recipe.heading)),
    }
}

/// Follows the recipe below a heading, which finds the race.
fn find_the_race(heading: &str) {
    let page = fs::read_to_string(root().join("docs/cookbook.md")).unwrap();
    let all = recipes(&page);
    let of = |heading: &str| all.iter().find(|recipe| recipe.heading == heading).unwrap();
    let recipe = of(heading);
    assert!(!recipe.commands.is_empty());
    for attempt in 1..=TRIES {
        let printed = follow(recipe, of("The program")).unwrap_or_else(|error| panic!("{error}"));
        let found = printed.contains("data race") && printed.contains("serve_one");
        println!("{heading}: try {attempt}: {found}");
        if found {
            return;
        }
        assert!(attempt < TRIES, "{printed}");
    }
}

macro_rules! recipes {
    ($($test:ident: $heading:literal;)*) => {
        $(
            #[doc = concat!("Check that the recipe \"", $heading, "\" does what it says, pasted into an empty folder.")]
            #[test]
            fn $test() {
                find_the_race($heading);
            }
        )*

        /// Check that each recipe of the page with commands is one of these.
        #[test]
        fn all_are_tried() {
            let page = fs::read_to_string(root().join("docs/cookbook.md")).unwrap();
            let with_commands: Vec<String> = recipes(&page)
                .into_iter()
                .filter(|recipe| !recipe.commands.is_empty())
                .map(|recipe| recipe.heading)
                .collect();
            assert_eq!(with_commands, [$($heading),*]);
        }
    };
}

recipes! {
    make: "Make";
    cmake: "CMake";
    meson: "Meson";
    cargo: "cargo";
    suite: "A test suite that fails on new races";
    container: "A program in a container";
}

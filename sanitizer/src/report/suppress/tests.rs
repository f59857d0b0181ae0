use super::*;
use crate::report::sample::race;

/// Check each type against a race, and that comments and other tools' types do nothing.
#[test]
fn types() {
    let matches = |text: &str| {
        let mut suppressions = Suppressions::parse(text, Path::new("supp")).expect("a good file");
        let mut race = race();
        for frame in race
            .accesses
            .iter_mut()
            .flat_map(|access| &mut access.stack)
        {
            frame.build_id = Some("aabbccddeeff".to_owned());
        }
        suppressions.suppresses(&race)
    };
    assert!(matches("race:main"));
    assert!(matches("race:worker.c"));
    assert!(matches("race:^counter$"));
    assert!(!matches("race_top:main"));
    assert!(matches("identity:r3:00112233445566778899aabbccddeeff"));
    assert!(matches("identity:i3:ffeeddccbbaa99887766554433221100"));
    assert!(!matches("identity:r3:ffeeddccbbaa99887766554433221100"));
    assert!(matches("race_top:^bump$"));
    assert!(matches("called_from_lib:libwork.so"));
    assert!(!matches("called_from_lib:bump"));
    assert!(matches("race:^/src/worker.c$"));
    assert!(matches("race_top:^/opt/lib/libwork.so$"));
    assert!(matches("build_id:aabbccdd"));
    assert!(!matches("build_id:bbccddee"));
    assert!(!matches("# race:main\n\n  thread:main\nmutex:main\n"));
    assert!(matches("  race:main  \r\n"));
}

/// Check that used rules are counted with their lines.
#[test]
fn counts_uses() {
    let mut suppressions =
        Suppressions::parse("race:nothing\nrace:main", Path::new("supp")).expect("good");
    assert!(suppressions.suppresses(&race()));
    assert!(suppressions.suppresses(&race()));
    assert_eq!(suppressions.used().collect::<Vec<_>>(), [(2, "main", 2)]);
}

/// Check that a rule which matches nothing is told with its line, and neither one behind another that matches nor one of another report.
#[test]
fn tells_unused_rules() {
    let text =
        "# a comment\nrace:main\nrace:worker.c\nrace:nothing\nmutex:nothing\nbuild_id:0123456789";
    let mut suppressions = Suppressions::parse(text, Path::new("my.supp")).expect("good");
    assert!(suppressions.suppresses(&race()));
    let unused: Vec<_> = suppressions
        .unused()
        .into_iter()
        .map(|rule| (rule.file, rule.line, rule.rule))
        .collect();
    let rule = |line, text: &str| ("my.supp".to_owned(), line, text.to_owned());
    assert_eq!(
        unused,
        [rule(4, "race:nothing"), rule(6, "build_id:0123456789")]
    );
}

/// Check that errors name file and line and say what to write.
#[test]
fn errors_name_the_line() {
    for text in [
        "race:x\nbogus:y",
        "race:x\nrace",
        "race:x\nrace:",
        "race:x\nidentity:main",
        "race:x\nbuild_id:aabbcc",
        "race:x\nbuild_id:aabbccdx",
    ] {
        let error = Suppressions::parse(text, Path::new("my.supp")).expect_err(text);
        let message = error.to_string();
        assert!(message.starts_with("my.supp:2: "), "{message}");
        assert!(message.contains("TYPE:PATTERN"), "{message}");
    }
    let old = "identity:r1:00112233445566778899aabbccddeeff";
    let error = Suppressions::parse(old, Path::new("my.supp")).expect_err(old);
    assert!(error.to_string().contains("another version"), "{error}");
}

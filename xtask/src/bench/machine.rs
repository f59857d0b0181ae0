//! What a measurement was taken on, when, and by which command.

use std::{fs, process::Command};

use crate::steps::answer;

/// The machine, the date and the command, a line each.
pub fn description() -> Vec<String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    vec![
        format!("Machine: {}", machine()),
        format!("Date: {}", answered("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
        format!("Command: cargo xtask {}", words.join(" ")),
    ]
}

fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix(name)?.split(':').nth(1))
            .map(str::trim)
    };
    let model = field("model name").unwrap_or("unknown processor");
    let cpus = cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let virtual_machine = field("flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    format!(
        "{cpus} CPUs ({model}{}), Linux {}",
        if virtual_machine {
            ", in a virtual machine"
        } else {
            ""
        },
        answered("uname", &["-r"])
    )
}

fn answered(program: &str, arguments: &[&str]) -> String {
    let text = answer(Command::new(program).args(arguments));
    text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}

//! A virtual machine, from its start to its end: qemu, with the kernel's messages in a file and the results on its standard output.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{root::GWP_RACE, state::State};

/// Who executes the code of virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Accelerator {
    /// KVM where it can be used, else the emulator.
    Auto,
    /// The processor.
    Kvm,
    /// qemu's emulator.
    Tcg,
}

impl Accelerator {
    /// What `Auto` is here. Without virtualization by the processor there may be a KVM, too, inside some virtual machines: it
    /// executes only kernels that were made for that.
    pub fn chosen(self) -> Self {
        let may_open = || {
            let kvm = fs::File::options().read(true).write(true).open("/dev/kvm");
            kvm.is_ok()
        };
        match self {
            Self::Auto if may_open() && is_virtualizing(&cpuinfo()) => Self::Kvm,
            Self::Auto => Self::Tcg,
            chosen => chosen,
        }
    }

    /// For qemu.
    const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Auto | Self::Tcg => "tcg",
        }
    }

    /// For readers.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::Auto | Self::Tcg => "emulated (TCG)",
        }
    }
}

fn cpuinfo() -> String {
    fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// Whether the processor has Intel's or AMD's virtualization.
fn is_virtualizing(cpuinfo: &str) -> bool {
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| {
        line.split_whitespace()
            .any(|flag| flag == "vmx" || flag == "svm")
    })
}

/// What all boots have in common.
pub struct Machine {
    /// What it has instead of a disk.
    pub initramfs: PathBuf,
    /// Who executes its code.
    pub accelerator: Accelerator,
    /// How long it may run.
    pub limit: Duration,
    /// Variables of its first process.
    pub environment: Vec<String>,
    /// Words that choose the trials.
    pub trials: Vec<String>,
}

/// How a boot has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The machine has switched itself off, or was reset.
    Off,
    /// It was ended when its time was over.
    TimedOut,
}

/// It is ended with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine {
    /// Runs one; each line of results is heard when it comes.
    pub fn boot(
        &self,
        kernel: &Path,
        state: &State,
        log: &Path,
        hear: &mut dyn FnMut(&str),
    ) -> Result<End> {
        if let Some(directory) = log.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut command = self.command(kernel, state, log);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let start = Instant::now();
        let mut running = Running(command.spawn().context("starting qemu-system-x86_64")?);
        let output = running.0.stdout.take().context("qemu's output")?;
        let (send, lines) = channel();
        // It ends with the pipe, which ends with qemu.
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        loop {
            match lines.recv_timeout(self.limit.saturating_sub(start.elapsed())) {
                Ok(line) => hear(line.trim()),
                Err(RecvTimeoutError::Disconnected) => return Ok(End::Off),
                Err(RecvTimeoutError::Timeout) => return Ok(End::TimedOut),
            }
        }
    }

    fn command(&self, kernel: &Path, state: &State, log: &Path) -> Command {
        // Should this process be killed, qemu is to end as well.
        let mut command = Command::new("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            "nice",
            "-n",
            "5",
            "qemu-system-x86_64",
        ]);
        command.args(["-accel", self.accelerator.name(), "-cpu", "max"]);
        command.args(["-smp", "2", "-m", "2G", "-display", "none"]);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        command.arg("-kernel").arg(kernel);
        command.arg("-initrd").arg(&self.initramfs);
        command.arg("-append").arg(self.kernel_words(state));
        command
            .arg("-serial")
            .arg(format!("file:{}", log.display()));
        command.args(["-serial", "stdio"]);
        command
    }

    /// The kernel's command line. What the kernel does not know becomes the first process's environment, and what follows `--`
    /// its arguments.
    fn kernel_words(&self, state: &State) -> String {
        let mut words = vec![
            "console=ttyS0".to_owned(),
            "loglevel=5".to_owned(),
            "panic=-1".to_owned(),
            format!("GWP_RACE_BIN={GWP_RACE}"),
        ];
        words.extend(state.words());
        words.extend(self.environment.iter().cloned());
        words.push("--".to_owned());
        words.extend(self.trials.iter().cloned());
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the kernel gets its options before, and the first process its words after the separator.
    #[test]
    fn kernel_command_lines() {
        let machine = Machine {
            initramfs: PathBuf::new(),
            accelerator: Accelerator::Tcg,
            limit: Duration::ZERO,
            environment: vec!["GWP_RACE_KILLS=3".to_owned()],
            trials: vec!["yama".to_owned(), "run".to_owned()],
        };
        for (state, expected) in State::all(&["none", "integrity"].map(str::to_owned))
            .iter()
            .zip([
                "gwp-race GWP_RACE_KILLS=3",
                "gwp-race GWP_RACE_FIRST=systemd GWP_RACE_KILLS=3",
                "gwp-race lockdown=integrity GWP_RACE_KILLS=3",
            ])
        {
            let words = machine.kernel_words(state);
            let (kernel, process) = words.split_once(" -- ").unwrap();
            assert!(kernel.ends_with(expected), "{kernel}");
            assert_eq!(process, "yama run");
        }
    }

    /// Check that only the processor's own virtualization counts.
    #[test]
    fn processors_that_virtualize() {
        assert!(is_virtualizing("model name\t: x\nflags\t\t: fpu vmx sse\n"));
        assert!(is_virtualizing("flags\t\t: fpu svm\n"));
        assert!(!is_virtualizing(
            "flags\t\t: fpu hypervisor\nvmx flags\t: vnmi\n"
        ));
        assert!(!is_virtualizing("model name\t: vmx\n"));
    }
}

//! The modules of a process in `inspect`.

use anyhow::Context as _;
use nix::unistd::Pid;

use super::{BUILD_HINT, Carries, Inspection};
use crate::symbols::ModuleInfo;
use crate::tracee::{Modules, process::check_is_program};

impl Inspection<'_> {
    /// Shows each module of a process.
    pub(super) fn process(&mut self, pid: Pid) -> anyhow::Result<()> {
        let modules = check_is_program(pid).and_then(|()| Modules::scan(pid));
        let modules = modules.with_context(|| {
            format!("cannot look at process {pid}; check the id, and run as root or as its user")
        })?;
        let (mut carrying, mut unreadable) = (0, 0);
        for module in modules.all() {
            let info = ModuleInfo {
                path: module.path.to_string_lossy().into_owned(),
                via: module.via.clone(),
                build_id: module.build_id().unwrap_or_default().to_vec(),
                ..ModuleInfo::default()
            };
            match self.image(&info.path, &module.image, Some(&info))? {
                Carries::Metadata => carrying += 1,
                Carries::Unreadable => unreadable += 1,
                Carries::Nothing => {}
            }
        }
        for file in modules.unreadable() {
            let name = file.mapping.name.to_string_lossy();
            self.error(&name, &file.reason.to_string())?;
        }
        if self.args.json {
            return Ok(());
        }
        let all = modules.all().len();
        writeln!(self.out, "{carrying} of {all} modules carry metadata")?;
        if carrying == 0 {
            let why = match unreadable {
                0 => BUILD_HINT,
                _ => "the metadata that it has cannot be read (see above)",
            };
            writeln!(self.out, "no race can be found in this process: {why}")?;
        }
        Ok(())
    }
}

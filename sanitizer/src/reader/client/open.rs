//! How the daemon opens the files of modules, or gets copies of them.

use std::{io, sync::Arc};

use super::{Client, Nothing};
use crate::{
    kernel::foreign::Purpose,
    symbols::{Facts, Known, ModuleInfo, Opened, Sources},
};

impl Client {
    /// Opens a module's file for questions, or finds that it is open.
    pub(super) fn open_among(
        &mut self,
        sources: &mut Sources,
        module: &ModuleInfo,
    ) -> io::Result<Arc<Known>> {
        let root = sources.root_of(module);
        let opened = match module.via.open(Purpose::Promptly) {
            Ok(file) => Opened::elf(file)?,
            Err(error) => {
                let device = error.served().ok_or_else(|| io::Error::other(error))?;
                let identity = self.copier.find(device, &module.via);
                let identity = identity.map_err(io::Error::other)?;
                if let Some(known) = sources.known(identity, root.as_deref()) {
                    return Ok(known);
                }
                let file = self.copier.copy(device).map_err(io::Error::other)?;
                Opened { file, identity }
            }
        };
        sources.open(module, root, opened, |number, source| {
            let identity = source.opened().identity;
            let read = self.persist(identity, &module.path, |client| {
                client.start()?;
                client.take(number, source)
            });
            match read {
                Ok(facts) => Ok(facts),
                Err(Nothing::NoFile(why)) => Err(io::Error::other(why)),
                // It is known all the same, so that reports can say why nothing else is.
                Err(Nothing::Unread) => Ok(Facts {
                    build_id: module.build_id.clone(),
                    ..Facts::default()
                }),
            }
        })
    }
}

//! eBPF programs at raw tracepoints: loaded, prepared by whoever uses them, then attached. What they are attached by ends with them.

use std::path::Path;

use aya::{
    Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{Map, MapError},
    programs::{RawTracePoint, RawTracePointRunOptions, TestRun as _},
};

use super::{KernelError, btf, error::chain, fault, gates::is_refusal, heap};

/// See the module.
pub(super) struct RawTracepoints {
    ebpf: Ebpf,
}

impl RawTracepoints {
    /// Loads an object and these programs of it. `purpose`: what they are for, in words; `ring`: a map and the bytes that it has, where not as many
    /// as the object says.
    ///
    /// # Errors
    /// Fails without the object, the rights or the features.
    pub(super) fn load(
        object: &[u8],
        purpose: &'static str,
        names: &[&str],
        ring: Option<(&str, u32)>,
    ) -> Result<Self, KernelError> {
        if object.is_empty() {
            return Err(KernelError::other(
                purpose,
                "this gwp-race",
                "it was built without its eBPF objects: build it with `cargo xtask build`",
            ));
        }
        fault::before("bpf(BPF_MAP_CREATE)", || "the eBPF object".to_owned())?;
        let mut loader = EbpfLoader::new();
        if let Some((name, bytes)) = ring {
            loader.map_max_entries(name, bytes);
        }
        let ebpf = loader
            .btf(None)
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .load(object)
            .map_err(|cause| failed("loading", "the eBPF object", &cause))?;
        // Both have read the kernel's types: whoever has computed offsets before, and the loader.
        drop(loader);
        heap::give_back();
        let mut loaded = Self { ebpf };
        for name in names {
            fault::before("bpf(BPF_PROG_LOAD)", || (*name).to_owned())?;
            loaded
                .program(name)?
                .load()
                .map_err(|cause| failed("bpf(BPF_PROG_LOAD)", name, &cause))?;
        }
        Ok(loaded)
    }

    /// A map of the object. Not before the programs are loaded, which name maps by their descriptors.
    ///
    /// # Errors
    /// There is none of this name.
    pub(super) fn map(&mut self, name: &str) -> Result<Map, KernelError> {
        self.ebpf
            .take_map(name)
            .ok_or_else(|| KernelError::other("loading", name, "the eBPF object has no such thing"))
    }

    /// Makes a map one of a type.
    ///
    /// # Errors
    /// There is none of this name, or it is another one.
    pub(super) fn map_as<T: TryFrom<Map, Error = MapError>>(
        &mut self,
        name: &str,
    ) -> Result<T, KernelError> {
        let map = self.map(name)?;
        T::try_from(map).map_err(|cause| failed("bpf map", name, &cause))
    }

    /// Has a program run once, in this process.
    ///
    /// # Errors
    /// Fails where bpf(2) does.
    pub(super) fn run(&mut self, name: &str) -> Result<(), KernelError> {
        self.program(name)?
            .test_run(RawTracePointRunOptions::default())
            .map(drop)
            .map_err(|cause| failed("bpf(BPF_PROG_TEST_RUN)", name, &cause))
    }

    /// Attaches programs, each to its tracepoint.
    ///
    /// # Errors
    /// Fails where bpf(2) does.
    pub(super) fn attach(&mut self, programs: &[(&str, &str)]) -> Result<(), KernelError> {
        for &(name, tracepoint) in programs {
            fault::before("bpf(BPF_RAW_TRACEPOINT_OPEN)", || tracepoint.to_owned())?;
            self.program(name)?
                .attach(tracepoint)
                .map_err(|cause| failed("attaching", tracepoint, &cause))?;
        }
        Ok(())
    }

    fn program(&mut self, name: &str) -> Result<&mut RawTracePoint, KernelError> {
        self.ebpf
            .program_mut(name)
            .ok_or("the object has no such program")
            .and_then(|program| program.try_into().map_err(|_| "it is of another type"))
            .map_err(|cause| KernelError::other("loading", name, cause))
    }
}

/// The type information of the running kernel, for what is looked up in it.
///
/// # Errors
/// There is none, or it lacks something.
pub(super) fn of_kernel<T>(
    look_up: impl FnOnce(&btf::Btf<'_>) -> Result<T, btf::BtfError>,
) -> Result<T, KernelError> {
    let unreadable = |cause: btf::BtfError| {
        KernelError::other("reading BTF", "the running kernel", cause.to_string())
    };
    let types = btf::read(Path::new(btf::VMLINUX_BTF)).map_err(unreadable)?;
    let types = btf::Btf::parse(&types).map_err(unreadable)?;
    look_up(&types).map_err(unreadable)
}

fn failed(
    call: &'static str,
    what: &str,
    cause: &(dyn std::error::Error + 'static),
) -> KernelError {
    let error = KernelError::other(call, what.to_owned(), chain(cause));
    if is_refusal(cause) {
        error.into_refusal()
    } else {
        error
    }
}

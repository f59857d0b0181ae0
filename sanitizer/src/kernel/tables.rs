//! The tables that the gates search: the executable ranges of the process, functions and atomic
//! instructions by module. The latter are BPF maps in maps: a table is filled before the gates see it,
//! and replaced whole, for which the kernel waits until no gate uses the one of before (RCU): 5 to 25 ms.
//! The ranges are changed in place, since each process has others.

use std::{collections::HashSet, os::fd::AsFd as _};

use aya::maps::{ArrayOfMaps, MapData};
use gwp_race_abi::{FunctionEntry, MODULES, ModuleRange, SPACE_RANGES};

use super::{KernelError, fault, shared::SharedArray};

/// `BPF_F_MMAPABLE | BPF_F_INNER_MAP` (`include/uapi/linux/bpf.h`).
const INNER_FLAGS: u32 = 1 << 10 | 1 << 12;

/// See the module.
pub struct Tables {
    maps: Option<Maps>,
    used: HashSet<u32>,
}

struct Maps {
    space: SharedArray<ModuleRange>,
    functions: ArrayOfMaps<MapData>,
    atomics: ArrayOfMaps<MapData>,
}

impl Tables {
    /// The tables in these maps, which are empty.
    pub(super) fn new(
        space: SharedArray<ModuleRange>,
        functions: ArrayOfMaps<MapData>,
        atomics: ArrayOfMaps<MapData>,
    ) -> Self {
        let maps = Maps {
            space,
            functions,
            atomics,
        };
        Self {
            maps: Some(maps),
            used: HashSet::new(),
        }
    }

    /// No tables: there are no gates to search them.
    pub(crate) fn unneeded() -> Self {
        Self {
            maps: None,
            used: HashSet::new(),
        }
    }

    /// Replaces the executable ranges of the process: none, when it is gone. They must be sorted by start; those
    /// beyond [`SPACE_RANGES`] are not seen by the gates (the result counts them). Nothing may be in hand: what a gate finds meanwhile
    /// may be any of them.
    pub fn set_space(&mut self, ranges: &[ModuleRange]) -> usize {
        let unused = ModuleRange {
            start: u64::MAX,
            ..ModuleRange::default()
        };
        for index in 0..SPACE_RANGES {
            let range = ranges.get(index).copied().unwrap_or(unused);
            let maps = self.maps.as_ref();
            if let Some(pointer) = maps.and_then(|maps| maps.space.pointer(index)) {
                // SAFETY: the pointer is into the mapping of the map, which only this writes. The gates may read at the same time, for which
                // any bits are valid.
                unsafe { pointer.write_volatile(range) };
            }
        }
        ranges.len().saturating_sub(SPACE_RANGES)
    }

    /// Loads the tables of a module; the result is their index.
    ///
    /// # Errors
    /// Fails where the map calls do, and when [`MODULES`] are loaded.
    pub fn add(
        &mut self,
        functions: impl ExactSizeIterator<Item = FunctionEntry>,
        atomic_ends: impl ExactSizeIterator<Item = u32>,
    ) -> Result<u32, KernelError> {
        let Some(maps) = &mut self.maps else {
            return Ok(0);
        };
        let index = (0..MODULES as u32)
            .find(|index| !self.used.contains(index))
            .ok_or_else(|| {
                KernelError::other("loading tables", "a module", "too many modules are loaded")
            })?;
        let update = |cause: &(dyn std::error::Error + 'static)| {
            KernelError::caused("bpf(BPF_MAP_UPDATE_ELEM)", "a table", cause)
        };
        let inner = table(functions.len(), functions, "functions")?;
        before_update("a table")?;
        maps.functions
            .set(index, &inner, 0)
            .map_err(|cause| update(&cause))?;
        let inner = table(atomic_ends.len(), atomic_ends, "atomics")?;
        before_update("a table")?;
        maps.atomics
            .set(index, &inner, 0)
            .map_err(|cause| update(&cause))?;
        self.used.insert(index);
        Ok(index)
    }

    /// Gives the tables of an unloaded module free for another one.
    pub fn remove(&mut self, table: u32) {
        self.used.remove(&table);
    }
}

fn before_update(map: &str) -> Result<(), KernelError> {
    fault::before("bpf(BPF_MAP_UPDATE_ELEM)", || map.to_owned())
}

/// A BPF array with these entries, to be put into an outer map.
fn table<T: Copy>(
    len: usize,
    entries: impl Iterator<Item = T>,
    name: &str,
) -> Result<MapData, KernelError> {
    // An array cannot be empty; one without entries is never searched.
    let len = len.max(1);
    let parameters = aya_obj::Map::new_from_params(
        aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_ARRAY as u32,
        size_of::<u32>() as u32,
        size_of::<T>() as u32,
        u32::try_from(len).unwrap_or(u32::MAX),
        INNER_FLAGS,
    );
    fault::before("bpf(BPF_MAP_CREATE)", || name.to_owned())?;
    let map = MapData::create(parameters, name, None)
        .map_err(|cause| KernelError::caused("bpf(BPF_MAP_CREATE)", name, &cause))?;
    let values: SharedArray<T> = SharedArray::map(&map.fd().as_fd(), len, name)?;
    for (index, entry) in entries.enumerate() {
        if let Some(pointer) = values.pointer(index) {
            // SAFETY: the pointer is into the mapping of a map that no gate sees yet.
            unsafe { pointer.write(entry) };
        }
    }
    Ok(map)
}

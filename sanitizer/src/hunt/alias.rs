//! Memory that a process reaches at several addresses: one page of a file, of a memfd or of shared memory, mapped more than once. Ring
//! buffers are mirrored so, and caches of generated code mapped for those who write and those who execute.
//!
//! A watchpoint is on an address, not on memory. So who accesses the bytes of a stalled access at another address is seen only if that
//! one is watched.

use crate::{
    addr::RuntimeAddr,
    tracee::maps::{Mapping, Maps},
};

/// Where a byte that some mapping shares stands in its file.
fn place(mapping: &Mapping, address: u64) -> Option<(u64, u64, u64)> {
    let is_shared = mapping.perms.shared && mapping.is_file();
    let offset = mapping
        .offset
        .0
        .checked_add(address.checked_sub(mapping.start.0)?)?;
    is_shared.then_some((mapping.dev, mapping.inode, offset))
}

/// How far away (modulo 2^64) the same byte as at an address is mapped as well, each time.
#[must_use]
pub fn others(maps: &Maps, address: u64) -> Vec<u64> {
    let here = maps
        .find(RuntimeAddr(address))
        .and_then(|mapping| place(mapping, address));
    let Some((dev, inode, offset)) = here else {
        return Vec::new();
    };
    let there = maps.iter().filter_map(|mapping| {
        let first = place(mapping, mapping.start.0)?;
        let distance = offset.checked_sub(first.2)?;
        let other = mapping.start.0.checked_add(distance)?;
        let is_same = (first.0, first.1) == (dev, inode) && mapping.contains(RuntimeAddr(other));
        (is_same && other != address).then(|| other.wrapping_sub(address))
    });
    there.collect()
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::*;

    /// Check that the same byte of the same file is found wherever it is mapped, and nothing else: neither private copies nor other parts
    /// or files, nor memory without a file.
    #[test]
    fn where_a_byte_is_mapped_as_well() {
        let maps = Maps::parse(
            Pid::from_raw(1),
            b"10000-12000 rw-s 00000000 00:01 7 /memfd:ring (deleted)\n\
              12000-14000 rw-s 00000000 00:01 7 /memfd:ring (deleted)\n\
              20000-21000 r--s 00001000 00:01 7 /memfd:ring (deleted)\n\
              30000-32000 rw-p 00000000 00:01 7 /memfd:ring (deleted)\n\
              40000-42000 rw-s 00000000 00:01 8 /memfd:ring (deleted)\n\
              50000-52000 rw-s 00000000 00:02 7 /memfd:ring (deleted)\n\
              60000-62000 rw-p 00000000 00:00 0 \n",
        )
        .expect("the text of maps");
        let others = |address: u64| -> Vec<u64> {
            let distances = others(&maps, address).into_iter();
            distances.map(|it| address.wrapping_add(it)).collect()
        };
        assert_eq!(others(0x10008), [0x12008]);
        assert_eq!(others(0x11ff8), [0x13ff8, 0x20ff8]);
        assert_eq!(others(0x20010), [0x11010, 0x13010]);
        for alone in [0x30008, 0x40008, 0x50008, 0x60008, 0x70000, 0] {
            assert!(others(alone).is_empty(), "{alone:#x}");
        }
    }
}

//! Whether the machine's debug registers work: what hits them is counted. An emulator may lack them, and everything else
//! would fail for that.

use std::{
    hint::black_box,
    io::Read as _,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use anyhow::{Context as _, Result, bail};
use gwp_race_tests::perf_event;
use perf_event_open_sys::bindings as raw;

use crate::kernel::Kernel;

const HITS: u64 = 100;

/// Counts hits of both kinds.
pub fn count(_: &Kernel) -> Result<String> {
    static WATCHED: AtomicU64 = AtomicU64::new(0);
    let data = hits(raw::HW_BREAKPOINT_W, WATCHED.as_ptr() as u64, |value| {
        WATCHED.store(value, SeqCst);
    })
    .context("data breakpoint")?;
    let code = executed as extern "C" fn(u64) -> u64 as usize as u64;
    let instructions = hits(raw::HW_BREAKPOINT_X, code, |value| {
        black_box(executed(black_box(value)));
    })
    .context("instruction breakpoint")?;
    if (data, instructions) != (HITS, HITS) {
        bail!(
            "{data} and {instructions} of {HITS} hits: this machine's debug registers do not work"
        );
    }
    Ok("all counted".to_owned())
}

#[inline(never)]
extern "C" fn executed(value: u64) -> u64 {
    black_box(value).wrapping_mul(3)
}

/// How many hits of a breakpoint this thread counts.
fn hits(kind: u32, address: u64, hit: impl Fn(u64)) -> Result<u64> {
    let mut attributes = raw::perf_event_attr {
        type_: raw::PERF_TYPE_BREAKPOINT,
        size: size_of::<raw::perf_event_attr>() as u32,
        bp_type: kind,
        ..Default::default()
    };
    attributes.__bindgen_anon_3.bp_addr = address;
    attributes.__bindgen_anon_4.bp_len = 8;
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    let mut event = perf_event::open(attributes, 0, -1).context("perf_event_open")?;
    (0..HITS).for_each(hit);
    let mut value = [0; 8];
    event
        .read_exact(&mut value)
        .context("reading the counter")?;
    Ok(u64::from_ne_bytes(value))
}

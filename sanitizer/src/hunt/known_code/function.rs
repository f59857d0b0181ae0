//! A function whose code was looked at.

use crate::{
    hunt::strategy::CodeView,
    insn::{
        Transfer,
        x86_64::{StaticSite, static_sites},
    },
    report::LookedAt,
};

use super::{site::AccessSite, variables::Variables};

/// The analyzed function that a call or jump leads to, which nobody has to look at again for where it leads.
fn analyzed(transfer: Transfer, code: &dyn CodeView) -> Option<u64> {
    match transfer {
        Transfer::To(target) => code.is_analyzed(target).then_some(target),
        Transfer::Through(_) => None,
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Function {
    /// In the order of addresses.
    sites: Vec<AccessSite>,
    /// Analyzed functions that it calls.
    calls: Vec<u64>,
    /// It calls others, or jumps there: that may turn out to be memory routines.
    leads_out: bool,
    /// Of those that it calls it was told.
    executes: bool,
}

impl Function {
    /// The function that begins there, with the sites that its code tells; those that name variables are told to these.
    pub(super) fn of(
        start: u64,
        bytes: &[u8],
        code: &dyn CodeView,
        variables: &mut Variables,
    ) -> Self {
        let mut function = Self::default();
        static_sites(bytes, start, &mut |site| match site {
            StaticSite::Access {
                pc,
                fixed_address,
                writes,
                own_frame,
                frame,
            } => {
                if code.is_atomic(pc) || fixed_address.is_some_and(|at| code.is_constant(at)) {
                    return;
                }
                if let Some(address) = fixed_address {
                    variables.add(address, pc, writes);
                }
                let writes = if writes { AccessSite::WRITES } else { 0 };
                let own = if own_frame { AccessSite::OWN_FRAME } else { 0 };
                function.add(start, pc, writes | own, frame);
            }
            StaticSite::Leaves {
                pc,
                transfer,
                frame,
                ..
            } => {
                if code.routine(transfer).is_some() {
                    function.add(start, pc, AccessSite::CALL, frame);
                } else if let Some(target) = analyzed(transfer, code) {
                    function.calls.push(target);
                } else {
                    function.leads_out = true;
                }
            }
        });
        function
    }

    fn add(&mut self, start: u64, pc: u64, flags: u16, frame: u32) {
        if let Ok(offset) = u32::try_from(pc.wrapping_sub(start)) {
            self.sites.push(AccessSite::new(offset, flags, frame));
        }
    }

    /// Whether some of its calls may turn out to be of memory routines.
    pub(super) const fn leads_out(&self) -> bool {
        self.leads_out
    }

    /// Takes in its calls that were not known to be of memory routines; how many.
    pub(super) fn look_at_calls(&mut self, start: u64, bytes: &[u8], code: &dyn CodeView) -> usize {
        let (mut more, mut leads_out) = (Vec::new(), false);
        static_sites(bytes, start, &mut |site| {
            let StaticSite::Leaves {
                pc,
                transfer,
                frame,
                ..
            } = site
            else {
                return;
            };
            if code.routine(transfer).is_none() {
                leads_out |= analyzed(transfer, code).is_none();
            } else if let Ok(offset) = u32::try_from(pc.wrapping_sub(start))
                && self.find(offset).is_none()
            {
                more.push(AccessSite::new(offset, AccessSite::CALL, frame));
            }
        });
        self.leads_out = leads_out;
        let count = more.len();
        self.sites.append(&mut more);
        self.sites.sort_by_key(|site| site.offset());
        count
    }

    /// Its sites, in the order of addresses.
    pub(super) fn sites(&self) -> &[AccessSite] {
        &self.sites
    }

    /// The index of the site that is so far from its start.
    pub(super) fn find(&self, offset: u32) -> Option<usize> {
        (self.sites)
            .binary_search_by_key(&offset, |site| site.offset())
            .ok()
    }

    /// It executes; what it calls may do so too, which is told once.
    pub(super) fn begin(&mut self) -> Vec<u64> {
        if std::mem::replace(&mut self.executes, true) {
            return Vec::new();
        }
        std::mem::take(&mut self.calls)
    }

    /// This is known of a site from now on; what was known before.
    pub(super) fn mark(&mut self, index: usize, flag: u16) -> Option<AccessSite> {
        let site = self.sites.get_mut(index)?;
        let before = *site;
        site.mark(flag);
        Some(before)
    }

    /// What of it was looked at; it begins at `start`.
    pub(super) fn looked_at(&self, start: u64) -> LookedAt {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let count = |flag| number(self.sites.iter().filter(|site| site.has(flag)).count());
        LookedAt {
            start,
            sites: number(self.sites.len()),
            sampled: count(AccessSite::STALLED),
            contended: count(AccessSite::SHARED),
        }
    }
}

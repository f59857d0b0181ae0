//! Whom of those who come to a site the gate claims: what it is told of the address that is accessed there.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{HELD_TRAPS, NO_REGISTER, NOBODY, UNMET_TRAPS};

use crate::hunt::learned::Quiet;
use crate::hunt::strategy::{CodeView as _, Outcome, Wait};
use crate::insn::x86_64::{AddressForm, address_form};
use crate::kernel::process::{monotonic_ns, nanos};

use super::Rig;

impl Rig {
    /// Tells the gate how to compute the address that is accessed at a site, and lets whoever is about to access what only it uses pass
    /// there; how, if it is that of an access, not of a routine's. `frame`: the bytes above the stack pointer that only it uses.
    pub fn tell_address(&self, wait: &Wait, frame: u64) -> Option<AddressForm> {
        let modules = &self.modules;
        let code = modules.code(wait.at);
        let routine = modules.routine_at(wait.at);
        let contract = routine.and_then(|entry| modules.routines().contract(entry));
        let (form, other) = if let Some(contract) = contract {
            let mut pointers = contract.pointers();
            let form = pointers.next().map(|register| AddressForm {
                base: Some(register),
                index: None,
                shift: 0,
                displacement: 0,
            });
            (form, pointers.next())
        } else {
            (address_form(code, wait.at), None)
        };
        let site = &self.gates.control().site;
        site.own.traps.store(0, SeqCst);
        site.own.frame.store(frame, SeqCst);
        let passes_own = form.is_some() && frame > 0;
        site.own.passes.store(u64::from(passes_own), SeqCst);
        let number = |register: Option<u8>| register.map_or(NO_REGISTER, u64::from);
        let form = form.unwrap_or(AddressForm {
            base: None,
            index: None,
            shift: 0,
            displacement: 0,
        });
        let operand = &site.operand;
        operand.other.store(number(other), SeqCst);
        operand.base.store(number(form.base), SeqCst);
        operand.index.store(number(form.index), SeqCst);
        operand.shift.store(form.shift.into(), SeqCst);
        operand.displacement.store(form.displacement, SeqCst);
        let has_registers = form.base.or(form.index).is_some();
        (contract.is_none() && has_registers).then_some(form)
    }

    /// Of those who come to a site the gate claims for a while only one that is about to access what another thread
    /// has accessed there a moment before: of many objects, those that are in use by several threads.
    pub fn wait_for_company(&self, wait: &Wait, has_form: bool, quiet: &Quiet) {
        /// How long, at most: most sites that are reached often have shown some such object by then.
        const TIME: Duration = Duration::from_millis(10);
        let control = self.gates.control();
        let until = if has_form && self.arming.len() > 1 && wait.meets {
            monotonic_ns().saturating_add(nanos(TIME.min(wait.time / 2)))
        } else {
            0
        };
        let known = quiet.all().zip(&control.site.company.met);
        for (address, [place, tid]) in known {
            place.store(address, SeqCst);
            tid.store(NOBODY, SeqCst);
        }
        let known = quiet.all().len() as u64;
        control.site.company.met_count.store(known, SeqCst);
        control.site.company.unmet.store(0, SeqCst);
        control.site.company.until_ns.store(until, SeqCst);
    }

    /// Nobody was claimed at the site that is waited at: mostly because of locks, or since they used what is their own, or for
    /// this reason.
    pub fn unless_let_pass(&self, outcome: Outcome) -> Outcome {
        let control = self.gates.control();
        let wanted = &control.site.wanted.size;
        let unmet = control.site.company.unmet.load(SeqCst);
        if wanted.load(SeqCst) != 0 && unmet >= UNMET_TRAPS {
            // Who came was not wanted.
            return Outcome::NotReached;
        }
        let held = control.site.locks.held.load(SeqCst);
        let own = control.site.own.traps.load(SeqCst);
        // Those beyond the ones that do not count as traps.
        let others = control.site.traps.load(SeqCst);
        let others = others.saturating_sub(held.saturating_sub(HELD_TRAPS));
        if own > held && 2 * own > others {
            Outcome::Unsuitable
        } else if held > others {
            Outcome::Held
        } else {
            outcome
        }
    }
}

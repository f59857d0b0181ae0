//! What is charged to the budget, and earned by it.

use super::*;
use crate::kernel::{gates::Gates, process::thread_cpu_time_ns};

/// A budget of a program, and its control block.
fn budget(control: &Control) -> Budget {
    let clock = WorkClock::of_share(1);
    Budget::new(control, 10_000_000, 0.01, 5_000, Advance::First, clock)
}

/// Check that the tracer's work is charged by how many of the processors the program uses, but in full while that is
/// unknown, or other processes are watched.
#[test]
fn work_is_charged_by_use() {
    let gates = Gates::in_user_space().unwrap();
    let control = gates.control();
    let mut budget = budget(control);
    budget.cpus = 4.0;
    assert_eq!(budget.work_share(), SEEN_AND_UNSEEN);
    for (cpus, of, share) in [
        (4.0, 4, SEEN_AND_UNSEEN),
        (2.0, 4, SEEN_AND_UNSEEN / 2.0),
        (2.0, 2, SEEN_AND_UNSEEN),
        (0.1, 4, 1.0),
        (9.0, 4, SEEN_AND_UNSEEN),
    ] {
        budget.program_uses(cpus, of, 0.0);
        assert!((budget.work_share() - share).abs() < 1e-9, "{cpus} of {of}");
    }
    budget.program_uses(0.1, 4, 0.0);
    for (company, share) in [(1.0, 1.0), (0.5, 0.5), (0.0, 1.0 / SEEN_AND_UNSEEN)] {
        budget.has_company(Some(company));
        let charged = budget.work_share();
        assert!(
            (charged - SEEN_AND_UNSEEN * share).abs() < 1e-9,
            "{company}"
        );
    }
    budget.program_uses(4.0, 4, 0.0);
    assert_eq!(budget.work_share(), SEEN_AND_UNSEEN);
    budget.has_company(None);
    budget.forget();
    assert_eq!(budget.work_share(), SEEN_AND_UNSEEN);
}

/// Check that what stands still, and who waits for it, is charged in full until others were seen to run meanwhile, and
/// again when another program is executed.
#[test]
fn stops_are_charged_by_loss() {
    const STOOD: u64 = 1_000_000;
    let gates = Gates::in_user_space().unwrap();
    let control = gates.control();
    let mut budget = budget(control);
    let spent = |budget: &mut Budget| {
        let before = control.budget.spent_ns.load(SeqCst);
        budget.charge_stop(control, STOOD);
        budget.charge_others(control, STOOD);
        control.budget.spent_ns.load(SeqCst) - before - nanos(UNSEEN_OF_STOP)
    };
    assert_eq!(spent(&mut budget), 2 * STOOD);
    budget.program_uses(1.0, 2, 3.0);
    for _ in 0..100 {
        budget.learn_loss(1e-3, 0.5e-3);
    }
    assert!((budget.loss_share() - 0.5).abs() < 1e-6);
    assert!(spent(&mut budget).abs_diff(STOOD) < 10);
    budget.program_uses(1.0, 2, 0.0);
    assert_eq!(spent(&mut budget), 2 * STOOD);
    budget.program_uses(1.0, 2, 3.0);
    budget.forget();
    assert_eq!(spent(&mut budget), 2 * STOOD);
}

/// Check that start-up is not charged, however often it is settled meanwhile, and that what comes before and after it is.
#[test]
fn start_up_is_free() {
    const WORK: u64 = 3_000_000;
    let gates = Gates::in_user_space().unwrap();
    let control = gates.control();
    let mut budget = budget(control);
    let work = || {
        let end = thread_cpu_time_ns() + WORK;
        while thread_cpu_time_ns() < end {}
    };
    let spent = || control.budget.spent_ns.load(SeqCst);
    work();
    budget.begin_start_up(control);
    let before = spent();
    assert!(before >= WORK);
    for _ in 0..3 {
        work();
        assert_eq!(budget.settle(control), 0);
        budget.charge_guard(control);
    }
    budget.end_start_up();
    assert_eq!(spent(), before);
    work();
    assert!(budget.settle(control) >= WORK);
    assert!(spent() >= before + WORK);
}

/// Check that upkeep takes a tenth of the budget, the more seldom the less the program does.
#[test]
fn upkeep_is_paid_for() {
    const WORKED: u64 = 1_000_000;
    let gates = Gates::in_user_space().unwrap();
    let mut budget = budget(gates.control());
    for cpus in [2.0, 1.0, 0.1, 0.0] {
        budget.program_uses(cpus, 2, 0.0);
        let charged = WORKED as f64 * 1e-9 * budget.work_share();
        let earned = 0.01 * cpus.max(0.01) * budget.rest_after(WORKED).as_secs_f64();
        assert!((charged / earned - UPKEEP_SHARE).abs() < 1e-6, "{cpus}");
    }
}

/// Check that no more is advanced than the first second earns, and not more than a program of an ample budget needs; or than it has saved.
#[test]
fn little_is_advanced() {
    let saved = |ms| Advance::Saved(Allowance::usual(Duration::from_millis(ms)));
    for (share, to, advance_us) in [
        (0.01, Advance::First, 10_000),
        (0.04, Advance::First, 40_000),
        (0.5, Advance::First, 40_000),
        (0.001, Advance::Child, 1_000),
        (0.01, Advance::Child, 2_000),
        (0.05, saved(27), 27_000),
        (0.05, saved(840), 40_000),
    ] {
        let gates = Gates::in_user_space().unwrap();
        let control = gates.control();
        let clock = WorkClock::of_share(1);
        let _ = Budget::new(control, 10_000_000, share, 5_000, to, clock);
        let earned = control.budget.earned_ns.load(SeqCst);
        assert_eq!(earned, advance_us * 1000, "{share}, {to:?}");
    }
}

/// Check that who begins with savings earns nothing until as much was earned once more, by samples or without them, and as any other from then on; so that at no time more was earned
/// than the share of what was used, or the savings.
#[test]
fn savings_are_earned_once() {
    const SAVED_MS: u64 = 20;
    const SHARE: f64 = 0.05;
    const PERIOD: u64 = 10_000_000;
    let gates = Gates::in_user_space().unwrap();
    let control = gates.control();
    let saved = Advance::Saved(Allowance::usual(Duration::from_millis(SAVED_MS)));
    let mut budget = Budget::new(control, PERIOD, SHARE, 5_000, saved, WorkClock::of_share(1));
    let mut used = 0;
    for step in 0..200 {
        // A sample, and as much in the kernel; then none for a while.
        used += 2 * PERIOD;
        if step % 40 < 30 {
            control.budget.sampled_ns.fetch_add(PERIOD, SeqCst);
            let earned = control.budget.earn_per_sample_ns.load(SeqCst);
            control.budget.earned_ns.fetch_add(earned, SeqCst);
        }
        if step == 5 {
            budget.set_period(control, PERIOD);
        }
        budget.earn(control, used);
        let earned = control.budget.earned_ns.load(SeqCst);
        let share = (used as f64 * SHARE) as u64;
        let wanted = share.max(SAVED_MS * 1_000_000);
        assert!(earned.abs_diff(wanted) < 1_000, "{step}: {earned}");
    }
}

/// Check that the processors' clocks cost a tenth of the budget at most, as far as they may be slowed down for it.
#[test]
fn ticks_are_paid_for() {
    const PERIOD: u64 = 10_000_000;
    const COST: u64 = 5_000;
    let times =
        |cpus, used, share| Budget::period_of_cpus_ns(PERIOD, cpus, used, share, COST) / PERIOD;
    assert_eq!(times(2, 2.0, 0.01), 1);
    assert_eq!(times(2, 0.5, 0.01), 2);
    assert_eq!(times(2, 0.3, 0.01), 4);
    assert_eq!(times(64, 1.0, 0.01), 32);
    assert_eq!(times(64, 0.0, 0.01), 128);
    for used in [0.3, 0.5, 1.0, 2.0] {
        let ticks_s = 2.0 * 1e9 / (times(2, used, 0.01) * PERIOD) as f64;
        assert!(ticks_s * COST as f64 <= used * 0.01 * SAMPLES_SHARE * 1e9 * 1.001);
    }
}

//! Points in code that was made for it, and in a real program that is single-stepped.

use nix::sys::{
    ptrace,
    wait::{WaitStatus, waitpid},
};
use proptest::prelude::*;

use super::super::stepping::{PROGRAM, STEPS, Tracee, code_at, containing, recorded};
use super::super::testing::{assemble, compile, functions};
use super::super::{StaticSite, accesses_before, static_sites};
use super::*;
use crate::insn::Regs;

const START: u64 = 0x40_0000;

/// The points of the access at an offset.
fn of(source: &str, access: u64) -> Points {
    Approaches::of(START, &assemble(source)).to(START + access)
}

/// Offset, whether it is certain, and the address for made-up registers, where what stands at an address is that and 0x100000.
fn brief(points: &Points) -> Vec<(u64, bool, u64)> {
    let regs = Regs {
        rdi: 0x1000,
        rsi: 0x20,
        rbx: 0x3000,
        rsp: 0x8000,
        rcx: 3,
        ..Regs::default()
    };
    let address = |point: &Point| point.recipe.address(&regs, |at| Some(at + 0x10_0000));
    let points = points.points.iter();
    points
        .map(|point| (point.pc - START, point.is_certain, address(point).unwrap()))
        .collect()
}

/// Check the ways to an access: straight ones, by jumps, and those on which nobody can be seen.
#[test]
fn ways_to_an_access() {
    // (source, offset of the access, points, whether these are all)
    for (source, access, points, are_all) in [
        (
            "push rbx\nmov eax, [rdi + 4]",
            1,
            vec![(0, true, 0x1004)],
            true,
        ),
        (
            "nop\nmov eax, [rdi]\nmov [rdi + 8], eax",
            3,
            vec![(0, true, 0x1008)],
            true,
        ),
        ("mov eax, [rdi]", 0, vec![], false),
        // By the jump and without it: both see the thread before it goes.
        (
            "test esi, esi\nje 1f\nmov eax, [rdi]\n1: ret",
            4,
            vec![(2, false, 0x1000)],
            true,
        ),
        (
            "test esi, esi\nje 1f\nret\n1: mov eax, [rdi]",
            5,
            vec![(2, false, 0x1000)],
            true,
        ),
        (
            "push rbx\njmp 1f\nret\n1: mov eax, [rdi]",
            4,
            vec![(1, true, 0x1000)],
            true,
        ),
        // A loop is come to from above, and from its end.
        (
            "push rbx\n1: mov eax, [rdi]\nadd rdi, 8\ncmp rdi, rsi\njne 1b\nret",
            1,
            vec![(10, false, 0x1000), (0, true, 0x1000)],
            true,
        ),
        // Behind a call, what jumps anywhere, and what enters the kernel.
        (".byte 0xe8, 0, 1, 0, 0\nmov eax, [rdi]", 5, vec![], false),
        (
            "push rbx\nmov eax, [rdi]\njmp rax",
            1,
            vec![(0, true, 0x1000)],
            false,
        ),
        ("push rbx\nsyscall\nmov eax, [rdi]", 3, vec![], false),
        // Not the instruction itself.
        ("push qword ptr [rdi]", 0, vec![], false),
        // The long nop is no point, and what is before it is one.
        (
            "push rbx\n.byte 0x0f, 0x1f, 0x44, 0, 0\nmov eax, [rdi]",
            6,
            vec![(0, true, 0x1000)],
            true,
        ),
        // Nobody comes from above, nor from elsewhere: no way at all.
        ("ret\nmov eax, [rdi]", 1, vec![], true),
    ] {
        let found = of(source, access);
        assert_eq!(brief(&found), points, "{source}");
        assert_eq!(found.are_all, are_all, "{source}");
    }
    assert_eq!(of("nop\nmov eax, [rdi]", 2), Points::default());
}

/// Check which changes of registers a recipe follows, and that it tells nothing where there are others.
#[test]
fn what_recipes_follow() {
    let address = |source: &str| {
        let source = format!("nop\n{source}");
        let code = assemble(&source);
        let approaches = Approaches::of(START, &code);
        let last = approaches.instructions.last().unwrap().ip();
        let found = approaches.to(last);
        brief(&found).first().map(|(_, _, address)| *address)
    };
    for (source, expected) in [
        ("mov eax, [rdi + 8*rcx + 16]", 0x1028),
        ("mov rax, rdi\nmov eax, [rax + 1]", 0x1001),
        ("add rdi, 0x10\nsub rdi, 8\nmov eax, [rdi]", 0x1008),
        ("lea rax, [rdi + 4*rsi]\nmov eax, [rax + 8]", 0x1088),
        ("lea rax, [rip]\nmov eax, [rax + 1]", START + 9),
        ("mov eax, [rip + 0x10]", START + 0x17),
        ("lea rax, [rdi + rcx]\nmov eax, [rax + 2]", 0x1005),
        ("add rdi, rcx\nmov eax, [rdi]", 0x1003),
        // Memory, once, twice and three times; with the index at each place.
        ("mov rax, [rdi + 8]\nmov eax, [rax + 4]", 0x10_100c),
        ("mov rax, [rdi + 8]\nmov eax, [rax + 4*rcx]", 0x10_1014),
        ("mov rax, [rdi + 8*rcx]\nmov eax, [rax + 1]", 0x10_1019),
        ("mov rax, [rdi]\nmov eax, [rcx + rax]", 0x10_1003),
        (
            "mov rax, [rdi]\nmov rax, [rax + 8]\nmov eax, [rax]",
            0x20_1008,
        ),
        (
            "mov rax, [rdi]\nmov rax, [rax]\nmov rax, [rax + 8]\nmov eax, [rax]",
            0x30_1008,
        ),
        (
            "mov rax, [rip + 0x100]\nmov eax, [rax]",
            0x10_0000 + START + 0x108,
        ),
        // The stack pointer is followed, and what was put there is not read.
        ("sub rsp, 0x18\nmov eax, [rsp + 4]", 0x7fec),
        ("pop rax\nmov eax, [rsp]", 0x8008),
        // Stores that reach other bytes of what a register points to, or the stack.
        (
            "mov [rdi + 8], rcx\nmov rax, [rdi]\nmov eax, [rax]",
            0x10_1000,
        ),
        (
            "mov [rsp + 8], rcx\nmov rax, [rdi]\nmov eax, [rax]",
            0x10_1000,
        ),
        ("mov [rdi + 8], rcx\nmov eax, [rdi + 8]", 0x1008),
    ] {
        assert_eq!(address(source), Some(expected), "{source}");
    }
    for source in [
        "mov edi, edi\nmov eax, [rdi]",
        "mov dil, 1\nmov eax, [rdi]",
        "cmovne rdi, rcx\nmov eax, [rdi]",
        "xor edi, edi\nmov eax, [rdi]",
        "imul rdi, rcx\nmov eax, [rdi]",
        "xchg rdi, rbx\nmov eax, [rdi]",
        "mov edi, [rdi]\nmov eax, [rdi]",
        "movsxd rcx, ecx\nmov eax, [rdi + rcx]",
        "lea edi, [rdi + 8]\nmov eax, [rdi]",
        "lea rax, [edi]\nmov eax, [rax]",
        "pop rsp\nmov eax, [rsp]",
        "rdtsc\nmov eax, [rax]",
        // Two indices, a fourth reading, other segments.
        "lea rax, [rdi + rcx]\nmov eax, [rax + rbx]",
        "mov rax, [rdi]\nmov rax, [rax]\nmov rax, [rax]\nmov rax, [rax]\nmov eax, [rax]",
        "mov rax, fs:[0]\nmov eax, [rax]",
        "mov eax, fs:[rdi]",
        // What was written on the way may be what is read.
        "mov [rdi], rcx\nmov rax, [rdi]\nmov eax, [rax]",
        "mov [rdi + 4], ecx\nmov rax, [rdi]\nmov eax, [rax]",
        "mov [rbx], rcx\nmov rax, [rdi]\nmov eax, [rax]",
        "rep stosb\nmov rax, [rbx]\nmov eax, [rax]",
        "sub rsp, 8\nmov [rsp], rdi\nmov rax, [rsp]\nmov eax, [rax]",
        // Two accesses, and none.
        "movsb",
        "mov eax, ebx",
    ] {
        assert_eq!(address(source), None, "{source}");
    }
}

/// Check that accesses with very many ways to them have some points, and are not said to have all.
#[test]
fn points_are_bounded() {
    let jumps = "test eax, eax\nje 1f\n".repeat(20);
    let found = of(&format!("{jumps}ret\n1: mov eax, [rdi]"), 81);
    assert_eq!(found.points.len(), MOST_POINTS);
    assert!(!found.are_all);
    let far = format!(
        "push rbx\n{}mov eax, [rdi]",
        "test eax, eax\n".repeat(MOST_STEPS + 2)
    );
    let found = of(&far, 1 + 2 * (MOST_STEPS as u64 + 2));
    assert_eq!(found, Points::default());
}

/// What a point has promised.
struct Promise {
    made: u32,
    site: u64,
    point: Point,
    address: Option<u64>,
}

/// Check on a real program that whoever is at a point makes the access that it promises so many instructions later, at the address that the recipe
/// tells; at a conditional jump, if he goes that way.
#[test]
fn points_keep_their_promises() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let flags = ["-O2", "-static", "-fno-pie", "-no-pie", "-w"];
    let program = compile("clang-22", &flags, PROGRAM, dir.path());
    let functions = functions(&program);
    let mut points: HashMap<u64, Vec<(u64, Point)>> = HashMap::new();
    for function in &functions {
        let approaches = Approaches::of(function.start, &function.code);
        static_sites(&function.code, function.start, &mut |site| {
            if let StaticSite::Access { pc, .. } = site {
                for point in approaches.to(pc).points {
                    points.entry(point.pc).or_default().push((pc, point));
                }
            }
        });
    }
    let tracee = Tracee::start(&program);
    let pid = tracee.pid();
    let mut promises: Vec<Promise> = Vec::new();
    let (mut certain, mut likely, mut not_kept, mut read) = (0, 0, 0, 0);
    let mut regs = recorded(pid);
    let mut moves = 0;
    for _ in 0..STEPS {
        promises.retain(|promise| {
            let place = || {
                format!(
                    "{:#x} at {:#x}: {:?}",
                    promise.site, regs.rip, promise.point
                )
            };
            if promise.made + 1 == moves && regs.rip != promise.point.next {
                assert!(!promise.point.is_certain, "{}", place());
                not_kept += 1;
                return false;
            }
            if promise.made + promise.point.steps != moves {
                return true;
            }
            assert_eq!(regs.rip, promise.site, "{}", place());
            let function = containing(&functions, regs.rip).expect("it is known");
            let accesses =
                accesses_before(code_at(function, regs.rip), &regs).expect("it is known");
            let made = accesses.iter().find(|access| !access.stack_implicit);
            let made = made.map(|access| access.address);
            assert_eq!(promise.address, made, "{}", place());
            read += u32::from(promise.point.recipe.dereferences > 0);
            *(if promise.point.is_certain {
                &mut certain
            } else {
                &mut likely
            }) += 1;
            false
        });
        let here = points.get(&regs.rip).into_iter().flatten();
        promises.extend(here.map(|&(site, point)| Promise {
            made: moves,
            site,
            point,
            address: point.recipe.address(&regs, |at| tracee.word(at)),
        }));
        let before = regs.rip;
        ptrace::step(pid, None).expect("a stopped tracee can be stepped");
        match waitpid(pid, None).expect("a step ends") {
            WaitStatus::Stopped(..) => {}
            _ => break,
        }
        regs = recorded(pid);
        // A repeated string instruction is stepped once for each element.
        moves += u32::from(regs.rip != before);
    }
    println!("{certain} certain, {likely} likely, {not_kept} not kept, {read} by memory");
    assert!(certain > 100 && likely > 1_000 && not_kept > 100 && read > 100);
}

proptest! {
    /// Check that no bytes make it panic, and that points stand in the code and are what the kernel emulates.
    #[test]
    fn hostile_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let approaches = Approaches::of(START, &bytes);
        for at in START..START + bytes.len() as u64 {
            for point in approaches.to(at).points {
                let offset = usize::try_from(point.pc - START).unwrap();
                prop_assert!(may_be_probed(&bytes[offset..]));
            }
        }
    }
}

//! Each rule on the shortest code that shows it, then what real compilers make of sources that use a part of
//! what is loaded.

use std::path::Path;

use super::super::testing::{assemble, compile, functions};
use super::byte_use;
use crate::insn::ByteUse;

const START: u64 = 0x40_0000;

fn no_constants(_: u64, _: usize) -> Option<Vec<u8>> {
    None
}

/// What becomes of what the first instruction of a function loads.
fn first(source: &str) -> ByteUse {
    byte_use(START, &assemble(source), START, &no_constants, false)
}

/// What becomes of what the first instruction that has rdi in an address loads.
fn load(source: &str, read_only: &super::ReadOnly<'_>, may_land: bool) -> ByteUse {
    let code = assemble(source);
    let function = super::Function {
        start: START,
        code: &code,
    };
    let load = function
        .instructions()
        .find(|i| i.memory_base() == iced_x86::Register::RDI)
        .expect("there is a load");
    byte_use(START, &code, load.ip(), read_only, may_land)
}

/// Check which bytes are used, of what goes through general registers.
#[test]
fn general_registers() {
    for (source, used) in [
        // Widened, and cut again.
        (
            "mov eax, [rdi]\nlea eax, [rax + 2*rax]\nmov [rsi], ax\nxor eax, eax\nret",
            0b11,
        ),
        (
            "mov eax, [rdi]\nadd eax, 5\nmov [rsi], al\nxor eax, eax\nret",
            0b1,
        ),
        ("mov ecx, [rdi]\nimul ecx, edx\nmov [rsi], cl\nret", 0b1),
        ("mov ecx, [rdi]\nmovzx ecx, cx\nadd [rsi], ecx\nret", 0b11),
        ("mov ecx, [rdi]\nmovsx ecx, cl\nadd [rsi], ecx\nret", 0b1),
        ("mov ecx, [rdi]\nand ecx, 0xff00\nadd [rsi], ecx\nret", 0b10),
        ("mov ecx, [rdi]\nshr ecx, 16\nadd [rsi], ecx\nret", 0b1100),
        ("mov ecx, [rdi]\nshl ecx, 16\nadd [rsi], ecx\nret", 0b11),
        ("mov ecx, [rdi]\nshl ecx, 12\nadd [rsi], ecx\nret", 0b111),
        (
            "mov rcx, [rdi]\nrol rcx, 16\nadd [rsi], cx\nret",
            0b1100_0000,
        ),
        ("mov ecx, [rdi]\nbswap ecx\nadd [rsi], cl\nret", 0b1000),
        ("mov ecx, [rdi]\nadd [rsi], ch\nret", 0b10),
        (
            "mov ecx, [rdi]\ntest ecx, 0x10000\nje 1f\nmov [rsi], edx\n1: ret",
            0b100,
        ),
        ("mov ecx, [rdi]\ntest cx, cx\nsete [rsi]\nret", 0b11),
        ("mov ecx, [rdi]\nbt ecx, 9\nsetb [rsi]\nret", 0b10),
        (
            "mov ecx, [rdi]\ncmp cl, dl\ncmove edx, ecx\nmov [rsi], dx\nret",
            0b11,
        ),
        // An address, and the flags of arithmetic, need all of it.
        ("mov ecx, [rdi]\nmov [rsi + rcx], dl\nret", 0b1111),
        ("mov ecx, [rdi]\nadd ecx, 5\nsetb [rsi]\nret", 0b1111),
        // Overwritten.
        ("mov ecx, [rdi]\nmov cl, dl\nadd [rsi], ecx\nret", 0b1110),
        // On either way, around a loop, through the frame, past a call.
        (
            "mov ecx, [rdi]\ntest edx, edx\nje 1f\nadd [rsi], cl\n1: add [rsi], ch\nret",
            0b11,
        ),
        ("xor ecx, ecx\nret", u64::MAX),
        (
            "mov ecx, [rdi]\nmov [rsp - 8], ecx\nmov edx, [rsp - 8]\nadd [rsi], dx\nret",
            0b11,
        ),
        ("mov ebx, [rdi]\ncall rbp\nadd [rsi], bl\nret", 0b1),
    ] {
        let found = first(source);
        assert_eq!(found.used, used, "{source}: {found:x?}");
    }
    let around = "1: mov ecx, [rdi]\nadd ebx, ecx\ndec edx\njne 1b\nadd [rsi], bx\nret";
    assert_eq!(first(around).used, 0b11);
}

/// Check which bytes are used, of what goes through vector registers.
#[test]
fn vector_registers() {
    for (source, used) in [
        (
            "movups xmm0, [rdi]\nshufps xmm0, xmm1, 0x88\nmovups [rsi], xmm0\nret",
            0x0f0f,
        ),
        (
            "movups xmm0, [rdi]\npshufd xmm0, xmm0, 0\nmovups [rsi], xmm0\nret",
            0x000f,
        ),
        (
            "movups xmm0, [rdi]\nunpckhps xmm0, xmm0\nmovups [rsi], xmm0\nret",
            0xff00,
        ),
        (
            "movups xmm0, [rdi]\npaddd xmm0, xmm1\npshufd xmm0, xmm0, 0xe8\nmovq [rsi], xmm0\nret",
            0x0f0f,
        ),
        (
            "movups xmm0, [rdi]\nmovd eax, xmm0\nadd [rsi], eax\nret",
            0x000f,
        ),
        (
            "movups xmm0, [rdi]\npslld xmm0, 16\npsrad xmm0, 16\npaddd xmm0, xmm1\nmovups [rsi], xmm0\nret",
            0x3333,
        ),
        (
            "movups xmm0, [rdi]\npcmpeqd xmm2, xmm2\npsrlw xmm2, 8\npand xmm0, xmm2\nmovups [rsi], xmm0\nret",
            0x5555,
        ),
        (
            "movups xmm0, [rdi]\npsrldq xmm0, 12\nmovd [rsi], xmm0\nret",
            0xf000,
        ),
        (
            "movups xmm0, [rdi]\nminps xmm0, xmm1\nmovss [rsi], xmm0\nret",
            0x000f,
        ),
        (
            "vmovdqu ymm0, [rdi]\nvpmovqd xmm0, ymm0\nvmovdqu [rsi], xmm0\nret",
            0x0f0f_0f0f,
        ),
        (
            "vmovdqu ymm0, [rdi]\nvextracti128 xmm0, ymm0, 1\nvpmovzxbd xmm0, xmm0\nvmovdqu [rsi], xmm0\nret",
            0x000f_0000,
        ),
        (
            "vmovdqu ymm0, [rdi]\nvpermq ymm0, ymm0, 0xe8\nvmovdqu [rsi], xmm0\nret",
            0x00ff_00ff,
        ),
        (
            "vmovups ymm0, [rdi]\nvblendps ymm0, ymm1, ymm0, 0x81\nvmovups [rsi], ymm0\nret",
            0xf000_000f,
        ),
        ("vpbroadcastw xmm0, [rdi]\nvmovups [rsi], xmm0\nret", 0b11),
    ] {
        let found = first(source);
        let touched = found.used | found.copied;
        assert_eq!(touched, used, "{source}: {found:x?}");
    }
}

/// Check what is only copied, passed or returned.
#[test]
fn handed_on() {
    let copied = first("mov rcx, [rdi]\nmov [rsi], rcx\nret");
    assert_eq!((copied.used, copied.copied), (0, 0xff));
    let copied = first("movups xmm0, [rdi]\nmovups [rsi], xmm0\nret");
    assert_eq!((copied.used, copied.copied), (0, 0xffff));
    let part = first("mov rcx, [rdi]\nmov [rsi], ecx\nret");
    assert_eq!((part.used, part.copied), (0, 0xf));
    let passed = first("mov edi, [rdi]\ncall rbp\nret");
    assert_eq!((passed.used, passed.passed), (0b1, 0b1110));
    let returned = first("mov eax, [rdi]\nadd eax, 5\nret");
    assert_eq!((returned.used, returned.passed), (0, 0));
    assert!(returned.only_returned);
    assert_eq!(returned.handed_back(0b11), 0b11);
    assert_eq!(returned.touched(), 0b1111);
    // What was read already is no certain result.
    let read = first("mov eax, [rdi]\nadd [rsi], ax\nret");
    assert_eq!((read.used, read.handed_back(0xff)), (0b11, 0b1100));
    assert!(read.handed_back(0) == 0 && !read.only_returned);
    let vector = first("movups xmm0, [rdi]\nmovd [rsi], xmm0\nret");
    assert_eq!((vector.copied, vector.returned_in_vectors), (0xf, 0xfff0));
    let elsewhere = first("mov ebx, [rdi]\n.byte 0xe9, 0, 0, 1, 0\nret");
    assert_eq!(elsewhere.passed, 0b1111);
}

/// Check that what reaches the unknown is unclear: instructions that are not understood, patterns that are not known, masks.
#[test]
fn unclear() {
    for (source, unclear) in [
        ("mov ecx, [rdi]\ncpuid\nret", 0xf),
        // Its use does not show.
        ("mov ecx, [rdi]\nxor ecx, ecx\nadd [rsi], ecx\nret", 0xf),
        (
            "movups xmm0, [rdi]\npshufb xmm0, xmm1\nmovups [rsi], xmm0\nret",
            0xffff,
        ),
        ("movups xmm0, [rdi]\naesenc xmm1, xmm0\nret", 0xffff),
        (
            "vmovdqu32 ymm0{k1}{z}, [rdi]\nvmovdqu [rsi], ymm0\nret",
            u64::MAX,
        ),
        (
            "vmovdqu8 zmm0{k1}, [rdi]\nvmovdqu8 [rsi], zmm0\nret",
            u64::MAX,
        ),
        (
            "vpmaskmovd ymm0, ymm1, [rdi]\nvmovdqu [rsi], ymm0\nret",
            u64::MAX,
        ),
        (
            "vmovdqu ymm0, [rdi]\nvmovdqu32 ymm0{k1}, ymm1\nvmovdqu [rsi], ymm0\nret",
            0xffff_ffff,
        ),
    ] {
        let found = first(source);
        assert_eq!(
            (found.used, found.unclear),
            (0, unclear),
            "{source}: {found:x?}"
        );
    }
}

/// Check that what an earlier part of the code may have left for a call or return is not called unused.
#[test]
fn left_in_place() {
    let stale = "mov eax, [rdi]\ntest esi, esi\nje 1f\nmov [rdx], esi\n1: ret";
    let found = first(stale);
    assert_eq!((found.used, found.handed_back(0xff)), (0, 0xf));
    let argument =
        "mov edi, [rdi]\ntest esi, esi\nje 1f\ncall rbp\n1: xor edi, edi\nxor eax, eax\nret";
    assert_eq!(first(argument).passed, 0xf);
    let on_stack = "mov eax, [rdi]\nsub rsp, 24\nmov [rsp], eax\ncall rbp\nadd rsp, 24\nret";
    assert_eq!(first(on_stack).passed, 0xf);
}

/// Check that rbp stands for the frame only where the function sets it up so, and is an ordinary pointer elsewhere.
#[test]
fn frame_pointers() {
    let pointer =
        "mov rax, [r13]\ncmp eax, 7\nje 1f\nmov [rbp + 0], rax\n1: xor eax, eax\ncall r14\nret";
    let found = first(pointer);
    assert_eq!((found.used, found.copied), (0xf, 0xf0), "{found:x?}");
    for (source, used) in [
        // Set up, it stands for the frame, whichever way a place is named.
        (
            "push rbp\nmov rbp, rsp\nmov ecx, [rdi]\nmov [rbp - 8], ecx\nmov edx, [rbp - 8]\nadd [rsi], dx\npop rbp\nret",
            0b11,
        ),
        (
            "push rbp\nmov rbp, rsp\nmov ecx, [rdi]\nmov [rbp - 8], ecx\nmov edx, [rsp - 8]\nadd [rsi], dx\npop rbp\nret",
            0b1111,
        ),
        // Otherwise it may point to what the frame has, too.
        (
            "push rbp\nlea rbp, [rsp - 16]\nmov ecx, [rdi]\nadd ecx, ecx\nmov [rsp - 8], ecx\nmov rbp, rdx\npop rbp\nret",
            0b1111,
        ),
        (
            "mov ecx, [rdi]\nadd ecx, ecx\nmov [rsp - 8], ecx\nmov al, [rbp - 8]\nmov [rsi], al\nret",
            0b1111,
        ),
    ] {
        let found = load(source, &no_constants, false);
        assert_eq!(found.used, used, "{source}: {found:x?}");
    }
    // The frame goes on behind the arguments of a call.
    let spilled = "push rdx\nmov ecx, [rdi]\nmov [rsp + 24], ecx\nadd rsp, 8\nmov eax, [rsp + 16]\nadd [rsi], eax\nret";
    assert_eq!(load(spilled, &no_constants, false).touched(), 0b1111);
}

/// Check that what an index chooses in the frame may be all that is there.
#[test]
fn indexed_frame() {
    let read = "mov rax, [rdi]\nmov [rsp - 8], rax\ntest al, al\nje 1f\nand esi, 7\nmovzx eax, byte ptr [rsp + rsi - 8]\n1: ret";
    let found = first(read);
    assert_eq!((found.used, found.handed_back(0b1)), (0b1, 0xfe));
    let added = "mov rax, [rdi]\nmov [rsp - 8], rax\nadd dl, [rsp + rsi - 8]\nmov [rcx], dl\nxor eax, eax\nret";
    assert_eq!(first(added).used, 0xff);
    let unknown = "mov rcx, [rdi]\nmov [rsp - 8], rcx\nfld dword ptr [rsp + rsi - 8]\nret";
    assert_eq!(first(unknown).unclear, 0xff);
    // A store there leaves all else in place.
    let stored = "mov rcx, [rdi]\nmov [rsp - 8], rcx\nmov byte ptr [rsp + rsi - 8], 0\nmov rdx, [rsp - 8]\nadd [r8], rdx\nret";
    assert_eq!(first(stored).used, 0xff);
    let stored = "mov rcx, [rdi]\nmov [rsp + rsi - 8], rcx\nmov rdx, [rsp - 8]\nret";
    assert_eq!(first(stored).copied, 0xff);
}

/// Check that a vector constant counts only where it is there on every way, with nothing since that changes it.
#[test]
fn constants_on_every_way() {
    // Ones in the low byte of each 16 bits.
    let mask = |_: u64, len: usize| Some([0xff, 0].into_iter().cycle().take(len).collect());
    let all = 0xffff;
    let made = "pcmpeqd xmm2, xmm2\npsrlw xmm2, 8\n";
    let used = "movups xmm0, [rdi]\npand xmm0, xmm2\nmovups [rsi], xmm0\nret";
    for (before, expected) in [
        (made.to_owned(), 0x5555),
        (
            format!("{made}movaps xmm3, xmm2\npxor xmm2, xmm2\nmovaps xmm2, xmm3\n"),
            0x5555,
        ),
        ("movaps xmm2, [rip]\n".to_owned(), 0x5555),
        (format!("{made}1: dec edx\njne 1b\n"), 0x5555),
        (format!("{made}call rbp\n"), all),
        (format!("{made}vzeroupper\n"), all),
        // Only on one of two ways.
        (format!("test edx, edx\nje 1f\n{made}1: "), all),
        (
            format!("movaps xmm2, xmm1\ntest edx, edx\nje 1f\n{made}1: "),
            all,
        ),
        (
            format!("test edx, edx\nje 1f\n{made}jmp 2f\n1: movaps xmm2, xmm1\n2: "),
            all,
        ),
        // Perhaps from a table of jumps.
        (format!("jmp rdx\n{made}"), all),
        // A part of a register.
        ("movaps xmm3, [rip]\nmovsd xmm2, xmm3\n".to_owned(), all),
        ("movaps xmm3, [rip]\nmovss xmm2, xmm3\n".to_owned(), all),
        ("movaps xmm3, [rip]\nmovq xmm2, xmm3\n".to_owned(), all),
    ] {
        let found = load(&format!("{before}{used}"), &mask, false);
        assert_eq!(found.touched(), expected, "{before}: {found:x?}");
    }
    // What a loop brings.
    let around = format!(
        "{made}1: movups xmm0, [rdi]\npand xmm0, xmm2\nmovups [rsi], xmm0\nmovaps xmm2, xmm1\ndec edx\njne 1b\nret"
    );
    assert_eq!(load(&around, &mask, false).touched(), all);
}

/// Check that what exceptions may find is unclear, where the function has a place for them to lead to.
#[test]
fn exceptions() {
    let lands = "mov rbx, [rdi]\nmovzx edi, bl\ncall rbp\npop rbx\nret\nshr rbx, 32\nmov edi, ebx\ncall rbp\nud2";
    let found = load(lands, &no_constants, true);
    assert_eq!((found.used, found.unclear), (0b1, 0xfe), "{found:x?}");
    assert_eq!(load(lands, &no_constants, false).touched(), 0b1);
    let spilled = "mov rcx, [rdi]\nmov [rsp - 8], rcx\ncall rbp\nret";
    assert_eq!(load(spilled, &no_constants, true).unclear, 0xff);
}

/// Check that an indirect jump takes everything along, and may lead behind a call; that a breakpoint goes on.
#[test]
fn beyond_jumps() {
    assert_eq!(first("mov rbx, [rdi]\njmp rcx").passed, 0xff);
    let saved = first("mov rcx, [rdi]\nmov [rsp - 8], rcx\nxor ecx, ecx\njmp rdx");
    assert_eq!(saved.passed, 0xff);
    let behind = first("mov esi, [rdi]\njmp rcx\ncall rdx\nadd [rbx], sil\nret");
    assert_eq!((behind.used, behind.passed), (0b1, 0b1110));
    assert_eq!(first("mov ecx, [rdi]\nint3\nadd [rsi], cx\nret").used, 0b11);
    let ends = first("mov ecx, [rdi]\nadd [rsi], cl\nud2\nadd [rsi], ecx\nret");
    assert_eq!(ends.touched(), 0b1);
}

/// Check that flags depend on what a mask leaves only.
#[test]
fn flags_of_masks() {
    for (source, used) in [
        (
            "xor esi, [rdi]\nand esi, 0x3ff\nmov [rdx], esi\nje 1f\nnop\n1: ret",
            0b11,
        ),
        ("mov ecx, [rdi]\nand ecx, 0xff00\nsete [rsi]\nret", 0b10),
        ("mov ecx, [rdi]\nor ecx, edx\nsete [rsi]\nret", 0b1111),
        (
            "mov ecx, [rdi]\nandn edx, ecx, eax\nsete [rsi]\nret",
            0b1111,
        ),
        ("mov ecx, [rdi]\ntest ecx, 0x3ff\nsete [rsi]\nret", 0b11),
    ] {
        let found = first(source);
        assert_eq!(found.used, used, "{source}: {found:x?}");
    }
}

/// Check that zeros around what is copied, as widening makes them, do not make it a use.
#[test]
fn widened_copies() {
    let widened = first("mov ecx, [rdi]\nmovzx ecx, cx\nmov [rsi], rcx\nret");
    assert_eq!((widened.used, widened.copied), (0, 0b11));
    let turned = first("mov ecx, [rdi]\nbswap ecx\nmov [rsi], rcx\nret");
    assert_eq!((turned.used, turned.copied), (0b1111, 0));
}

/// Check that nothing is claimed where the code cannot be followed.
#[test]
fn not_code() {
    assert_eq!(
        byte_use(START, &[], START, &no_constants, false),
        ByteUse::UNKNOWN
    );
    assert_eq!(first("add [rdi], eax\nret"), ByteUse::UNKNOWN);
    assert_eq!(first("rep movsb\nret"), ByteUse::UNKNOWN);
    let cut = first("mov eax, [rdi]");
    assert_eq!(cut.touched(), 0b1111);
}

/// Sources that use the first member of each slot, `KEY` bytes of `SLOT`; the others are nobody's here.
const SLOTS: &str = r"
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32; typedef unsigned long u64;
struct slot { TYPE key; TYPE rest[COUNT - 1]; };
void copy(const struct slot *restrict from, TYPE *restrict to, int n) { for (int i = 0; i < n; i++) to[i] = from[i].key; }
TYPE sum(const struct slot *from, int n) { TYPE r = 0; for (int i = 0; i < n; i++) r += from[i].key; return r; }
u64 wide(const struct slot *from, int n) { u64 r = 0; for (int i = 0; i < n; i++) r += from[i].key; return r; }
TYPE most(const struct slot *from, int n) { TYPE r = 0; for (int i = 0; i < n; i++) if (from[i].key > r) r = from[i].key; return r; }
void scale(const struct slot *restrict from, TYPE *restrict to, int n) { for (int i = 0; i < n; i++) to[i] = (TYPE)(from[i].key * 3); }
TYPE one(const struct slot *from) { return from->key + 5; }
void tag(const struct slot *from, TYPE *to) { *to = (TYPE)(from->key * 3); }
void test(const struct slot *from, TYPE *to) { if (from->key == 7) *to = 1; }
";

/// Read-only data of an object file that was linked to fixed addresses.
fn constants(program: &Path) -> impl Fn(u64, usize) -> Option<Vec<u8>> {
    use object::{Object as _, ObjectSection as _};
    let bytes = std::fs::read(program).expect("the file is there");
    let file = object::File::parse(&*bytes).expect("the file parses");
    let sections: Vec<(u64, Vec<u8>)> = file
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".rodata")))
        .map(|section| {
            let data = section.data().expect("it has bytes");
            (section.address(), data.to_vec())
        })
        .collect();
    move |address, len| {
        sections.iter().find_map(|(start, data)| {
            let first = usize::try_from(address.checked_sub(*start)?).ok()?;
            data.get(first..first.checked_add(len)?).map(<[u8]>::to_vec)
        })
    }
}

/// How often loads reach beyond the members that a source asks for, and which are not seen through: those in which
/// something of another member seems to be used.
fn examine(compiler: &str, flags: &[&str], ty: &str, key: u64, count: u64) -> (usize, Vec<String>) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let (ty_flag, count_flag) = (format!("-DTYPE={ty}"), format!("-DCOUNT={count}"));
    let mut all = vec!["-shared", "-fPIC", "-w", &ty_flag, &count_flag];
    all.extend_from_slice(flags);
    let program = compile(compiler, &all, SLOTS, dir.path());
    let read_only = constants(&program);
    let slot = key * count;
    let (mut beyond, mut missed) = (0, Vec::new());
    for function in functions(&program) {
        let known = ["copy", "sum", "wide", "most", "scale", "one", "tag", "test"];
        if !known.contains(&function.name.as_str()) {
            continue;
        }
        let view = super::Function {
            start: function.start,
            code: &function.code,
        };
        for load in view.instructions() {
            let size = load.memory_size().size() as u64;
            let uses = byte_use(function.start, &function.code, load.ip(), &read_only, false);
            // Constants have fixed addresses.
            if uses == ByteUse::UNKNOWN || load.is_ip_rel_memory_operand() || size <= key {
                continue;
            }
            beyond += 1;
            // Where in a slot the load begins is not told: at some member, the same in each slot.
            let result = u16::MAX >> (16 - key);
            // What nobody has cleared from vector registers is no result of these functions.
            let touched = uses.used | uses.copied | uses.unclear | uses.handed_back(result);
            let fits = (0..count).any(|member| {
                (0..size).all(|byte| {
                    let within = (byte + slot - member * key % slot) % slot;
                    touched >> byte & 1 == 0 || within < key
                })
            });
            if !fits {
                missed.push(format!(
                    "{compiler} {flags:?} {ty} of {count}: {}+{:#x} {:?}: {touched:#x}",
                    function.name,
                    load.ip() - function.start,
                    load.mnemonic(),
                ));
            }
        }
    }
    (beyond, missed)
}

/// Check that nothing seems to be used but the members that the source asks for, in what compilers make of loops
/// over slots.
#[test]
fn members_of_slots() {
    // Vectors of 512 bits, which compilers use where they are told to.
    const WIDEST: [&str; 3] = ["-O3", "-march=x86-64-v4", "-mprefer-vector-width=512"];
    let (mut beyond, mut missed) = (0, Vec::new());
    for (ty, key) in [("u8", 1), ("short", 2), ("u16", 2), ("u32", 4)] {
        for count in [2, 3, 4] {
            for (compiler, flags) in [
                ("clang-22", &["-O1"][..]),
                ("clang-22", &["-O2"]),
                ("clang-22", &["-O3", "-mavx2"]),
                ("clang-22", &["-O3", "-march=x86-64-v4"]),
                ("clang-22", &WIDEST),
                ("clang-16", &WIDEST),
                ("clang-16", &["-O2"]),
                ("clang-16", &["-O3", "-mavx2"]),
            ] {
                if flags == WIDEST && key != 4 {
                    continue;
                }
                let (found, not_seen) = examine(compiler, flags, ty, key, count);
                beyond += found;
                missed.extend(not_seen);
            }
        }
    }
    println!("{beyond} loads beyond, {} not seen through", missed.len());
    assert!(beyond > 100, "{beyond}");
    // AVX-512 blends bytes by mask registers, which are not followed: their bytes count as used.
    let (masked, others): (Vec<String>, _) =
        missed.into_iter().partition(|load| load.contains("v4"));
    assert!(masked.len() < beyond / 20, "{}", masked.join("\n"));
    assert!(others.len() < 3, "{}", others.join("\n"));
}

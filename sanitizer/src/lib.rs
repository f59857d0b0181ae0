//! gwp-race: a sampling data-race detector for programs in production.
//!
//! The library behind the `gwp-race` command. Modules are layered; a module imports only
//! from those below it (tests may use `kernel` everywhere):
//!
//! ```text
//! cli      run, attach, inspect, doctor, races, fleet: arguments in, exit code out
//! page     what a store has, as pages for a browser
//! outbox   what is kept until a collector has taken it, and sending it
//! otlp     what a collector of OpenTelemetry is told of races and figures, and telling it
//! delivery  what hosts send to a common store: messages, and the thread that writes them
//! fleet    many processes of one machine: which are watched, when, and out of whose purse (pure)
//! ledger   what was learned of programs, from one run to the next: where to look first
//! hunt     strategies, stall, budget: decides what to stop and for how long
//! reader   processes that read files for others: some without rights for symbols and headers, one that waits for file systems
//! store    races that are kept from one run to the next
//! learned  what is learned of functions: counts that add up, as they are kept, sent and told (pure)
//! debuginfod  debug files from servers
//! metrics  figures that others collect, and their text form (pure)
//! http     clients of servers: whom to believe, how long to wait
//! report   the race model and its forms: text, json
//! symbols  unwinding of stack snapshots, functions, lines, inlining
//! verdict  two accesses in, race or reason-why-not out (pure)
//! tracee   a live process: threads, memory, maps, modules
//! pcmeta   PC-keyed metadata formats: bytes in, compact tables out (pure)
//! image    an ELF file: sections, text, functions, build id
//! kernel   perf events, eBPF gates, ptrace, BTF: every system call
//! routine  memory routines by name: the bytes they access, given arguments (pure); `routine_results` has functions that write what they return
//! insn     one machine instruction: the bytes it reads and writes (pure)
//! addr     the three kinds of addresses
//! bounded  lists that are decoded only as far as they may go
//! ```

pub mod addr;
pub mod bounded;
pub mod cli;
pub mod debuginfod;
pub mod delivery;
pub mod fleet;
pub mod http;
pub mod hunt;
pub mod image;
pub mod insn;
pub mod kernel;
pub mod learned;
pub mod ledger;
pub mod metrics;
pub mod otlp;
pub mod outbox;
pub mod page;
pub mod pcmeta;
pub mod reader;
pub mod report;
pub mod routine;
pub mod routine_results;
pub mod store;
pub mod symbols;
pub mod tracee;
pub mod verdict;

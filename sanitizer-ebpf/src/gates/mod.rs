//! The eBPF programs, by what each decides, and their maps.

mod arrival;
mod block;
mod clock;
mod current;
mod maps;
mod preempted;
mod probe;
mod process;
mod record;
mod registers;
mod sharing;
mod site;
mod stop;
mod tables;
mod watch;

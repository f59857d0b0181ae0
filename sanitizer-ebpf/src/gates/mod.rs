//! The eBPF programs, by what each decides, and their maps.

mod arrival;
mod block;
mod clock;
mod current;
mod look;
mod maps;
mod process;
mod record;
mod registers;
mod site;
mod stop;
mod tables;
mod watch;

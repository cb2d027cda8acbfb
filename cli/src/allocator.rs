//! Settings of the memory allocator, for the commands that run for long.
//!
//! glibc gives nearly every thread an arena of its own, and keeps what was freed in each. A server
//! with a dozen threads that hand buffers to one another then holds a third more memory than it
//! uses. glibc reads its settings once, before `main`, so the process starts itself again with them.

use std::{env, io, os::unix::process::CommandExt, process::Command};

const TUNABLES: &str = "GLIBC_TUNABLES";

/// Two arenas for two dozen threads; blocks of a megabyte come from the system and go back to it,
/// and fixing that size also keeps glibc from raising it with every large block that is freed.
const SETTINGS: &str = "glibc.malloc.arena_max=2:glibc.malloc.mmap_threshold=1048576:\
                        glibc.malloc.trim_threshold=1048576";

/// Replaces this process by itself with the allocator's settings, unless it has some already. The
/// process keeps its id. Where it cannot be done, the server only takes more memory.
pub(crate) fn settle() {
    if cfg!(not(target_env = "gnu")) || env::var_os(TUNABLES).is_some() {
        return;
    }
    let error = restart();
    tracing::warn!(%error, "cannot set the memory allocator up; set {TUNABLES}={SETTINGS}");
}

/// Returns only when it failed.
fn restart() -> io::Error {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| "quipu".into());
    Command::new(program)
        .arg0(name)
        .args(arguments)
        .env(TUNABLES, SETTINGS)
        .exec()
}

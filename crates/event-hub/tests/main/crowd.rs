//! Room for many sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many open files as this process may have.
pub fn raise_the_limit_on_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let limit = if raised.is_ok() { limit.maximum } else { limit.current };
    limit.unwrap_or(u64::MAX)
}

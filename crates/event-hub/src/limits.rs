//! How many files the process may open: connections and segments of the log need one each.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With fewer than this, a hub of usual size may run out of them.
const FEW: u64 = 4_096;

/// Raises the limit as far as the process may on its own. Answers what to warn of, if that is not far.
pub fn raise_open_files() -> Option<String> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let raised = setrlimit(Resource::Nofile, raised).map(|()| limit.maximum);
    let open_files = raised.unwrap_or(limit.current).unwrap_or(u64::MAX);
    (open_files < FEW).then(|| {
        format!(
            "the process may open {open_files} files, each connection needs one; allow at least {FEW}: `ulimit -Hn`, \
             or `LimitNOFILE` of a systemd unit"
        )
    })
}

//! The examination of a copy before it counts as a backup.

use super::outcome::Verified;
use super::{BackupError, Phase, Progress, Source};
use crate::disk::Disk;
use crate::doctor::report::{Finding, Severity};
use crate::doctor::{self};

/// Reads the whole copy. `format` is not there yet.
pub(super) fn verify(
    source: &Source<'_>,
    target: &dyn Disk,
    allow_damage: bool,
    progress: &mut Progress<'_>,
) -> Result<Verified, BackupError> {
    let mut tell = |name: &str, done: u64, total: u64| progress(Phase::Verifying, name, done, total);
    let (report, last_commit) = doctor::examine_copy(target, &mut tell)?;
    let wanted = source.end.map_or(0, |end| end.commit);
    if last_commit < wanted {
        return Err(BackupError::Refused(format!(
            "the copy ends with commit {last_commit}, the hub had made {wanted}: the end of the log changed while it was \
             copied; run the backup again"
        )));
    }
    let (mut damage, mut sidecars_left_out) = (Vec::new(), Vec::new());
    for finding in report.findings {
        match finding.code {
            // It is written when everything else is known to be good.
            "format_missing" => {}
            "sidecar_missing" => sidecars_left_out.push(finding.file),
            "sidecar_bad" | "sidecar_differs" => {
                target
                    .remove(&finding.file)
                    .and_then(|()| target.sync_names())
                    .map_err(|error| BackupError::target(&target.place(), error))?;
                sidecars_left_out.push(finding.file);
            }
            _ if finding.severity > Severity::Note => damage.push(finding),
            _ => {}
        }
    }
    if report.more_findings > 0 {
        damage.extend(damage.last().cloned().map(|last| more(last, report.more_findings)));
    }
    if !damage.is_empty() && !allow_damage {
        return Err(BackupError::Damaged(damage));
    }
    let examined = report.examined;
    Ok(Verified {
        segments: examined.segments,
        events: examined.events,
        topics: examined.topics,
        groups: examined.groups,
        last_commit,
        sidecars_left_out,
        damage,
    })
}

/// Stands for the findings that are not listed.
fn more(like: Finding, count: u64) -> Finding {
    Finding { what: format!("and {count} findings more, which `event-hub doctor` lists"), ..like }
}

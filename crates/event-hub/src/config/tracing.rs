//! `[tracing]`: where spans of traced events go.

use super::Found;
use super::mistakes::{Mistakes, Origin};

/// What `[tracing]` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// The collector.
    pub otlp_endpoint: String,
    /// What this hub is called in traces.
    pub service_name: String,
}

/// What was found; `None` if no collector is named.
pub(super) fn read(found: &Found, mistakes: &mut Mistakes) -> Option<Tracing> {
    const ENDPOINT: &str = "tracing.otlp_endpoint";
    let otlp_endpoint = found.get(ENDPOINT)?;
    let origin = found.origin(ENDPOINT);
    // The variable is OpenTelemetry's own and may be there for other programs, so it is no mistake.
    if !cfg!(feature = "otlp") && !matches!(origin, Some(Origin::Env(_))) {
        let text = format!(
            "{ENDPOINT} is set, but this build cannot send spans; build it with `--features otlp`, or remove the setting"
        );
        mistakes.add(origin, text);
    }
    let service_name = found.get("tracing.service_name").unwrap_or_else(|| "event-hub".to_owned());
    Some(Tracing { otlp_endpoint, service_name })
}

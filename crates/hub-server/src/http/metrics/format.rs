//! The two text formats of Prometheus, and which one a scraper wants.
//!
//! The registry writes OpenMetrics. The classic format (`text/plain; version=0.0.4`) differs in how a counter is described: by the
//! name that its samples have, with `_total`.

use axum::http::{HeaderMap, header};
use std::fmt::Write;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Classic,
    OpenMetrics,
}

impl Format {
    /// What the header `Accept` asks for: OpenMetrics if it is named and not ranked below `text/plain`.
    pub fn wanted(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        let (mut open, mut plain) = (0, 0);
        for range in accepted.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let rank = parts.find_map(|part| part.strip_prefix("q=")).map_or(1000, thousandths);
            match kind.as_str() {
                "application/openmetrics-text" => open = open.max(rank),
                "text/plain" | "text/*" => plain = plain.max(rank),
                _ => {}
            }
        }
        if open > 0 && open >= plain { Self::OpenMetrics } else { Self::Classic }
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The text in this format, from OpenMetrics.
    pub fn convert(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Classic => classic(&open_metrics),
        }
    }
}

/// A weight of `Accept` such as `0.75`.
fn thousandths(weight: &str) -> u32 {
    weight.parse::<f32>().map_or(0, |weight| (weight.clamp(0.0, 1.0) * 1000.0) as u32)
}

fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // The type comes next and decides on the name.
            help = rest.split_once(' ').map(|(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            // Writing to a String does not fail.
            let _ = writeln!(text, "# HELP {name}{suffix} {}", help.take().unwrap_or_default());
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn wanted(accept: &str) -> Format {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Format::wanted(&headers)
    }

    #[test]
    fn open_metrics_is_for_scrapers_that_rank_it_first() {
        assert_eq!(Format::wanted(&HeaderMap::new()), Format::Classic);
        assert_eq!(wanted("*/*"), Format::Classic);
        assert_eq!(wanted("text/plain"), Format::Classic);
        // What Prometheus sends.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(wanted(prometheus), Format::OpenMetrics);
        assert_eq!(wanted("application/openmetrics-text;q=0.1, text/plain;q=0.9"), Format::Classic);
        assert_eq!(wanted("application/openmetrics-text;q=0"), Format::Classic);
        assert_eq!(wanted("application/openmetrics-text;q=nonsense"), Format::Classic);
    }

    #[test]
    fn counters_are_described_by_the_name_of_their_samples() {
        let open = "# HELP events Events.\n# TYPE events counter\nevents_total{topic=\"a\"} 1\n\
                    # HELP build Version.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n\
                    # HELP size Bytes.\n# TYPE size gauge\n# UNIT size bytes\nsize 2\n# EOF\n";
        let classic = "# HELP events_total Events.\n# TYPE events_total counter\nevents_total{topic=\"a\"} 1\n\
                       # HELP build_info Version.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n\
                       # HELP size Bytes.\n# TYPE size gauge\nsize 2\n";
        assert_eq!(Format::Classic.convert(open.to_owned()), classic);
        assert_eq!(Format::OpenMetrics.convert(open.to_owned()), open);
    }
}

//! Which web pages may connect. A browser sends along the cookies and the address of whoever opened a page; the token is
//! asked for all the same, but a page that has no business here gets no connection at all.

use crate::host;
use crate::settings::{Origins, Settings};
use axum::http::{HeaderMap, Uri, header};

/// Whether a request with these headers may open a connection. Programs send no origin.
pub(crate) fn allowed(settings: &Settings, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    match &settings.origins {
        Origins::Any => true,
        Origins::Listed(listed) => {
            listed.iter().any(|one| one.trim_end_matches('/').eq_ignore_ascii_case(origin))
        }
        // On loopback a name that leads here may be the page's own.
        Origins::SameHost if settings.open_metrics && !host::is_local(headers) => false,
        Origins::SameHost => {
            let own = host::of(headers);
            let origin = origin.parse::<Uri>().ok();
            match (own, origin.as_ref().and_then(Uri::host)) {
                (Some(own), Some(page)) => own.host().eq_ignore_ascii_case(page),
                _ => false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ask(origins: &Origins, origin: Option<&str>) -> bool {
        let settings = Settings { origins: origins.clone(), ..Settings::default() };
        ask_host(&settings, "hub.example:8090", origin)
    }

    fn ask_host(settings: &Settings, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        allowed(settings, &headers)
    }

    #[test]
    fn on_loopback_no_page_gets_in_by_having_its_name_lead_here() {
        let loopback = Settings { open_metrics: true, ..Settings::default() };
        assert!(!ask_host(&loopback, "evil.example:8090", Some("http://evil.example:8090")));
        assert!(ask_host(&loopback, "evil.example:8090", None), "a program may call the hub what it likes");
        assert!(ask_host(&loopback, "localhost:8090", Some("http://localhost:3000")));
        assert!(ask_host(&loopback, "[::1]:8090", Some("http://[::1]:3000")));
        let listed = Origins::Listed(vec!["http://app.test".into()]);
        assert!(ask_host(
            &Settings { origins: listed, ..loopback },
            "app.test:8090",
            Some("http://app.test")
        ));
    }

    #[test]
    fn a_program_sends_no_origin_and_is_not_asked() {
        for origins in [Origins::SameHost, Origins::Listed(vec![]), Origins::Any] {
            assert!(ask(&origins, None));
        }
    }

    #[test]
    fn by_default_pages_of_the_same_host_may_connect_whatever_their_port() {
        let same = Origins::SameHost;
        assert!(ask(&same, Some("http://hub.example:8082")));
        assert!(ask(&same, Some("https://HUB.example")));
        for other in ["http://evil.example", "http://hub.example.evil.example", "null", "http://", "x"] {
            assert!(!ask(&same, Some(other)), "{other}");
        }
    }

    #[test]
    fn a_list_names_whole_origins() {
        let listed = Origins::Listed(vec!["https://app.example".into(), "http://localhost:3000/".into()]);
        assert!(ask(&listed, Some("https://app.example")) && ask(&listed, Some("http://localhost:3000")));
        assert!(!ask(&listed, Some("http://app.example")) && !ask(&listed, Some("http://hub.example:8090")));
        assert!(ask(&Origins::Any, Some("null")));
    }
}

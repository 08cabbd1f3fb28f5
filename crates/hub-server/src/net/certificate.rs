//! The certificate that a client has shown, and whom it names.

use super::tls::{Authorities, Tls};
use crate::auth::MAX_SUBJECT_BYTES;
use axum::http::Extensions;
use hub_core::Millis;
use std::fmt;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The end of the year 9999: what is valid for longer is valid for ever.
const FAR_FUTURE_SECS: u64 = 253_402_300_799;

/// A client certificate that an authority of the hub has signed. Every request on its connection carries it. Clones share it.
#[derive(Clone)]
pub struct ClientCertificate {
    inner: Arc<Inner>,
}

struct Inner {
    names: Names,
    chain: Vec<CertificateDer<'static>>,
    /// Those that it was checked with.
    authorities: Authorities,
    tls: Tls,
}

/// What the hub reads in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Names {
    subject: Option<Arc<str>>,
    /// `notBefore` and `notAfter`, in seconds.
    from: u64,
    until: u64,
}

impl ClientCertificate {
    /// The certificate that a request carries.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// `None` if it cannot be read; rustls has read it already, so that does not happen.
    pub(super) fn new(chain: &[CertificateDer<'_>], authorities: Authorities, tls: Tls) -> Option<Self> {
        let chain: Vec<_> = chain.iter().map(|one| one.clone().into_owned()).collect();
        let names = Names::read(chain.first()?)?;
        Some(Self { inner: Arc::new(Inner { names, chain, authorities, tls }) })
    }

    /// Whom it names: its first URI, else its first DNS name, else its common name. `None` if it has none of them, or one that
    /// is empty, longer than a subject may be, or has control characters.
    pub fn subject(&self) -> Option<&Arc<str>> {
        self.inner.names.subject.as_ref()
    }

    /// Since when it is valid.
    pub(crate) fn issued(&self) -> Millis {
        self.inner.names.from * 1000
    }

    /// Its last second, as tokens count it.
    pub(crate) fn exp(&self) -> u64 {
        self.inner.names.until
    }

    /// Whether the authorities of the hub, as they are now, vouch for it.
    pub(crate) fn is_trusted(&self) -> bool {
        let Inner { chain, authorities, tls, .. } = &*self.inner;
        tls.trusts(chain, authorities)
    }
}

impl Names {
    fn read(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let seconds = |stamp: i64| u64::try_from(stamp).unwrap_or(0).min(FAR_FUTURE_SECS);
        let validity = certificate.validity();
        let subject = subject(&certificate).filter(|name| is_subject(name)).map(Arc::from);
        Some(Self {
            subject,
            from: seconds(validity.not_before.timestamp()),
            until: seconds(validity.not_after.timestamp()),
        })
    }
}

/// A name that cannot be a subject is not passed over for the next kind: the certificate has no subject then.
fn subject<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    let alternatives = certificate.subject_alternative_name().ok()?;
    let names = alternatives.map(|names| &names.value.general_names[..]).unwrap_or_default();
    let uri = names.iter().find_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    let dns = || {
        names.iter().find_map(|name| match name {
            GeneralName::DNSName(dns) => Some(*dns),
            _ => None,
        })
    };
    let common = || certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    uri.or_else(dns).or_else(common)
}

fn is_subject(name: &str) -> bool {
    (1..=MAX_SUBJECT_BYTES).contains(&name.len()) && !name.contains(char::is_control)
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.names.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    fn names(common: Option<&str>, alternatives: &[SanType]) -> Names {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        params.subject_alt_names = alternatives.to_vec();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2030, 1, 1));
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Names::read(made.der()).unwrap()
    }

    fn uri(text: &str) -> SanType {
        SanType::URI(text.try_into().unwrap())
    }

    fn dns(text: &str) -> SanType {
        SanType::DnsName(text.try_into().unwrap())
    }

    #[test]
    fn the_first_uri_counts_then_the_first_dns_name_then_the_common_name() {
        let mail = SanType::Rfc822Name("ada@example.com".try_into().unwrap());
        for (common, alternatives, subject) in [
            (
                Some("ada"),
                vec![dns("a.test"), uri("spiffe://x/one"), uri("spiffe://x/two")],
                Some("spiffe://x/one"),
            ),
            (Some("ada"), vec![mail.clone(), dns("a.test"), dns("b.test")], Some("a.test")),
            (Some("ada"), vec![mail], Some("ada")),
            (Some("Ada Łoś"), vec![], Some("Ada Łoś")),
            (None, vec![], None),
            (Some(""), vec![], None),
            (Some("a\nb"), vec![], None),
            (Some(&"x".repeat(257)), vec![], None),
            (Some("ada"), vec![uri(&format!("urn:{}", "x".repeat(300)))], None),
        ] {
            let found = names(common, &alternatives).subject;
            assert_eq!(found.as_deref(), subject, "{common:?} {alternatives:?}");
        }
    }

    #[test]
    fn the_time_for_which_it_is_valid_is_read() {
        let Names { from, until, .. } = names(Some("ada"), &[]);
        assert_eq!((from, until), (1_577_836_800, 1_893_456_000));
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_certificate_have_no_names(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(Names::read(&bytes), None);
        }
    }
}

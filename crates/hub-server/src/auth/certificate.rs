//! Clients whose certificate says who they are.
//!
//! The subject of a certificate is a `sub` like that of a token. It has no rights of its own: those of the hub's own policy are all
//! that it may do.

use super::{Identity, invalid, shown};
use crate::acl::Policy;
use crate::net::ClientCertificate;
use hub_core::Millis;
use hub_proto::{Code, Error, Result};

/// Who the holder of a certificate is, `now` on the wall clock.
pub(super) fn identity(certificate: &ClientCertificate, now: Millis) -> Result<Identity> {
    let Some(subject) = certificate.subject() else {
        let msg = "no token, and the client certificate names no subject: it needs a URI, a DNS name or a common name of 1 to \
                   256 bytes";
        return Err(Error::new(Code::NoToken, msg));
    };
    // It is valid to the end of that second.
    let (exp, expires) = (certificate.exp(), (certificate.exp() + 1) * 1000);
    if now >= expires {
        let ago = (now - expires) / 1000;
        return Err(Error::new(Code::TokenExpired, format!("the client certificate ran out {ago} s ago")));
    }
    Ok(Identity {
        subject: Some(subject.clone()),
        expires: Some(expires),
        exp: Some(exp),
        issued: Some(certificate.issued()),
        jti: None,
        policy: Policy::default(),
        is_static: false,
        key: None,
        certificate: Some(certificate.clone()),
        peer: None,
    })
}

/// Refuses a token of another subject than the certificate's.
pub(super) fn check_bound(identity: &Identity, certificate: Option<&ClientCertificate>) -> Result<()> {
    let Some(subject) = certificate.and_then(ClientCertificate::subject) else {
        return Err(invalid(
            "the token is good only with a client certificate of its subject; there is none",
        ));
    };
    match identity.subject.as_ref() == Some(subject) {
        true => Ok(()),
        false => Err(invalid(format!(
            "the token's sub is not {}, the client certificate's subject",
            shown(subject)
        ))),
    }
}

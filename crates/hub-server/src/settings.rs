//! What can be changed while the server runs.

use crate::acl::Policy;
use crate::auth::Identity;
use crate::limits::Limits;
use crate::net::Proxies;

/// Set at the start and by a reload; sessions that are open follow it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The hub's own rules: asked before those of any token, but for the static one.
    pub policy: Policy,
    /// How much anybody may do.
    pub limits: Limits,
    /// Which web pages may connect.
    pub origins: Origins,
    /// Pages of these origins, such as `https://app.example.com`, may read the answers of HTTP. None unless set.
    pub cors_origins: Vec<String>,
    /// Metrics are shown to anybody; set when the server listens on loopback only. Web pages are kept out all the same: a
    /// request has to name the hub by an address or as `localhost`.
    pub open_metrics: bool,
    /// A right to subscribe is a right to join every group on the topic. Unless set, a group belongs to the subject that made it.
    pub open_groups: bool,
    /// Proxies that are believed when they name the client of a request; connections from then on.
    pub proxies: Proxies,
}

impl Settings {
    /// The rules that count for somebody: the hub's own and behind them those of the token; for the static token its own
    /// alone, and so for another hub, which has asked its own rules.
    pub fn rules_for(&self, identity: &Identity) -> Policy {
        match identity.is_static || identity.peer.is_some() {
            true => identity.policy.clone(),
            false => self.policy.before(&identity.policy).for_subject(identity.subject.as_deref()),
        }
    }
}

/// The pages of which a browser may open a connection. Programs send no `Origin` and are not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// Pages of the host that is connected to, whatever its port.
    #[default]
    SameHost,
    /// Pages of these origins, such as `https://app.example.com`.
    Listed(Vec<String>),
    /// Any page.
    Any,
}

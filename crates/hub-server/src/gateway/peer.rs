//! The owner's side of members that are connected to other hubs.

use super::handle::not_subscribed;
use super::request::{BROUGHT, Brought, Corr, Ids, Name, PeerRequest, Request};
use super::session::{Done, Session};
use super::subscriptions::{Feed, Subscription};
use crate::auth::Secret;
use crate::auth::cluster::is_hubs;
use crate::edge::{
    Act, Arriving, Ask, Detachment, Joining, Member, MemberIdentity, MemberKey, act_here, join_here, leases,
};
use futures_util::future::BoxFuture;
use hub_core::store::HubId;
use hub_core::{ById, Luggage, Owner, Position};
use hub_proto::{Code, Error, Result, TopicName};
use std::collections::HashSet;
use std::sync::Arc;

impl Session {
    /// The hub at the other end, if it is one.
    pub(super) fn peer(&self) -> Option<HubId> {
        self.who.as_ref().and_then(|who| who.identity.peer)
    }

    /// Which hub a token is of; `None` if it is no hub's. Such a token is tried with no other key.
    pub(super) fn identify_hub(&self, token: Option<&Secret>) -> Option<Result<HubId>> {
        let token = token.map(Secret::expose).filter(|token| is_hubs(token))?;
        let me = self.hub.bus().hub().map(|hub| hub.id);
        let Some((me, key)) = me.zip(self.hub.edge().key.as_ref()) else {
            let msg = "this hub has no others beside it, so it takes no tokens of hubs";
            return Some(Err(Error::new(Code::JwtInvalid, msg)));
        };
        if self.who.is_some() {
            let msg = "a hub says once who it is; open another connection";
            return Some(Err(Error::new(Code::JwtInvalid, msg)));
        }
        Some(key.peer(token, me, self.hub.bus().now()))
    }

    /// Hubs ask for members of groups, and nothing that a user needs a token for.
    pub(super) fn may_hub_ask(&self, request: &Request) -> Result<()> {
        let is_users = match request {
            Request::Auth { .. } => true,
            Request::Subscribe(name, _) => name.group.is_none(),
            _ => request.is_publish(),
        };
        if self.peer().is_some() && is_users {
            let msg = "a hub's connection is for members of groups; users have connections of their own";
            return Err(Error::new(Code::Forbidden, msg));
        }
        Ok(())
    }

    /// Opens a member for another hub, or goes on with one whose connection was lost. If a third hub owns the group by
    /// now, that is answered, and never followed.
    pub(super) fn open_for(
        &mut self,
        hub: HubId,
        ask: &Ask,
        brought: Brought,
    ) -> BoxFuture<'static, Result<Member>> {
        let Brought { mut held, mut settled, members, member, paused, subject, own_groups, .. } = brought;
        let (client_member, resumed) = (brought.client_member, brought.resumed);
        let before = std::mem::take(&mut self.brought);
        held.extend(before.held);
        settled.extend(before.settled);
        let ask = Arc::new(Ask { subject, own_groups, client_member, ..ask.clone() });
        let luggage = Luggage { hub, members, held, settled };
        let arriving = member.map(|member| Arriving {
            key: MemberKey {
                id: client_member.map_or(MemberIdentity::Hub(hub, member), MemberIdentity::Client),
                name: ask.name.clone(),
            },
            incarnation: member,
            ask: ask.clone(),
            is_again: resumed.is_none(),
            through: Some(hub),
            recall: self.recall.clone(),
        });
        self.alarm.ring();
        let hub = self.hub.clone();
        Box::pin(async move {
            let resumed = resumed.map(HashSet::from_iter);
            let joining = Joining { ask: &ask, arriving, luggage: Some(luggage), resumed: resumed.as_ref() };
            let (feed, attachment) = join_here(&hub, joining).await?;
            set_paused(&feed, paused);
            Ok(Member::of_session(feed, attachment))
        })
    }

    pub(super) fn handle_peer(&mut self, corr: Corr, request: PeerRequest) {
        match request {
            PeerRequest::Bring(brought) => {
                let kept = &mut self.brought;
                if kept.held.len() + brought.held.len() > BROUGHT
                    || kept.settled.len() + brought.settled.len() > BROUGHT
                {
                    let msg = format!("a member brings along at most {BROUGHT} events of each kind");
                    return self.refuse(&corr, &Error::too_large(msg));
                }
                kept.held.extend(brought.held);
                kept.settled.extend(brought.settled);
                self.ok(&corr);
            }
            PeerRequest::Release(name, blame) => {
                if let Some(slot) = self.subscriptions.remove(&name)
                    && let Feed::Group(feed) = slot.feed
                {
                    feed.release(blame);
                }
                self.ok(&corr);
            }
            PeerRequest::Detach(name, blame) => {
                if let Some(slot) = self.subscriptions.remove(&name)
                    && let Feed::Group(feed) = slot.feed
                {
                    feed.detach(Detachment::ClientLost(blame));
                }
                self.ok(&corr);
            }
            PeerRequest::Held(name) => match self.subscriptions.named(&name) {
                Some((_, Subscription { feed: Feed::Group(feed), .. })) => {
                    let message = self.writer.held(&corr, &leases(&feed.leases()));
                    self.send(message);
                }
                _ => self.refuse(&corr, &not_subscribed(&name)),
            },
            PeerRequest::Return { of, ids, attempt } => {
                let ids = match ids {
                    Ids::One(id) => vec![id],
                    Ids::Several(ids) => ids,
                };
                if let Some((_, slot)) = self.subscriptions.named(&of)
                    && let Feed::Group(feed) = &mut slot.feed
                {
                    // Those that are not held any more have gone back already.
                    ids.into_iter().for_each(|id| drop(feed.unsent(id, attempt)));
                }
                if corr.0.is_some() {
                    self.ok(&corr);
                }
            }
            PeerRequest::Saved(of, number) => self.say_saved(&corr, &of, number),
            PeerRequest::List(name) => self.list(corr, name),
            PeerRequest::Seek(name, to) => self.act_for_hub(corr, name, move |name| seek(&name, to)),
            PeerRequest::Delete(name, is_list) => self.act_for_hub(corr, name, move |name| {
                Ok(if is_list { Act::DeleteList(name.topic) } else { Act::Delete(name.topic) })
            }),
        }
    }

    /// Answers which acks of a member are saved. It is asked for again, so nothing waits here.
    fn say_saved(&mut self, corr: &Corr, of: &Name, number: u64) {
        let saved = match self.subscriptions.named(of) {
            Some((_, Subscription { feed: Feed::Group(feed), .. })) => feed.saved(number),
            _ => return self.refuse(corr, &not_subscribed(of)),
        };
        let message = self.writer.done(corr, saved);
        self.send(message);
    }

    /// Answers which topics a list has, if this hub owns its group.
    fn list(&mut self, corr: Corr, name: Name) {
        let hub = self.hub.clone();
        self.job = Some(Box::pin(async move {
            let group = name.group.unwrap_or_default();
            let listed = match hub.bus().owner_of(&group).await {
                Ok(Owner::Here) => {
                    Ok(hub.bus().subscription(&name.topic, &group).map(|record| record.topics))
                }
                Ok(Owner::There(_)) => Err(not_owner(&group)),
                Err(error) => Err(error),
            };
            Done::Listed(corr, listed.map(|topics| topics.filter(|topics| !topics.is_empty())))
        }));
    }

    fn act_for_hub(&mut self, corr: Corr, name: Name, act: impl FnOnce(Name) -> Result<Act>) {
        let group = name.group.clone().unwrap_or_default();
        let act = match act(name) {
            Ok(act) => act,
            Err(error) => return self.refuse(&corr, &error),
        };
        let bus = self.hub.bus().clone();
        self.job = Some(Box::pin(async move { Done::Acted(corr, act_here(&bus, &group, &act).await) }));
    }
}

fn set_paused(feed: &ById, paused: bool) {
    match paused {
        true => feed.subscription().pause(),
        false => feed.subscription().resume(),
    }
}

fn seek(name: &Name, to: Position) -> Result<Act> {
    TopicName::readable(&name.topic).map(|topic| Act::Seek(topic, to))
}

fn not_owner(group: &str) -> Error {
    Error::new(Code::NotOwner, format!("another hub serves group {group}; look again"))
}

//! The protocol, as the conversations in `protocol/` have it: each is a case of its own.

#[path = "fixtures/format.rs"]
pub mod format;
#[path = "fixtures/pattern.rs"]
pub mod pattern;
#[path = "fixtures/stage.rs"]
mod stage;

use stage::{Groups, Stage};
use std::collections::BTreeSet;

/// A case per fixture. That the list is complete is a test, too.
macro_rules! fixtures {
    ($($module:ident = $file:literal { $($case:ident)+ })+) => {
        $(mod $module {
            $(#[tokio::test]
            async fn $case() {
                super::run($file, stringify!($case), super::Groups::Here).await;
            })+
        })+

        /// The same conversations with a hub whose groups are all owned by another one: nobody can tell.
        mod through_an_edge {
            $(mod $module {
                $(#[tokio::test]
                async fn $case() {
                    super::super::run($file, stringify!($case), super::super::Groups::Elsewhere).await;
                })+
            })+
        }

        const CASES: &[(&str, &[&str])] = &[$(($file, &[$(stringify!($case)),+])),+];
    };
}

fixtures! {
    auth = "auth" {
        a_token_opens_the_connection
        a_token_without_a_subject_is_answered_without_one
        frames_that_follow_auth_at_once_wait_for_it
        before_auth_nothing_else_is_done
        no_auth_in_time_closes_the_connection
        a_token_may_be_renewed_at_any_time
        a_failed_renewal_leaves_the_old_token_in_force
        the_subject_of_a_connection_stays
        a_renewal_that_allows_less_ends_the_subscriptions_that_it_does_not_cover
        a_token_that_has_run_out_stops_deliveries_but_not_acks_until_it_is_renewed
        a_token_that_is_not_renewed_in_time_closes_the_connection
        a_token_that_is_revoked_ends_its_connections_and_opens_no_more
        a_ping_is_answered_with_the_time_of_the_hub
    }
    ephemeral = "ephemeral" {
        without_a_group_events_come_without_a_ctx
        every_reader_gets_every_event
        history_can_be_read_from_the_first_event_or_from_a_place_or_a_time
        a_pattern_and_a_list_of_topics_can_be_read_without_a_group
        a_filter_works_without_a_group
        batches_work_without_a_group
        a_reader_with_a_group_and_one_without_do_not_meet
        options_of_groups_need_a_group
        coalesce_without_a_group_is_the_newest_state_of_every_key_and_then_live
    }
    errors = "errors" {
        a_frame_that_is_not_json
        a_frame_that_is_no_object_with_an_op
        an_op_that_the_hub_does_not_have
        a_corr_that_is_no_string
        an_auth_without_a_token
        a_token_that_does_not_hold
        a_token_that_has_run_out
        what_the_token_does_not_allow
        a_token_without_rights_allows_nothing
        a_rule_with_groups_is_for_those_groups
        a_subscription_that_is_there_already
        a_subscription_that_is_not_there
        a_group_that_has_other_options
        an_event_that_is_not_in_hand
        more_than_the_rate_allows
        more_topics_or_groups_than_a_subject_may_make
        a_payload_over_the_limit
        a_frame_over_the_limit_closes_the_connection
        an_id_with_another_payload_or_key
        a_publish_that_is_not_well_formed
        a_subscribe_that_is_not_well_formed
        an_unknown_id_cannot_place_a_group
        more_subscriptions_than_a_connection_may_have
        an_ack_that_is_not_well_formed
        a_delay_or_an_extension_beyond_twelve_hours
    }
    member = "member" {
        a_member_that_comes_back_goes_on_with_the_leases_that_it_names
        a_member_that_comes_back_and_names_nothing_gets_everything_again
        what_a_member_names_and_does_not_hold_is_left_out_of_the_answer
        a_second_connection_with_the_same_member_takes_over_from_the_first
        the_member_of_another_subject_is_another_member
        a_member_that_unsubscribes_keeps_nothing
        a_member_that_does_not_come_back_in_time_counts_a_failure
        the_options_of_a_member_need_a_group_and_fit_together
    }
    pause = "pause" {
        a_pause_holds_events_back_and_a_resume_lets_them_come
        what_is_in_hand_can_be_settled_during_a_pause
        while_one_member_pauses_another_gets_the_events
        one_subscription_of_a_connection_pauses_and_the_others_go_on
        a_pause_of_a_pattern_holds_all_its_topics
        a_reader_without_a_group_can_pause_and_misses_nothing
        who_is_not_subscribed_cannot_pause
    }
    publish_batch = "publish-batch" {
        the_results_of_a_batch_are_in_the_order_of_its_events
        what_is_bad_in_a_batch_has_its_error_in_its_place_and_holds_up_nothing_else
        an_empty_batch_has_no_results
        a_batch_may_have_as_many_events_as_the_limit_says_and_no_more
        a_batch_that_does_not_fit_the_rate_is_refused_whole
        an_ordered_batch_stops_at_the_first_event_that_is_refused
        an_ordered_batch_has_duplicates_as_any_other_and_stops_at_a_conflict
        an_ordered_batch_stops_at_an_event_that_is_bad_in_itself
        an_ordered_batch_stops_at_a_quota_of_its_subject
        an_ordered_batch_that_does_not_fit_the_rate_is_refused_whole
        whether_a_batch_is_ordered_is_true_or_false
    }
    publish = "publish" {
        a_publish_is_answered_with_where_the_event_is
        every_option_of_a_publish_comes_out_at_the_other_end
        null_counts_as_absent_and_unknown_fields_are_ignored
        a_payload_is_any_json_and_comes_back_as_it_was
        an_id_that_the_topic_has_appends_nothing
        publishes_of_one_connection_are_committed_and_answered_in_their_order
        a_corr_comes_back_as_it_was
        nobody_publishes_to_a_derived_topic
    }
    settle = "settle" {
        an_ack_is_answered_if_it_has_a_corr
        several_are_acked_at_once_and_those_that_are_unknown_are_named
        a_nack_brings_the_event_again
        an_attempt_on_an_ack_keeps_a_late_one_from_settling_a_later_delivery
        only_the_holder_of_an_event_settles_it
        after_an_unsubscribe_nothing_can_be_settled_any_more
        a_modack_puts_the_deadline_off
        what_is_returned_comes_again_and_counts_no_failure
        what_is_returned_comes_again_in_the_order_of_the_log
        a_return_that_cannot_be
    }
    stop = "stop" {
        a_hub_that_stops_closes_with_1012
    }
    subscribe = "subscribe" {
        an_event_goes_from_one_connection_to_another
        without_corr_the_answers_have_none
        the_members_of_a_group_share_its_events_and_every_group_sees_all_of_them
        a_new_group_begins_with_the_next_event_or_with_the_first_one
        a_new_group_begins_behind_an_id_or_a_seq_or_at_a_time
        a_group_keeps_its_place_when_its_members_are_away
        what_a_member_leaves_behind_goes_to_another_and_counts_as_an_attempt
        a_pattern_covers_topics_that_are_there_and_topics_that_come
        a_list_of_topics_has_a_label_of_its_own
        the_same_id_from_two_topics_of_a_list_comes_once_at_a_time
        rights_are_asked_for_every_topic_of_a_list_and_never_for_its_label
        several_events_come_in_one_frame_if_the_member_wants_that
        a_member_has_no_more_events_in_hand_than_it_wants
        a_filter_lets_pass_what_has_its_tags_and_its_key_and_its_headers
        with_ordering_by_key_one_event_of_a_key_is_in_flight_and_the_others_wait
        coalesce_skips_what_a_newer_event_of_its_key_has_overtaken
        options_of_a_group_hold_for_all_its_members
        a_member_has_its_own_time_to_ack
        an_event_that_is_not_acked_in_time_comes_again
        a_dead_letter_is_an_event_of_its_own_topic
        a_group_waits_for_a_derived_topic_if_there_is_something_to_derive_it_from
        a_derived_topic_s_name_is_as_long_as_its_source_s_may_be
        a_right_on_a_derived_topic_is_none_without_the_right_on_its_source
    }
    schemas = "schemas" {
        a_payload_that_does_not_match_the_schema_of_its_topic_is_refused_with_the_path_and_the_rule
        a_tombstone_passes_every_schema
        each_event_of_a_batch_is_checked_by_itself
        nothing_of_an_ordered_batch_is_published_behind_a_payload_that_does_not_match
        integers_beyond_2_53_are_exact
    }
}

/// The name of a fixture as one of a test.
fn case(name: &str) -> String {
    name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

async fn run(file: &str, name: &str, groups: Groups) {
    let fixtures = format::file(file).fixtures;
    let fixture = fixtures.iter().find(|fixture| case(&fixture.name) == name);
    let fixture = fixture.unwrap_or_else(|| panic!("protocol/{file}.json has no fixture {name}"));
    let mut stage = Stage::set(fixture, groups).await;
    for (at, step) in fixture.steps.iter().enumerate() {
        if let Err(wrong) = stage.act(step).await {
            panic!("protocol/{file}.json, {:?}, step {}: {wrong}", fixture.name, at + 1);
        }
    }
    if let Err(wrong) = stage.end().await {
        panic!("protocol/{file}.json, {:?}, after the last step: {wrong}", fixture.name);
    }
}

#[test]
fn every_fixture_is_a_case() {
    let mut written = BTreeSet::new();
    for file in format::files() {
        for fixture in format::file(&file).fixtures {
            assert!(
                written.insert((file.clone(), case(&fixture.name))),
                "{file}: {} is there twice",
                fixture.name
            );
        }
    }
    let listed =
        CASES.iter().flat_map(|(file, cases)| cases.iter().map(|case| (file.to_string(), case.to_string())));
    let listed: BTreeSet<_> = listed.collect();
    let missing: Vec<_> = written.symmetric_difference(&listed).collect();
    assert!(missing.is_empty(), "not both in protocol/ and in this file: {missing:?}");
}

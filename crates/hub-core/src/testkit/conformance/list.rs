//! The list of cases.

/// Every case there is: the one list of names, handed to `$then`.
///
/// A module's needs stand before its cases. A case that is not listed is unused code, which does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    ($then:path) => {
        $then! {
            port::append [] {
                events_get_gapless_seqs_in_the_order_of_the_batch,
                each_topic_counts_on_its_own,
                seqs_go_on_in_the_next_commit,
                commit_times_never_decrease_when_the_clock_goes_back,
                the_answer_is_the_record_that_readers_see,
                the_durability_is_the_declared_one,
                payload_bytes_stay_as_they_were_written,
                every_optional_field_is_kept,
                an_event_as_large_as_allowed_is_kept,
                an_empty_commit_changes_nothing,
            }
            port::ids [] {
                ids_with_a_time_may_come_in_any_order_and_are_known_when_they_come_again,
                a_known_id_appends_nothing_and_answers_its_place,
                an_id_twice_in_one_batch_is_appended_once,
                an_id_on_another_topic_is_another_event,
                another_payload_or_key_is_not_the_same,
                payloads_are_compared_as_json,
                a_cleaned_id_is_remembered_as_long_as_asked,
                a_cleaned_id_still_tells_another_payload_apart,
                the_seq_of_an_id_is_found,
            }
            port::read [] {
                reading_starts_after_a_seq,
                reading_at_the_end_brings_nothing,
                a_read_stops_at_its_limit_of_events,
                a_read_stops_at_its_limit_of_bytes,
                a_read_brings_at_least_one_event,
                holes_are_left_out,
                bounds_follow_the_log,
                the_seq_before_a_time_is_found,
                an_unknown_topic_answers_defaults,
            }
            port::newest [] {
                the_newest_record_of_each_key_is_answered,
                tombstones_are_answered_by_key_and_left_out_of_pages,
                records_replayed_for_one_group_are_passed_over,
                pages_go_in_byte_order_of_the_keys,
                a_page_stops_at_its_limits_and_brings_at_least_one,
                the_newest_by_seq_counts_and_not_by_time,
            }
            port::clean [] {
                an_empty_policy_keeps_everything,
                what_was_committed_before_a_time_goes,
                the_oldest_go_until_the_rest_fits,
                compaction_keeps_the_newest_of_each_key,
                compaction_leaves_keyless_records_alone,
                a_tombstone_stays_for_its_grace,
                nothing_above_a_seq_goes_if_so_asked,
                an_older_value_does_not_come_back_with_a_tombstone_gone,
                compaction_makes_room_before_size_does,
                seqs_go_on_after_everything_was_cleaned,
                cleaning_twice_changes_nothing_more,
                cleaning_concerns_one_topic,
            }
            port::delete [Reopen] {
                no_read_has_what_was_deleted,
                what_came_after_it_stays,
                it_stays_deleted_when_the_store_is_opened_again,
                its_ids_are_remembered,
            }
            port::records [] {
                a_group_is_loaded_as_it_was_written,
                progress_brings_a_group_forward,
                a_changed_group_keeps_its_progress,
                progress_of_an_unknown_group_is_ignored,
                a_group_that_is_gone_is_not_loaded,
                a_group_made_again_starts_without_progress,
                a_subscription_is_loaded_as_it_was_written,
                a_subscription_that_is_gone_is_not_loaded,
                writing_a_record_twice_changes_nothing_more,
                records_of_one_commit_count_in_their_order,
            }
            port::shared [] {
                heartbeats_count_up_and_show_everybody,
                a_hub_that_is_forgotten_is_gone,
                each_claim_of_a_name_has_a_higher_epoch,
                a_claim_on_old_knowledge_is_lost,
                of_many_claims_at_once_one_is_won,
                names_that_a_hub_owns_are_claimed_again_together,
                a_name_that_was_given_up_has_no_owner_and_keeps_its_edges,
                edges_are_noted_by_the_owner_alone,
                an_estate_is_everything_of_one_name,
                who_lost_a_name_changes_nothing_of_it,
                a_fence_concerns_one_name_and_no_events,
                names_that_are_idle_for_long_are_found,
                groups_are_shown_as_last_saved,
                tails_are_those_of_the_topics_asked_for,
                news_tell_of_what_is_committed_from_then_on,
            }
            port::reopened [Reopen] {
                ids_with_a_time_are_known_after_a_reopen,
                events_are_the_same_bytes_after_a_reopen,
                seqs_and_ids_go_on_after_a_reopen,
                commit_times_do_not_go_back_after_a_reopen,
                what_was_cleaned_stays_cleaned_after_a_reopen,
                cleaned_ids_are_remembered_after_a_reopen,
                the_newest_by_key_is_known_after_a_reopen,
                groups_and_subscriptions_survive_a_reopen,
                an_emptied_topic_keeps_its_count_after_a_reopen,
            }
            bus::publish [] {
                a_publish_answers_place_time_and_durability,
                ids_of_the_hub_ascend,
                everything_a_publisher_says_reaches_the_consumer,
                publishing_an_id_again_answers_the_first_one,
                an_id_with_another_payload_or_key_is_a_conflict,
                large_payloads_of_one_id_are_compared_as_json_too,
                a_batch_answers_each_event_on_its_own,
                a_batch_commits_in_its_order,
                publishes_in_a_row_commit_in_the_order_sent,
                a_seq_is_never_seen_after_a_higher_one,
            }
            bus::positions [] {
                a_new_group_starts_at_the_latest_event,
                from_earliest_starts_at_the_first_event,
                from_a_time_starts_at_what_was_committed_then,
                after_an_id_starts_behind_that_event,
                after_a_seq_starts_behind_that_event,
                a_place_that_does_not_exist_makes_no_group,
                from_places_only_a_new_group,
                a_group_can_wait_for_a_topic_without_events,
            }
            bus::groups [] {
                two_groups_each_see_every_event,
                within_a_group_each_event_goes_to_one_member,
                members_with_room_are_served_in_turn,
                a_member_holds_no_more_than_it_asked_for,
                a_consumer_that_waits_gets_the_next_event_after_an_ack_elsewhere,
                a_slow_member_is_given_a_bounded_number_of_bytes,
                a_group_catches_up_with_what_has_left_memory,
                a_deleted_group_ends_its_subscriptions,
                a_lease_of_a_deleted_group_settles_nothing,
                groups_are_listed_with_their_numbers,
            }
            bus::leases [] {
                an_ack_settles_the_event,
                the_floor_never_passes_an_unsettled_event,
                settling_twice_is_unknown_id,
                only_the_holder_can_settle,
                an_old_attempt_settles_nothing,
                dropping_a_delivery_settles_nothing,
                what_a_member_held_goes_to_others_when_it_leaves,
                a_lease_can_be_extended,
            }
            bus::retries [ManualClock] {
                a_nacked_event_comes_back_after_its_backoff,
                a_nack_can_say_when,
                due_redeliveries_go_in_seq_order,
                redeliveries_go_before_new_events,
                a_delayed_nack_holds_no_place_in_the_window,
                an_expired_lease_goes_to_another_member_at_once,
                the_time_to_ack_runs_from_when_the_event_is_in_hand,
                an_event_nobody_had_in_hand_did_not_fail,
                an_extended_lease_ends_when_it_said,
                a_disconnect_blames_only_the_oldest_event_in_hand,
                closing_counts_no_failure,
                a_paused_member_gets_nothing_until_it_resumes,
                others_go_on_while_one_member_is_paused,
                an_event_that_a_handler_refused_is_back_within_80_ms,
            }
            bus::dead_letters [ManualClock] {
                an_event_that_failed_too_often_becomes_a_dead_letter,
                every_kind_of_failure_counts,
                attempts_and_failures_are_counted_apart,
                each_group_buries_on_its_own,
                a_dead_letter_is_not_buried_again,
                a_replayed_event_that_fails_is_buried_again,
                a_group_made_anew_buries_anew,
                a_reason_is_cut_between_characters,
                a_group_goes_on_after_a_dead_letter,
            }
            bus::deletion [Reopen] {
                a_topic_goes_with_its_groups_and_what_is_derived_from_it,
                a_deletion_survives_a_restart,
                a_topic_that_is_created_again_begins_empty_and_continues_the_numbering,
                an_id_of_before_the_deletion_is_not_resurrected,
                a_subscription_with_a_group_ends_and_one_to_a_pattern_goes_on,
                a_watcher_goes_on_with_the_topic_that_is_created_again,
                a_derived_topic_and_an_unknown_one_are_refused,
                a_snapshot_begins_anew_with_its_topic,
            }
            bus::derived [] {
                nobody_publishes_to_a_derived_topic,
                a_subscription_to_a_derived_topic_waits_for_it,
                a_dead_letter_that_somebody_else_wrote_does_not_count_as_written,
                a_snapshot_entry_that_somebody_else_wrote_does_not_count_as_written,
            }
            bus::key_order [] {
                two_events_of_a_key_are_never_in_flight_at_once,
                other_keys_go_on_while_one_is_blocked,
                a_nacked_event_keeps_its_place_in_its_key,
                a_dead_letter_frees_its_key,
                events_without_a_key_are_not_ordered,
                blocked_keys_hold_no_place_in_the_window,
                a_key_keeps_its_order_when_a_member_leaves,
            }
            bus::coalesce [] {
                from_earliest_is_the_latest_state_of_every_key_then_live,
                the_same_holds_for_what_has_left_memory,
                what_is_in_flight_stays_and_the_rest_is_skipped_to_the_newest,
                a_nacked_event_that_was_overtaken_does_not_come_back,
                a_nacked_event_that_is_the_newest_comes_back,
                events_without_a_key_are_never_overtaken,
                what_a_filter_refuses_overtakes_all_the_same,
                tombstones_are_delivered_too,
            }
            bus::filters [] {
                every_tag_must_be_there,
                one_tag_is_enough_if_one_is_asked_for,
                the_key_must_be_the_same,
                every_header_must_have_its_value,
                everything_asked_for_must_match,
                a_group_that_wants_nothing_settles_everything,
                a_function_refuses_on_the_members_side,
                a_function_refuses_by_id_as_well,
            }
            bus::options [] {
                what_is_left_out_takes_the_stored_value,
                defaults_are_those_of_the_contract,
                naming_the_same_options_is_no_conflict,
                another_option_conflicts_while_there_are_members,
                a_changed_option_changes_what_comes_next,
                a_narrower_filter_settles_what_waited,
                options_that_make_no_sense_are_refused,
            }
            bus::patterns [] {
                a_pattern_covers_topics_that_exist_and_topics_born_later,
                nothing_is_missed_of_topics_born_while_members_are_away,
                from_earliest_reads_every_covered_topic_from_its_start,
                dead_letters_and_snapshots_must_be_named,
                members_of_a_pattern_share_its_events,
                the_window_counts_over_all_topics,
                a_list_covers_exactly_its_topics,
                a_changed_list_is_a_changed_option,
                the_order_of_a_list_does_not_matter,
                options_of_a_pattern_conflict_while_it_has_members,
                deleting_a_subscription_deletes_its_groups,
                deleting_a_subscription_without_topics_ends_its_members,
                a_group_of_a_pattern_cannot_be_deleted_alone,
                a_pause_holds_for_topics_born_later,
                a_disconnect_blames_one_event_over_all_topics,
                a_group_that_exists_is_taken_over_where_it_is,
                a_topic_and_a_list_of_the_same_name_are_deleted_apart,
                bad_patterns_and_lists_are_refused,
            }
            bus::cursor [] {
                a_cursor_can_go_back,
                a_cursor_can_go_forward,
                a_cursor_can_be_set_to_a_time,
                setting_a_cursor_ends_leases,
                setting_a_cursor_forgets_acks_above_it,
                what_waits_for_its_backoff_is_forgotten_too,
                a_place_out_of_range_is_refused,
                a_group_without_members_can_be_placed,
                a_group_that_is_not_there_has_no_cursor,
            }
            bus::reading [] {
                a_scan_starts_anywhere,
                a_scan_has_its_limits,
                a_scan_of_large_events_is_complete,
                a_scan_from_an_unknown_place_is_refused,
                the_latest_by_key_is_the_newest_by_seq,
                a_tombstone_answers_as_none_at_once,
                all_keys_come_in_pages,
                topics_are_listed_by_name,
            }
            bus::reasons [] {
                no_members,
                paused,
                window_full,
                backoff,
                caught_up,
                parked_full,
                blocked_keys_park_only_so_many_events,
            }
            bus::compaction [] {
                only_the_newest_of_each_key_stays,
                holes_count_as_settled,
                an_event_in_flight_that_is_compacted_away_is_settled,
                a_snapshot_holds_the_state_of_each_changed_key,
                a_snapshot_goes_on_with_what_changed,
                a_snapshot_is_itself_compacted,
                a_topic_without_compaction_has_no_snapshot,
                a_topic_that_is_too_large_loses_its_oldest,
            }
            bus::retention [ManualClock] {
                tombstones_go_after_their_grace,
                the_hub_cleans_by_itself,
                old_events_go_by_their_commit_time,
                cursors_behind_the_start_of_the_log_move_to_it,
                an_id_is_remembered_for_a_day_also_when_its_event_is_gone,
            }
            bus::expiry [ManualClock] {
                a_group_without_members_expires_after_30_days,
                a_group_with_a_member_does_not_expire,
                the_days_can_be_set,
                zero_days_are_for_ever,
                a_subscription_expires_with_all_its_groups,
                a_group_expires_beside_a_list_of_the_same_name,
                groups_of_a_subscription_with_a_member_stay,
                a_jump_of_the_wall_clock_expires_nothing,
                a_wall_clock_set_back_expires_nothing,
                an_expired_group_starts_anew,
            }
            bus::watch [] {
                a_watcher_sees_events_from_now_on,
                a_watcher_reads_history_and_goes_on_live,
                every_watcher_sees_everything,
                a_watcher_that_cannot_keep_up_is_told_what_it_missed,
                a_pattern_is_watched_with_topics_born_later,
                a_list_is_watched,
                a_watcher_wakes_when_something_comes,
                a_watcher_at_an_unknown_place_is_refused,
                a_coalescing_watcher_gets_the_newest_of_every_key_then_live,
                a_coalescing_watcher_that_cannot_keep_up_misses_no_key,
                a_coalescing_watcher_learns_of_keys_that_are_deleted,
            }
            bus::by_id [] {
                events_are_settled_by_id,
                an_attempt_fences,
                a_bad_request_leaves_the_lease_alone,
                one_id_of_two_topics_is_never_in_hand_twice,
                a_nack_lets_the_twin_go_first,
                closing_gives_everything_back,
                what_is_given_back_comes_again_and_has_not_failed,
                a_consumer_keeps_what_it_names_and_gives_back_the_rest,
                what_is_given_back_with_a_delay_holds_its_key_back,
                a_parked_consumer_leaves_what_waits_for_it_to_others,
                a_parked_consumer_keeps_no_twin_from_others,
                a_consumer_that_vanishes_has_the_event_blamed_that_it_had_for_longest,
            }
            bus::twins [ManualClock] {
                a_twin_is_not_lost_with_a_lease_that_ran_out,
                a_held_twin_did_not_fail,
            }
            bus::replayed [Reopen] {
                it_reaches_its_group_and_no_other,
                watchers_pass_it_over,
                it_is_nobodys_latest_state,
                it_overtakes_nothing_and_is_not_overtaken,
            }
            bus::letters [Reopen] {
                a_replayed_letter_goes_to_the_one_group_that_failed,
                a_letter_is_replayed_once_however_often_it_is_asked_for,
                another_round_replays_a_letter_again,
                an_edited_letter_has_another_payload_and_names_its_cause,
                what_fails_again_is_a_new_letter_that_names_the_original,
                a_discarded_letter_is_listed_no_more,
                a_replay_is_remembered_over_a_restart,
                letters_are_found_by_what_they_are_about,
                a_letter_of_a_group_that_is_gone_is_not_replayed,
                a_replay_is_nobodys_state,
                marks_go_with_their_letters,
            }
            bus::handlers [] {
                publish_then_subscribe_from_earliest_delivers_and_advances_the_cursor,
                a_panic_is_a_nack,
                the_text_of_an_error_is_the_reason,
                events_are_handled_one_after_the_other,
                a_handler_can_work_on_several_at_once,
                a_handler_that_stops_finishes_what_it_began,
                a_handler_with_manual_acks_settles_by_itself,
                a_batch_brings_what_is_here_up_to_its_size,
            }
            bus::restart [Reopen] {
                nothing_acked_comes_again,
                attempts_and_failures_survive,
                a_stop_counts_no_failure,
                a_stop_ends_subscriptions_and_refuses_publishers,
                an_ack_after_the_stop_is_refused,
                a_handler_finishes_what_it_began_and_that_is_saved,
                options_survive,
                a_new_group_is_there_before_it_did_anything,
                a_cursor_that_was_set_survives,
                a_deleted_group_stays_deleted,
                a_pattern_goes_on_and_misses_nothing,
                a_list_and_its_deletion_survive,
                a_dead_letter_is_not_doubled,
            }
            bus::saved [ManualClock, Reopen] {
                acks_are_saved_within_200_ms_without_any_publish,
                failures_are_saved_within_200_ms,
                a_crash_counts_no_failure,
                an_ack_that_was_not_saved_comes_again,
                a_flush_saves_at_once,
                the_epoch_survives_so_a_replayed_event_is_buried_again,
            }
        }
    };
}

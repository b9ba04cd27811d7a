//! [`CASES`]: the one list of all cases.

use super::{
    Fixture, append, append_from, close, create, event, flush, header, instance, lifecycle, list, list_filter, live,
    open, read, refusal,
};
use super::{remove, revision, stat, tail, thread};

/// One promise of the seam, as a check of a backend.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Case {
    /// The promise, as a sentence in snake case.
    pub name: &'static str,
    /// What it is about: the module of the case.
    pub verb: &'static str,
    /// Checks the promise over a fresh fixture; panics where the backend breaks it.
    pub run: fn(&dyn Fixture),
}

/// Hands the list of all cases to the macro `$then`, behind the tokens `[$argument]`.
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_cases {
    ($then:path, [$($argument:tt)*]) => {
        $then! {
            [$($argument)*]
            create {
                an_empty_place_has_no_sessions,
                a_created_session_is_visible_in_its_store_at_once,
                a_created_session_is_no_longer_pending_once_its_first_batch_is_stored,
                the_id_of_a_pending_session_is_taken,
                the_id_of_a_stored_session_is_taken_with_a_writer_and_without,
                a_refused_creation_takes_no_ownership,
                the_id_of_a_stored_session_is_taken_after_reopening,
                of_many_simultaneous_creations_of_one_id_exactly_one_wins,
                a_seeded_session_tells_how_much_it_inherited_from_the_start,
                a_stored_seed_tells_how_much_was_inherited,
                of_a_seed_within_a_seed_the_last_mark_counts,
                a_seed_may_be_empty,
                the_seed_length_of_an_old_header_is_its_inherited_count,
                a_mark_in_a_log_whose_header_tells_of_no_seed_counts_nothing,
                a_mark_in_a_log_whose_header_has_a_seed_length_counts_nothing,
                a_session_without_a_seed_inherited_nothing,
                a_seeded_header_without_a_count_is_refused_and_creates_nothing,
                a_count_without_a_seeded_header_is_refused_and_creates_nothing,
                a_refused_argument_outranks_an_id_that_is_taken,
            }
            header {
                a_plain_header_comes_back,
                a_header_with_every_field_comes_back,
                a_header_whose_texts_are_empty_comes_back,
                a_header_in_a_foreign_order_and_spelling_comes_back,
                a_header_of_an_old_format_comes_back,
                a_header_of_a_newer_format_comes_back_with_keys_that_nobody_knows,
                sessions_are_found_by_id_whatever_their_folder,
                ids_that_look_like_paths_are_only_names,
                ids_that_differ_in_case_alone_are_different,
                ids_of_any_script_are_kept_without_a_normal_form,
                an_id_of_the_greatest_length_can_be_used,
            }
            open {
                an_absent_session_is_not_found_and_stays_absent,
                a_handle_tells_what_it_was_opened_for,
                a_writer_keeps_others_out_before_its_session_is_stored,
                a_writer_keeps_others_out_after_its_session_is_stored,
                a_writer_of_a_stored_session_keeps_others_out,
                a_refusal_names_the_process_that_writes,
                closing_the_writer_makes_room_for_the_next,
                dropping_the_writer_makes_room_for_the_next,
                a_closed_writer_that_is_dropped_later_leaves_the_next_one_alone,
                writers_of_different_sessions_do_not_meet,
                readers_need_no_ownership_and_take_none,
                a_reader_can_neither_append_nor_flush_and_changes_nothing,
                the_access_outranks_the_content,
                a_reader_of_a_pending_session_does_not_store_it,
                of_many_simultaneous_writers_exactly_one_wins,
                a_reopened_store_has_no_owners,
            }
            read {
                the_whole_log_is_given_by_default,
                a_start_without_a_length_gives_the_rest,
                a_length_without_a_start_gives_the_beginning,
                every_window_inside_the_log_is_that_slice,
                past_the_end_there_is_nothing,
                a_window_over_the_end_is_cut_there,
                an_empty_log_gives_nothing_for_any_window,
                a_long_log_comes_back_whole_and_in_windows,
                handles_that_were_open_before_an_append_see_it,
                handles_that_are_opened_after_an_append_see_it,
                a_reader_follows_the_log_from_one_writer_to_the_next,
                reading_changes_nothing,
                what_was_read_does_not_change_afterwards,
            }
            append {
                a_handle_reads_what_it_appended,
                batches_of_every_size_make_one_log,
                an_empty_batch_does_nothing,
                an_empty_batch_does_not_store_a_pending_session,
                a_batch_that_starts_too_early_is_refused_whole,
                a_batch_that_repeats_the_whole_log_is_refused_whole,
                a_batch_that_starts_too_late_is_refused_whole,
                a_batch_with_a_gap_inside_is_refused_whole,
                a_batch_that_repeats_a_seq_is_refused_whole,
                a_batch_that_goes_backwards_is_refused_whole,
                a_batch_far_behind_the_end_is_refused_whole,
                a_batch_at_the_end_of_all_seqs_stores_nothing,
                a_first_batch_that_does_not_start_at_zero_leaves_the_session_pending,
                a_session_whose_only_batch_was_refused_never_existed,
                the_next_writer_continues_at_the_stored_next_seq,
                a_reopened_store_continues_at_the_stored_next_seq,
                what_was_acknowledged_is_there_after_reopening,
                a_batch_goes_to_the_session_of_its_handle_alone,
            }
            append_from {
                a_batch_that_is_given_makes_a_log,
                a_batch_that_is_given_continues_a_log,
                of_a_given_seed_the_last_mark_counts,
                a_given_batch_without_events_does_nothing,
                a_batch_whose_source_fails_is_refused_whole_with_that_failure,
                a_large_batch_whose_source_fails_late_is_refused_whole,
                a_given_batch_with_a_gap_is_refused_whole,
                nothing_is_taken_from_a_batch_that_may_not_be_stored,
            }
            event {
                plain_events_come_back,
                a_foreign_order_of_keys_comes_back,
                an_odd_spelling_comes_back,
                surrogates_that_stand_alone_come_back,
                numbers_come_back_as_they_were_written,
                keys_that_stand_twice_come_back,
                characters_of_every_kind_come_back,
                data_of_every_kind_come_back,
                deep_nesting_comes_back,
                a_large_event_comes_back,
                citations_come_back,
                citations_that_were_read_as_ranges_come_back_as_a_plain_list,
                surface_operations_of_every_kind_come_back,
                times_of_every_kind_come_back,
                marks_of_ignorable_events_come_back,
                types_of_every_spelling_come_back,
                an_event_can_be_stored_in_two_sessions,
            }
            flush {
                a_flush_stores_an_empty_session,
                a_flushed_empty_session_goes_on_like_any_other,
                a_flushed_empty_session_takes_its_first_batch_after_reopening,
                a_flush_leaves_the_log_as_it_is,
                a_reader_that_saw_a_pending_session_follows_it_through_a_flush,
                a_flush_of_the_store_stores_every_session_that_is_open_for_writing,
                a_closed_handle_counts_as_flushed,
                a_dropped_handle_counts_as_flushed,
                a_store_without_writers_can_be_flushed,
            }
            close {
                every_call_on_a_closed_writer_is_refused,
                every_call_on_a_closed_writer_of_a_pending_session_is_refused,
                that_a_handle_is_closed_outranks_its_access,
                that_a_handle_is_closed_outranks_the_content,
                that_a_handle_is_closed_outranks_the_next_owner,
                a_second_close_does_nothing,
                a_second_close_does_not_end_the_session_of_the_next_creator,
                a_closed_handle_still_tells_what_it_was,
                a_session_that_is_closed_before_anything_was_stored_never_existed,
                a_session_that_is_dropped_before_anything_was_stored_never_existed,
                readers_of_a_session_that_never_existed_find_it_gone,
                readers_of_a_session_that_never_existed_do_not_take_its_successor_for_it,
                the_id_of_a_session_that_never_existed_is_free,
                closing_a_reader_disturbs_nobody,
                readers_outlive_the_writer,
                closing_keeps_all_that_was_acknowledged,
            }
            stat {
                of_an_absent_session_nothing_is_told,
                a_stored_session_is_told_with_header_and_state,
                the_count_and_the_last_time_follow_every_append,
                what_is_told_once_of_a_stored_log_is_told_always,
                the_size_grows_with_what_is_stored,
                a_writer_is_told_as_owner_and_a_reader_is_not,
                the_activity_of_a_session_passes_all_others_with_every_append,
            }
            revision {
                a_revision_stays_while_nothing_happens,
                a_pending_session_has_a_revision_that_stays,
                every_append_changes_the_revision,
                an_append_changes_the_revision_of_its_own_session_alone,
                opening_reading_and_closing_leave_the_revision,
                a_change_of_ownership_leaves_the_revision,
                refused_calls_leave_all_revisions_and_the_order,
                asking_changes_nothing,
                removal_and_creation_anew_with_equal_events_change_the_revision,
                equal_logs_in_different_stores_have_different_revisions,
                equal_logs_of_different_sessions_can_be_told_apart_by_id_and_revision,
            }
            list {
                an_empty_store_lists_nothing_in_one_page,
                the_most_recently_written_session_stands_first,
                an_append_moves_a_session_to_the_front_however_old_its_events,
                a_clock_that_was_wrong_once_pins_no_session_to_the_front,
                the_order_of_activity_is_that_of_the_told_activities,
                by_creation_the_newest_stands_first_and_ties_stand_by_id,
                ties_stand_in_the_order_of_ids_as_text_of_any_script,
                pages_of_every_size_give_every_session_once_in_order,
                a_page_gives_the_same_snapshots_as_the_whole_list,
                a_cursor_can_be_kept_as_text,
                a_text_that_is_no_cursor_is_refused,
                a_cursor_of_another_order_is_refused,
                a_cursor_of_another_store_is_refused,
                a_cursor_can_be_used_when_its_store_was_reopened,
                a_limit_of_zero_is_refused,
                a_pending_session_stands_in_every_list_once,
                a_session_is_listed_once_when_it_is_stored_between_two_pages,
                a_list_goes_on_behind_a_session_that_was_removed_meanwhile,
                a_list_by_creation_is_whole_whatever_is_written_meanwhile,
                a_session_that_is_created_meanwhile_disturbs_no_list,
                a_list_by_creation_shows_what_stays_once_while_others_write_create_and_remove,
                a_list_by_activity_shows_none_twice_and_all_that_are_not_written_meanwhile,
                a_pending_session_is_shown_once_when_it_is_stored_while_the_pages_are_turned,
            }
            list_filter {
                each_part_of_a_filter_lets_through_what_it_asks_for,
                sessions_are_found_by_when_they_were_last_active,
                a_session_must_be_let_through_by_every_part,
                a_part_without_values_lets_nothing_through,
                filtered_pages_of_every_size_give_every_session_once_in_order,
                sessions_that_are_being_written_are_found_and_those_that_are_not,
                texts_of_every_kind_are_found_however_they_are_spelled,
                a_cursor_of_another_filter_is_refused,
            }
            remove {
                a_removed_session_is_gone,
                only_the_first_removal_finds_a_session,
                a_session_that_was_written_since_is_not_removed_at_an_earlier_revision,
                an_empty_stored_session_can_be_removed,
                a_session_with_a_writer_is_not_removed,
                a_pending_session_has_a_writer_and_is_not_removed,
                a_removal_that_found_nothing_leaves_the_id_free,
                a_refused_removal_takes_no_ownership,
                a_session_that_is_created_anew_starts_empty,
                a_reader_of_a_removed_session_finds_it_gone,
                a_reader_of_a_removed_session_does_not_take_its_successor_for_it,
                other_sessions_stay_as_they_are,
            }
            refusal {
                an_event_of_unknown_type_is_stored_and_refused_by_seq_and_type,
                handles_that_were_open_before_refuse_to_read_an_unknown_type_wherever_it_stands,
                a_writer_goes_on_behind_an_event_that_it_does_not_know,
                a_refused_write_opening_releases_its_claim,
                a_refused_opening_changes_nothing,
                an_unknown_type_as_the_last_event_is_refused,
                an_unknown_type_as_the_only_event_is_refused,
                known_events_after_an_unknown_one_do_not_hide_it,
                of_several_unknown_types_the_first_event_is_named,
                a_type_that_differs_from_a_known_one_in_case_or_by_a_space_is_unknown,
                an_unknown_type_that_is_marked_ignorable_is_read,
                a_mark_on_one_event_does_not_excuse_another_of_its_type,
                a_log_that_is_read_uninterpreted_can_be_read_in_windows,
                a_log_of_unknown_types_is_told_like_any_other,
                other_sessions_are_read_beside_a_refused_one,
                a_log_of_a_newer_format_is_stored_and_refused_as_newer,
                a_log_of_an_older_format_is_stored_and_refused_as_older,
                a_log_of_the_first_format_is_stored_and_refused_as_older,
                an_empty_log_of_another_format_is_refused_too,
                the_version_is_refused_before_the_types,
                a_refused_session_can_be_removed,
            }
            tail {
                a_torn_tail_is_never_given,
                opening_and_reading_leave_a_torn_tail_where_it_is,
                the_first_append_cuts_a_torn_tail,
                a_torn_tail_takes_no_other_session_with_it,
            }
            instance {
                a_capability_that_is_absent_is_refused,
                a_created_session_is_invisible_to_other_stores_until_its_first_batch_is_stored,
                a_created_session_is_invisible_to_other_stores_until_it_is_flushed,
                a_session_that_never_existed_leaves_no_trace_in_other_stores,
                a_pending_session_of_another_store_is_none_that_could_be_removed,
                an_append_is_seen_in_other_stores_by_handles_old_and_new,
                a_writer_keeps_the_writers_of_other_stores_out,
                a_session_with_a_writer_in_another_store_is_not_removed,
                a_removal_is_seen_in_other_stores,
                writers_of_two_stores_take_turns_at_one_log,
                two_stores_tell_the_same_of_what_is_stored,
                of_two_stores_that_create_one_id_the_first_to_store_it_wins,
                closing_the_loser_of_a_race_leaves_the_session_to_the_winner,
                two_stores_write_different_sessions_at_the_same_time,
                a_flush_of_one_store_leaves_the_pending_sessions_of_another,
            }
            thread {
                eight_threads_append_to_eight_sessions_while_others_read,
                the_calls_of_a_shared_handle_take_effect_one_after_another,
                no_view_of_a_handle_is_shorter_than_the_one_before,
                an_append_that_returned_is_seen_by_every_read_that_starts_later,
                a_batch_is_seen_whole_or_not_at_all,
                what_was_acknowledged_while_the_handle_closed_is_stored,
                a_store_can_be_flushed_while_handles_come_and_go,
                a_list_by_creation_is_whole_while_other_threads_append,
                a_session_that_is_removed_under_its_readers_is_whole_or_gone,
            }
            live {
                an_event_is_stored_in_the_background_once_its_window_has_passed,
                nothing_is_stored_before_the_window_has_passed,
                the_window_is_that_of_its_first_event_however_many_follow,
                what_is_queued_together_is_stored_as_one_batch_in_order,
                what_comes_while_a_batch_is_written_is_the_next_batch,
                a_background_write_that_fails_keeps_its_events_and_the_next_flush_stores_each_once,
                a_flush_that_fails_tells_so_and_the_next_one_stores_each_event_once,
                a_flush_is_a_barrier_for_all_that_was_appended_before,
                a_session_that_is_disposed_is_stored_and_given_up,
                a_disposal_that_cannot_store_gives_the_session_up_and_its_failure_is_contained,
                closing_stores_what_is_queued_and_makes_it_durable,
                closing_a_session_without_events_stores_nothing,
                a_close_behind_a_background_write_that_failed_stores_each_event_once,
                closing_while_nothing_can_be_stored_gives_the_session_up_and_tells_why,
                a_close_whose_own_end_fails_tells_so,
                a_close_that_can_neither_store_nor_end_tells_both,
                a_session_without_a_handle_is_not_stored_and_its_flush_succeeds,
                a_flush_of_the_router_stores_all_sessions_with_one_barrier,
                a_flush_of_the_router_tells_which_session_failed_and_stores_the_others,
                a_session_that_is_closed_while_the_router_flushes_counts_as_flushed,
                the_end_of_the_router_tells_what_failed_and_gives_all_sessions_up,
                the_end_of_the_router_stores_what_is_queued_and_gives_all_sessions_up,
                a_router_that_is_dropped_stores_what_is_queued,
                a_live_session_that_lost_its_handle_is_attached_again_with_all_that_came_meanwhile,
                a_session_is_not_attached_to_a_log_that_is_not_its_own,
            }
            lifecycle {
                a_created_session_without_events_is_not_stored,
                a_set_up_is_stored_before_the_session_is_published,
                a_set_up_that_fails_leaves_nothing_stored_and_the_id_free,
                the_id_of_a_stored_session_is_not_made_again,
                a_seed_is_stored_with_its_mark,
                resuming_ends_an_interrupted_turn_with_stored_events,
                resuming_five_times_stores_the_closers_once,
                a_death_at_any_step_of_a_resumption_leaves_each_batch_whole_or_none_and_the_next_goes_on,
                a_resumed_session_can_be_resumed_after_reopening,
                a_turn_whose_last_event_was_torn_is_ended_behind_what_is_whole,
                looking_at_an_interrupted_session_stores_nothing,
                a_finished_session_is_marked_once_when_it_is_resumed,
                a_compaction_leaves_the_export_of_what_was_before_as_it_was,
                a_session_with_a_writer_is_not_resumed,
                an_absent_session_is_not_resumed,
                a_log_that_breaks_a_rule_of_live_sessions_is_not_resumed_and_stays_as_it_is,
                a_fork_inherits_the_events_up_to_its_boundary,
                a_fork_behind_the_end_or_inside_a_turn_is_refused_and_creates_nothing,
            }
        }
    };
}

macro_rules! table {
    ([] $($verb:ident { $($name:ident,)* })*) => {
        /// Every case, verb by verb.
        pub const CASES: &[Case] = &[$($(
            Case { name: stringify!($name), verb: stringify!($verb), run: $verb::$name },
        )*)*];
    };
}
crate::__contract_cases!(table, []);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::CASES;

    /// The cases that stand in the source files, as `verb::name`.
    fn written() -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract");
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let verb = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let source = fs::read_to_string(&path).unwrap();
            for function in source.split("pub fn ").skip(1) {
                let (name, rest) = function.split_once('(').unwrap();
                let (arguments, _) = rest.split_once(')').unwrap();
                if arguments.contains("&dyn Fixture") {
                    assert!(found.insert(format!("{verb}::{name}")), "{verb}::{name} stands twice");
                }
            }
        }
        found
    }

    fn registered() -> BTreeSet<String> {
        CASES.iter().map(|case| format!("{}::{}", case.verb, case.name)).collect()
    }

    #[test]
    fn every_case_that_is_written_is_in_the_list() {
        let (written, registered) = (written(), registered());
        let astray: Vec<_> = written.symmetric_difference(&registered).collect();
        assert!(astray.is_empty(), "in the files or in the list alone: {astray:?}");
        assert_eq!(registered.len(), CASES.len(), "a case is in the list twice");
    }

    #[test]
    fn every_file_has_cases_or_is_known_to_have_none() {
        let with_cases: BTreeSet<_> = CASES.iter().map(|case| case.verb.to_owned()).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract");
        let mut files: BTreeSet<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        for other in ["mod", "cases", "fixture", "sample", "steps", "watched"] {
            assert!(files.remove(other), "{other}.rs is gone");
        }
        assert_eq!(files, with_cases);
    }

    #[test]
    fn a_name_tells_its_case_apart_from_all_others() {
        let names: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
    }
}

//! A store is caught that has one of these faults, by each of the cases beside it.

use crate::caught;

caught! {
    a_store_that_creates_what_exists: CreatesWhatExists => {
        create {
            the_id_of_a_pending_session_is_taken, the_id_of_a_stored_session_is_taken_with_a_writer_and_without,
            a_refused_creation_takes_no_ownership, the_id_of_a_stored_session_is_taken_after_reopening,
            of_many_simultaneous_creations_of_one_id_exactly_one_wins,
        }
        header { sessions_are_found_by_id_whatever_their_folder }
    }
    a_store_that_stores_when_creating: StoresWhenCreating => {
        create { a_created_session_is_visible_in_its_store_at_once }
        close { a_session_that_is_closed_before_anything_was_stored_never_existed }
        instance { a_created_session_is_invisible_to_other_stores_until_it_is_flushed }
    }
    a_store_that_hides_pending: HidesPending => {
        create { a_created_session_is_visible_in_its_store_at_once }
        header { a_plain_header_comes_back }
    }
    a_store_that_lists_pending_twice: ListsPendingTwice => {
        list { a_pending_session_stands_in_every_list_once }
    }
    a_store_that_takes_any_count: TakesAnyCount => {
        create {
            a_seeded_header_without_a_count_is_refused_and_creates_nothing,
            a_count_without_a_seeded_header_is_refused_and_creates_nothing,
            a_refused_argument_outranks_an_id_that_is_taken,
        }
        revision { refused_calls_leave_all_revisions_and_the_order }
    }
    a_store_that_forgets_the_count: ForgetsTheCount => {
        create {
            a_seeded_session_tells_how_much_it_inherited_from_the_start, a_stored_seed_tells_how_much_was_inherited,
            of_a_seed_within_a_seed_the_last_mark_counts, the_seed_length_of_an_old_header_is_its_inherited_count,
        }
        append_from { of_a_given_seed_the_last_mark_counts }
        close { a_closed_handle_still_tells_what_it_was }
    }
    a_store_that_inherits_all: InheritsAll => {
        create {
            a_mark_in_a_log_whose_header_tells_of_no_seed_counts_nothing,
            a_mark_in_a_log_whose_header_has_a_seed_length_counts_nothing, a_seed_may_be_empty,
            a_session_without_a_seed_inherited_nothing,
        }
        open { a_handle_tells_what_it_was_opened_for }
    }
    a_store_that_respells_headers: RespellsHeaders => {
        header {
            a_header_with_every_field_comes_back, a_header_whose_texts_are_empty_comes_back,
            a_header_in_a_foreign_order_and_spelling_comes_back, a_header_of_an_old_format_comes_back,
            a_header_of_a_newer_format_comes_back_with_keys_that_nobody_knows,
        }
        remove { a_session_that_is_created_anew_starts_empty }
    }
    a_store_that_folds_case: FoldsCase => {
        header { ids_that_differ_in_case_alone_are_different }
    }
    a_store_that_simplifies_ids: SimplifiesIds => {
        header { ids_that_look_like_paths_are_only_names, ids_of_any_script_are_kept_without_a_normal_form }
    }
    a_store_that_opens_what_is_absent: OpensWhatIsAbsent => {
        create { an_empty_place_has_no_sessions }
    }
    a_store_that_shares_ownership: SharesOwnership => {
        open {
            a_writer_keeps_others_out_before_its_session_is_stored,
            a_writer_keeps_others_out_after_its_session_is_stored, a_writer_of_a_stored_session_keeps_others_out,
            readers_need_no_ownership_and_take_none, a_reopened_store_has_no_owners,
        }
        close { closing_a_reader_disturbs_nobody }
        revision { a_change_of_ownership_leaves_the_revision }
        instance { a_writer_keeps_the_writers_of_other_stores_out }
    }
    a_store_that_owns_for_reading: OwnsForReading => {
        read { an_empty_log_gives_nothing_for_any_window }
    }
    a_store_that_names_another_holder: NamesAnotherHolder => {
        open { a_refusal_names_the_process_that_writes }
    }
    a_store_that_tells_the_wrong_access: TellsTheWrongAccess => {
        open { a_handle_tells_what_it_was_opened_for }
    }
    a_store_that_ignores_writes_of_readers: IgnoresWritesOfReaders => {
        open { the_access_outranks_the_content, a_reader_of_a_pending_session_does_not_store_it }
    }
    a_store_that_looks_at_the_batch_first: LooksAtTheBatchFirst => {
        close { that_a_handle_is_closed_outranks_the_content }
    }
    a_store_that_reads_once: ReadsOnce => {
        read {
            handles_that_were_open_before_an_append_see_it, a_reader_follows_the_log_from_one_writer_to_the_next,
            what_was_read_does_not_change_afterwards,
        }
        append { a_handle_reads_what_it_appended }
        flush { a_reader_that_saw_a_pending_session_follows_it_through_a_flush }
    }
    a_store_that_reads_too_much: ReadsTooMuch => {
        read { every_window_inside_the_log_is_that_slice }
        event { plain_events_come_back, data_of_every_kind_come_back }
        instance { an_append_is_seen_in_other_stores_by_handles_old_and_new }
    }
    a_store_that_reads_from_the_start: ReadsFromTheStart => {
        read { a_start_without_a_length_gives_the_rest, a_window_over_the_end_is_cut_there }
    }
    a_store_that_reads_the_last_past_the_end: ReadsTheLastPastTheEnd => {
        read {
            a_length_without_a_start_gives_the_beginning, every_window_inside_the_log_is_that_slice,
            past_the_end_there_is_nothing,
        }
        refusal { a_log_that_is_read_uninterpreted_can_be_read_in_windows }
    }
    a_store_that_reads_at_most_a_thousand: ReadsAtMostAThousand => {
        read { a_long_log_comes_back_whole_and_in_windows }
    }
    a_store_that_reads_and_revises: ReadsAndRevises => {
        read { reading_changes_nothing }
        append {
            a_batch_that_repeats_the_whole_log_is_refused_whole, a_batch_that_starts_too_late_is_refused_whole,
            a_batch_far_behind_the_end_is_refused_whole,
        }
        revision { opening_reading_and_closing_leave_the_revision }
    }
    a_store_that_drops_the_last_of_a_batch: DropsTheLastOfABatch => {
        read { the_whole_log_is_given_by_default, handles_that_are_opened_after_an_append_see_it }
        append { what_was_acknowledged_is_there_after_reopening, a_batch_goes_to_the_session_of_its_handle_alone }
        append_from { a_batch_that_is_given_makes_a_log, a_batch_that_is_given_continues_a_log }
        close { closing_keeps_all_that_was_acknowledged }
        instance { two_stores_write_different_sessions_at_the_same_time }
        thread {
            eight_threads_append_to_eight_sessions_while_others_read,
            the_calls_of_a_shared_handle_take_effect_one_after_another,
            no_view_of_a_handle_is_shorter_than_the_one_before,
            an_append_that_returned_is_seen_by_every_read_that_starts_later, a_batch_is_seen_whole_or_not_at_all,
            a_store_can_be_flushed_while_handles_come_and_go, a_list_by_creation_is_whole_while_other_threads_append,
        }
    }
    a_store_that_stores_a_part: StoresAPart => {
        append {
            a_batch_that_starts_too_early_is_refused_whole, a_batch_with_a_gap_inside_is_refused_whole,
            a_batch_that_repeats_a_seq_is_refused_whole, a_batch_that_goes_backwards_is_refused_whole,
            a_first_batch_that_does_not_start_at_zero_leaves_the_session_pending,
        }
    }
    a_store_that_stores_what_it_is_given: StoresWhatItIsGiven => {
        append_from {
            a_batch_whose_source_fails_is_refused_whole_with_that_failure,
            a_large_batch_whose_source_fails_late_is_refused_whole, a_given_batch_with_a_gap_is_refused_whole,
        }
    }
    a_store_that_names_the_wrong_seq: NamesTheWrongSeq => {
        append { the_next_writer_continues_at_the_stored_next_seq, a_reopened_store_continues_at_the_stored_next_seq }
        instance { writers_of_two_stores_take_turns_at_one_log }
    }
    a_store_that_refuses_after_a_refusal: RefusesAfterARefusal => {
        append { a_batch_at_the_end_of_all_seqs_stores_nothing }
    }
    a_store_that_writes_empty_batches: WritesEmptyBatches => {
        open { a_reader_can_neither_append_nor_flush_and_changes_nothing }
        append { an_empty_batch_does_nothing, an_empty_batch_does_not_store_a_pending_session }
        append_from { a_given_batch_without_events_does_nothing }
        close { every_call_on_a_closed_writer_is_refused }
    }
    a_store_that_flushes_nothing: FlushesNothing => {
        open { of_many_simultaneous_writers_exactly_one_wins }
        flush { a_flushed_empty_session_takes_its_first_batch_after_reopening }
        instance { a_created_session_is_invisible_to_other_stores_until_it_is_flushed }
    }
    a_store_that_flushes_once: FlushesOnce => {
        flush { a_flush_leaves_the_log_as_it_is }
    }
    a_store_that_flushes_no_handle: FlushesNoHandle => {
        flush {
            a_flush_of_the_store_stores_every_session_that_is_open_for_writing, a_closed_handle_counts_as_flushed,
            a_dropped_handle_counts_as_flushed,
        }
    }
    a_store_that_fails_to_flush_the_closed: FailsToFlushTheClosed => {
        flush { a_closed_handle_counts_as_flushed }
    }
    a_store_that_fails_to_flush_nothing: FailsToFlushNothing => {
        flush { a_store_without_writers_can_be_flushed }
        instance { a_flush_of_one_store_leaves_the_pending_sessions_of_another }
    }
    a_store_that_reads_when_closed: ReadsWhenClosed => {
        close {
            every_call_on_a_closed_writer_of_a_pending_session_is_refused, that_a_handle_is_closed_outranks_its_access,
            that_a_handle_is_closed_outranks_the_next_owner,
        }
    }
    a_store_that_takes_empty_batches_when_closed: TakesEmptyBatchesWhenClosed => {
        append_from { nothing_is_taken_from_a_batch_that_may_not_be_stored }
        close { every_call_on_a_closed_writer_is_refused }
    }
    a_store_that_closes_once: ClosesOnce => {
        open { a_closed_writer_that_is_dropped_later_leaves_the_next_one_alone }
        close { a_second_close_does_nothing, a_second_close_does_not_end_the_session_of_the_next_creator }
    }
    a_store_that_keeps_ownership_when_closed: KeepsOwnershipWhenClosed => {
        open { closing_the_writer_makes_room_for_the_next, writers_of_different_sessions_do_not_meet }
        flush { a_flushed_empty_session_goes_on_like_any_other }
        thread { what_was_acknowledged_while_the_handle_closed_is_stored }
    }
    a_store_that_keeps_ownership_when_dropped: KeepsOwnershipWhenDropped => {
        open { dropping_the_writer_makes_room_for_the_next }
    }
    a_store_that_stores_when_closing: StoresWhenClosing => {
        append { a_session_whose_only_batch_was_refused_never_existed }
        close {
            a_session_that_is_dropped_before_anything_was_stored_never_existed,
            the_id_of_a_session_that_never_existed_is_free,
        }
        instance { a_session_that_never_existed_leaves_no_trace_in_other_stores }
    }
    a_store_that_erases_when_closing: ErasesWhenClosing => {
        append { batches_of_every_size_make_one_log }
        close { readers_outlive_the_writer }
    }
    a_store_that_tells_of_the_absent: TellsOfTheAbsent => {
        open { an_absent_session_is_not_found_and_stays_absent }
        close { a_session_that_is_closed_before_anything_was_stored_never_existed }
        stat { of_an_absent_session_nothing_is_told }
    }
    a_store_that_miscounts: Miscounts => {
        flush { a_flush_stores_an_empty_session }
        tail { a_torn_tail_is_never_given }
    }
    a_store_that_tells_the_largest_time: TellsTheLargestTime => {
        stat { the_count_and_the_last_time_follow_every_append }
    }
    a_store_that_tells_sometimes: TellsSometimes => {
        stat { what_is_told_once_of_a_stored_log_is_told_always }
    }
    a_store_that_tells_one_size: TellsOneSize => {
        stat { the_size_grows_with_what_is_stored }
    }
    a_store_that_tells_an_owner: TellsAnOwner => {
        stat { a_writer_is_told_as_owner_and_a_reader_is_not }
    }
    a_store_that_tells_one_activity: TellsOneActivity => {
        stat { the_activity_of_a_session_passes_all_others_with_every_append }
        list { the_order_of_activity_is_that_of_the_told_activities }
    }
    a_store_that_tells_another_process: TellsAnotherProcess => {
        stat { a_writer_is_told_as_owner_and_a_reader_is_not }
    }
    a_store_that_tells_no_header: TellsNoHeader => {
        header {
            ids_that_look_like_paths_are_only_names, ids_that_differ_in_case_alone_are_different,
            ids_of_any_script_are_kept_without_a_normal_form, an_id_of_the_greatest_length_can_be_used,
        }
    }
    a_store_that_tells_another_revision_in_lists: TellsAnotherRevisionInLists => {
        revision { a_revision_stays_while_nothing_happens }
    }
    a_store_that_has_one_revision: HasOneRevision => {
        revision {
            a_pending_session_has_a_revision_that_stays, every_append_changes_the_revision,
            an_append_changes_the_revision_of_its_own_session_alone,
            equal_logs_of_different_sessions_can_be_told_apart_by_id_and_revision,
        }
    }
    a_store_that_has_a_new_revision: HasANewRevision => {
        revision { a_revision_stays_while_nothing_happens }
    }
    a_store_that_counts_for_a_revision: CountsForARevision => {
        remove { a_session_that_was_written_since_is_not_removed_at_an_earlier_revision }
        revision {
            removal_and_creation_anew_with_equal_events_change_the_revision,
            equal_logs_in_different_stores_have_different_revisions,
        }
    }
    a_store_that_revises_when_opening: RevisesWhenOpening => {
        revision { opening_reading_and_closing_leave_the_revision, a_change_of_ownership_leaves_the_revision }
    }
    a_store_that_says_pending: SaysPending => {
        create { a_created_session_is_no_longer_pending_once_its_first_batch_is_stored }
        stat { a_stored_session_is_told_with_header_and_state }
        instance { a_created_session_is_invisible_to_other_stores_until_its_first_batch_is_stored }
    }
    a_store_that_orders_by_id: OrdersById => {
        list {
            the_most_recently_written_session_stands_first, by_creation_the_newest_stands_first_and_ties_stand_by_id,
        }
        instance { two_stores_tell_the_same_of_what_is_stored }
    }
    a_store_that_orders_by_time: OrdersByTime => {
        list {
            an_append_moves_a_session_to_the_front_however_old_its_events,
            a_clock_that_was_wrong_once_pins_no_session_to_the_front, a_pending_session_stands_in_every_list_once,
        }
    }
    a_store_that_repeats_at_pages: RepeatsAtPages => {
        list {
            ties_stand_in_the_order_of_ids_as_text_of_any_script, pages_of_every_size_give_every_session_once_in_order,
            a_page_gives_the_same_snapshots_as_the_whole_list, a_cursor_can_be_kept_as_text,
            a_session_is_listed_once_when_it_is_stored_between_two_pages,
            a_list_by_creation_is_whole_whatever_is_written_meanwhile,
            a_session_that_is_created_meanwhile_disturbs_no_list,
            a_list_by_activity_shows_none_twice_and_all_that_are_not_written_meanwhile,
            a_pending_session_is_shown_once_when_it_is_stored_while_the_pages_are_turned,
        }
    }
    a_store_that_skips_at_pages: SkipsAtPages => {
        list {
            pages_of_every_size_give_every_session_once_in_order, a_cursor_can_be_used_when_its_store_was_reopened,
            a_list_by_creation_shows_what_stays_once_while_others_write_create_and_remove,
        }
    }
    a_store_that_ignores_filters: IgnoresFilters => {
        list_filter {
            each_part_of_a_filter_lets_through_what_it_asks_for, sessions_are_found_by_when_they_were_last_active,
            a_session_must_be_let_through_by_every_part, a_part_without_values_lets_nothing_through,
            filtered_pages_of_every_size_give_every_session_once_in_order,
            sessions_that_are_being_written_are_found_and_those_that_are_not,
            texts_of_every_kind_are_found_however_they_are_spelled,
            a_cursor_of_another_filter_is_refused,
        }
    }
    a_store_that_filters_pages: FiltersPages => {
        list_filter { filtered_pages_of_every_size_give_every_session_once_in_order }
    }
    a_store_that_takes_no_values_for_all: TakesNoValuesForAll => {
        list_filter { a_part_without_values_lets_nothing_through }
    }
    a_store_that_ends_texts_at_nul: EndsTextsAtNul => {
        list_filter { texts_of_every_kind_are_found_however_they_are_spelled }
    }
    a_store_that_never_ends: NeverEnds => {
        list { an_empty_store_lists_nothing_in_one_page }
    }
    a_store_that_one_page: OnePage => {
        list { pages_of_every_size_give_every_session_once_in_order }
    }
    a_store_that_takes_any_query: TakesAnyQuery => {
        list {
            a_text_that_is_no_cursor_is_refused, a_cursor_of_another_order_is_refused,
            a_cursor_of_another_store_is_refused, a_limit_of_zero_is_refused,
        }
        list_filter { a_cursor_of_another_filter_is_refused }
    }
    a_store_that_removes_anything: RemovesAnything => {
        revision { asking_changes_nothing }
        remove { only_the_first_removal_finds_a_session, a_removal_that_found_nothing_leaves_the_id_free }
        instance { a_pending_session_of_another_store_is_none_that_could_be_removed }
    }
    a_store_that_removes_nothing: RemovesNothing => {
        remove { a_removed_session_is_gone }
    }
    a_store_that_removes_under_writers: RemovesUnderWriters => {
        remove {
            a_session_with_a_writer_is_not_removed, a_pending_session_has_a_writer_and_is_not_removed,
            a_refused_removal_takes_no_ownership,
        }
        instance { a_session_with_a_writer_in_another_store_is_not_removed }
    }
    a_store_that_removes_all: RemovesAll => {
        list { a_list_goes_on_behind_a_session_that_was_removed_meanwhile }
        remove { other_sessions_stay_as_they_are }
        refusal { a_refused_session_can_be_removed }
    }
    a_store_that_claims_what_it_removes: ClaimsWhatItRemoves => {
        remove { a_removed_session_is_gone, an_empty_stored_session_can_be_removed }
    }
    a_store_that_reads_the_removed: ReadsTheRemoved => {
        close { readers_of_a_session_that_never_existed_find_it_gone }
        remove { a_reader_of_a_removed_session_finds_it_gone }
        thread { a_session_that_is_removed_under_its_readers_is_whole_or_gone }
    }
    a_store_that_reads_the_successor: ReadsTheSuccessor => {
        close { readers_of_a_session_that_never_existed_do_not_take_its_successor_for_it }
        remove { a_reader_of_a_removed_session_does_not_take_its_successor_for_it }
        instance { a_removal_is_seen_in_other_stores }
    }
    a_store_that_interprets_all: InterpretsAll => {
        refusal { an_unknown_type_as_the_only_event_is_refused, known_events_after_an_unknown_one_do_not_hide_it }
    }
    a_store_that_refuses_the_ignorable: RefusesTheIgnorable => {
        event { marks_of_ignorable_events_come_back, types_of_every_spelling_come_back }
        refusal { an_unknown_type_that_is_marked_ignorable_is_read }
    }
    a_store_that_excuses_by_type: ExcusesByType => {
        refusal { a_mark_on_one_event_does_not_excuse_another_of_its_type }
    }
    a_store_that_looks_at_the_slice_only: LooksAtTheSliceOnly => {
        refusal { handles_that_were_open_before_refuse_to_read_an_unknown_type_wherever_it_stands }
    }
    a_store_that_refuses_to_store: RefusesToStore => {
        refusal { a_writer_goes_on_behind_an_event_that_it_does_not_know }
    }
    a_store_that_names_the_first_event: NamesTheFirstEvent => {
        refusal {
            an_event_of_unknown_type_is_stored_and_refused_by_seq_and_type, a_refused_write_opening_releases_its_claim,
            a_refused_opening_changes_nothing, an_unknown_type_as_the_last_event_is_refused,
            of_several_unknown_types_the_first_event_is_named,
            a_type_that_differs_from_a_known_one_in_case_or_by_a_space_is_unknown,
            a_log_of_unknown_types_is_told_like_any_other, other_sessions_are_read_beside_a_refused_one,
        }
    }
    a_store_that_confuses_versions: ConfusesVersions => {
        refusal {
            a_log_of_a_newer_format_is_stored_and_refused_as_newer,
            a_log_of_an_older_format_is_stored_and_refused_as_older,
            a_log_of_the_first_format_is_stored_and_refused_as_older, an_empty_log_of_another_format_is_refused_too,
            the_version_is_refused_before_the_types,
        }
    }
    a_store_that_hides_the_refused: HidesTheRefused => {
        refusal {
            a_log_of_unknown_types_is_told_like_any_other, a_log_of_a_newer_format_is_stored_and_refused_as_newer,
        }
    }
    a_store_that_keeps_the_claim_of_the_refused: KeepsTheClaimOfTheRefused => {
        refusal { a_refused_write_opening_releases_its_claim }
    }
    a_store_that_acknowledges_the_loser: AcknowledgesTheLoser => {
        instance {
            of_two_stores_that_create_one_id_the_first_to_store_it_wins,
            closing_the_loser_of_a_race_leaves_the_session_to_the_winner,
        }
    }
    a_store_that_keeps_values_only: KeepsValuesOnly => {
        event {
            a_foreign_order_of_keys_comes_back, an_odd_spelling_comes_back,
            citations_that_were_read_as_ranges_come_back_as_a_plain_list, surface_operations_of_every_kind_come_back,
            an_event_can_be_stored_in_two_sessions,
        }
    }
    a_store_that_reparses_data: ReparsesData => {
        event {
            surrogates_that_stand_alone_come_back, numbers_come_back_as_they_were_written,
            keys_that_stand_twice_come_back, characters_of_every_kind_come_back, deep_nesting_comes_back,
            a_large_event_comes_back,
        }
    }
    a_store_that_loses_the_rare: LosesTheRare => {
        event { citations_come_back }
    }
    a_store_that_mends_times: MendsTimes => {
        event { times_of_every_kind_come_back }
    }
    a_store_that_gives_torn_tails: GivesTornTails => {
        tail {
            a_torn_tail_is_never_given, opening_and_reading_leave_a_torn_tail_where_it_is,
            the_first_append_cuts_a_torn_tail, a_torn_tail_takes_no_other_session_with_it,
        }
    }
    a_store_that_cuts_too_much: CutsTooMuch => {
        tail { a_torn_tail_is_never_given, the_first_append_cuts_a_torn_tail }
    }
    a_store_that_denies_its_capabilities: DeniesItsCapabilities => {
        instance { a_capability_that_is_absent_is_refused }
    }
}

//! The same for the cases of live sessions: of what a store does wrong, what a host notices.

use crate::caught;

caught! {
    a_store_that_stores_no_batch: StoresNoBatch => {
        live {
            an_event_is_stored_in_the_background_once_its_window_has_passed,
            the_window_is_that_of_its_first_event_however_many_follow,
            what_is_queued_together_is_stored_as_one_batch_in_order,
            closing_stores_what_is_queued_and_makes_it_durable,
        }
        lifecycle { a_set_up_is_stored_before_the_session_is_published, a_seed_is_stored_with_its_mark }
    }
    a_store_that_holds_batches_back: HoldsBatchesBack => {
        live {
            an_event_is_stored_in_the_background_once_its_window_has_passed,
            what_comes_while_a_batch_is_written_is_the_next_batch,
            a_flush_of_the_router_stores_all_sessions_with_one_barrier,
            a_flush_of_the_router_tells_which_session_failed_and_stores_the_others,
            a_live_session_that_lost_its_handle_is_attached_again_with_all_that_came_meanwhile,
        }
        lifecycle {
            a_set_up_is_stored_before_the_session_is_published,
            a_death_at_any_step_of_a_resumption_leaves_each_batch_whole_or_none_and_the_next_goes_on,
        }
    }
    a_store_that_drops_the_last_of_a_batch_of_a_live_session: DropsTheLastOfABatch => {
        live {
            what_is_queued_together_is_stored_as_one_batch_in_order,
            what_comes_while_a_batch_is_written_is_the_next_batch,
            a_background_write_that_fails_keeps_its_events_and_the_next_flush_stores_each_once,
            a_flush_that_fails_tells_so_and_the_next_one_stores_each_event_once,
            a_flush_is_a_barrier_for_all_that_was_appended_before,
            a_session_that_is_disposed_is_stored_and_given_up,
            a_disposal_that_cannot_store_gives_the_session_up_and_its_failure_is_contained,
            closing_stores_what_is_queued_and_makes_it_durable,
            a_close_behind_a_background_write_that_failed_stores_each_event_once,
            closing_while_nothing_can_be_stored_gives_the_session_up_and_tells_why,
            a_close_whose_own_end_fails_tells_so,
            a_flush_of_the_router_stores_all_sessions_with_one_barrier,
            a_flush_of_the_router_tells_which_session_failed_and_stores_the_others,
            the_end_of_the_router_tells_what_failed_and_gives_all_sessions_up,
            the_end_of_the_router_stores_what_is_queued_and_gives_all_sessions_up,
            a_router_that_is_dropped_stores_what_is_queued,
        }
        lifecycle {
            a_seed_is_stored_with_its_mark,
            resuming_ends_an_interrupted_turn_with_stored_events,
            a_compaction_leaves_the_export_of_what_was_before_as_it_was,
        }
    }
    a_store_that_flushes_a_live_session_once: FlushesOnce => {
        live { a_flush_is_a_barrier_for_all_that_was_appended_before }
    }
    a_store_that_fails_to_close: FailsToClose => {
        live {
            closing_stores_what_is_queued_and_makes_it_durable,
            a_close_that_can_neither_store_nor_end_tells_both,
            the_end_of_the_router_stores_what_is_queued_and_gives_all_sessions_up,
            the_end_of_the_router_tells_what_failed_and_gives_all_sessions_up,
        }
        lifecycle { resuming_five_times_stores_the_closers_once }
    }
    a_store_that_fails_to_flush_the_closed_beside_live_sessions: FailsToFlushTheClosed => {
        live { a_session_that_is_closed_while_the_router_flushes_counts_as_flushed }
    }
    a_store_that_fails_to_flush_nothing_beside_a_session_without_a_handle: FailsToFlushNothing => {
        live { a_session_without_a_handle_is_not_stored_and_its_flush_succeeds }
    }
    a_store_that_makes_live_sessions_for_reading: OwnsForReading => {
        live {
            nothing_is_stored_before_the_window_has_passed,
            a_session_that_is_disposed_is_stored_and_given_up,
        }
        lifecycle { a_session_with_a_writer_is_not_resumed }
    }
    a_store_that_keeps_the_ownership_of_a_session_that_was_not_begun: KeepsOwnershipWhenDropped => {
        live { a_session_is_not_attached_to_a_log_that_is_not_its_own }
        lifecycle {
            a_set_up_that_fails_leaves_nothing_stored_and_the_id_free,
            a_log_that_breaks_a_rule_of_live_sessions_is_not_resumed_and_stays_as_it_is,
            a_death_at_any_step_of_a_resumption_leaves_each_batch_whole_or_none_and_the_next_goes_on,
        }
    }
    a_store_that_stores_live_sessions_when_creating: StoresWhenCreating => {
        live { closing_a_session_without_events_stores_nothing }
        lifecycle {
            a_created_session_without_events_is_not_stored, a_set_up_that_fails_leaves_nothing_stored_and_the_id_free,
        }
    }
    a_store_that_creates_live_sessions_that_exist: CreatesWhatExists => {
        lifecycle {
            the_id_of_a_stored_session_is_not_made_again,
            a_fork_behind_the_end_or_inside_a_turn_is_refused_and_creates_nothing,
        }
    }
    a_store_that_shares_the_ownership_of_live_sessions: SharesOwnership => {
        lifecycle { a_session_with_a_writer_is_not_resumed }
    }
    a_store_that_resumes_what_is_absent: OpensWhatIsAbsent => {
        lifecycle { an_absent_session_is_not_resumed }
    }
    a_store_that_forgets_how_much_a_fork_inherited: ForgetsTheCount => {
        lifecycle { a_fork_inherits_the_events_up_to_its_boundary }
    }
    a_store_that_repairs_when_reading: RepairsWhenReading => {
        lifecycle {
            looking_at_an_interrupted_session_stores_nothing,
            a_death_at_any_step_of_a_resumption_leaves_each_batch_whole_or_none_and_the_next_goes_on,
        }
    }
    a_store_that_marks_every_opening: MarksEveryOpening => {
        lifecycle {
            resuming_ends_an_interrupted_turn_with_stored_events, resuming_five_times_stores_the_closers_once,
            a_finished_session_is_marked_once_when_it_is_resumed,
            a_log_that_breaks_a_rule_of_live_sessions_is_not_resumed_and_stays_as_it_is,
        }
    }
    a_store_that_forgets_what_is_replaced: ForgetsWhatIsReplaced => {
        lifecycle { a_compaction_leaves_the_export_of_what_was_before_as_it_was }
    }
    a_store_that_erases_live_sessions_when_closing: ErasesWhenClosing => {
        live { a_live_session_that_lost_its_handle_is_attached_again_with_all_that_came_meanwhile }
        lifecycle { a_resumed_session_can_be_resumed_after_reopening }
    }
    a_store_that_gives_the_torn_tail_of_a_live_session: GivesTornTails => {
        lifecycle { a_turn_whose_last_event_was_torn_is_ended_behind_what_is_whole }
    }
}

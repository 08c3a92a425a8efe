//! Bios, requests, and the pairing of completions with issues.

use expect_test::expect;

use super::text::{check, show};
use crate::assembler::AssemblerOptions;
use fonio_core::Nanos;

#[test]
fn one_request_with_all_its_events() {
    check(
        "
        Q 10 WS 100+8 t7
        G 11 WS 100+8 t7
        I 12 WS 100+8 t7
        D 20 WS 100+8 t90
        C 50 WS 100+8 t0 e0
        ",
        expect![[r#"
            bio 1: write sync 100+8 Q10 t7 in request 1
            request 1: write sync 100+8 Q10 I12 D20 C50 t7 e0
        "#]],
    );
}

/// The events that Android's kernels show by default.
#[test]
fn issue_and_completion_alone() {
    check(
        "
        D 20 R 100+8 t90
        C 50 R 100+8 e0
        ",
        expect![[r#"
            request 1: read 100+8 D20 C50 t90 e0
        "#]],
    );
}

/// zram and brd have no requests: the completion belongs to the bio.
#[test]
fn queue_and_completion_of_a_device_without_requests() {
    check(
        "
        Q 10 R 100+8 t7
        C 12 R 100+8
        Q 20 R 100+8 t7
        BIOC 22 R 100+8
        ",
        expect![[r#"
            bio 1: read 100+8 Q10 C12 t7
            bio 2: read 100+8 Q20 C22 t7
        "#]],
    );
}

#[test]
fn allocation_stands_for_the_queueing() {
    check(
        "
        START 10 WS 100+8 t7
        I 12 WS 100+8 t7
        D 20 WS 100+8 t90
        C 50 WS 100+8
        DONE 51 WS 100+0
        ",
        expect![[r#"
            request 1: write sync 100+8 Q10 I12 D20 C50 t7
            queued_from_allocation 1
        "#]],
    );
}

/// Perfetto's default: no issue and no completion, only the accounting of each request.
#[test]
fn accounting_alone() {
    check(
        "
        START 10 R 100+8 t7
        START 11 R 200+8 t7
        DONE 50 R 200+0
        DONE 60 R 100+0
        ",
        expect![[r#"
            request 1: read 200+8 Q11 C50 t7
            request 2: read 100+8 Q10 C60 t7
            completions_of_unissued 2
            queued_from_allocation 2
        "#]],
    );
}

#[test]
fn back_and_front_merges() {
    check(
        "
        Q 10 W 100+8 t7
        G 11 W 100+8 t7
        Q 12 W 108+8 t8
        M 13 W 108+8 t8
        Q 14 W 92+8 t9
        F 15 W 92+8 t9
        I 16 W 92+24 t7
        D 20 W 92+24 t90
        C 50 W 92+24
        ",
        expect![[r#"
            bio 3: write 92+8 Q14 t9 in request 1
            bio 1: write 100+8 Q10 t7 in request 1
            merge: bio 3 > request 1
            bio 2: write 108+8 Q12 t8 in request 1
            merge: bio 2 > request 1
            request 1: write 92+24 Q10 I16 D20 C50 t7
        "#]],
    );
}

/// blktrace shows this as M, too.
#[test]
fn requests_merged_into_one() {
    check(
        "
        Q 10 W 100+8 t7
        G 11 W 100+8 t7
        Q 12 W 116+8 t7
        G 13 W 116+8 t7
        Q 14 W 108+8 t7
        M 15 W 108+8 t7
        M 16 W 116+8 t7
        D 20 W 100+24 t90
        C 50 W 100+24
        ",
        expect![[r#"
            bio 1: write 100+8 Q10 t7 in request 1
            bio 3: write 108+8 Q14 t7 in request 1
            merge: bio 3 > request 1
            bio 2: write 116+8 Q12 t7 in request 1
            merge: bio 2 > request 1
            request 1: write 100+24 Q10 D20 C50 t7
        "#]],
    );
}

#[test]
fn merges_whose_bios_were_not_shown() {
    check(
        "
        START 10 W 100+8 t7
        D 20 W 100+16 t90
        C 50 W 100+16
        ",
        expect![[r#"
            request 1: write 100+16 Q10 D20 C50 t7
            queued_from_allocation 1
        "#]],
    );
}

#[test]
fn a_completion_in_parts() {
    check(
        "
        D 20 R 100+16
        C 40 R 100+8 e0
        C 50 R 108+8 e0
        ",
        expect![[r#"
            request 1: read 100+16 D20 C50 e0
        "#]],
    );
}

#[test]
fn a_part_in_error() {
    check(
        "
        D 20 R 100+16
        C 40 R 100+8 e-5
        C 50 R 108+8 e0
        ",
        expect![[r#"
            request 1: read 100+16 D20 C50 e-5
        "#]],
    );
}

#[test]
fn half_a_completion_is_none() {
    check(
        "
        D 20 R 100+16
        C 40 R 100+8
        ",
        expect![[r#"
            request 1: read 100+16 D20
            requests_open_at_end 1
        "#]],
    );
}

#[test]
fn requeue() {
    check(
        "
        Q 10 W 100+8 t7
        D 20 W 100+8 t90
        R 25 W 100+8
        I 26 W 100+8
        D 30 W 100+8 t91
        R 35 W 100+8
        D 40 W 100+8
        C 50 W 100+8
        D 60 W 300+8
        C 61 W 300+8
        ",
        expect![[r#"
            bio 1: write 100+8 Q10 t7 in request 1
            request 1: write 100+8 Q10 D20 again40 C50 requeues2 t7
            request 2: write 300+8 D60 C61 requeues0
        "#]],
    );
}

#[test]
fn requeue_after_a_part() {
    check(
        "
        D 20 W 100+16
        C 30 W 100+8
        R 31 W 108+8
        D 40 W 108+8
        C 50 W 108+8
        ",
        expect![[r#"
            request 1: write 100+16 D20 again40 C50 requeues1
        "#]],
    );
}

#[test]
fn requeue_and_completion_without_another_issue() {
    check(
        "
        D 20 W 100+8
        R 25 W 100+8
        C 50 W 100+8 e-5
        R 60 W 100+8
        ",
        expect![[r#"
            request 1: write 100+8 D20 C50 requeues1 e-5
            completions_of_requeued 1
            requeues_without_issue 1
        "#]],
    );
}

/// Both requests complete: first in, first out.
#[test]
fn equal_requests_in_flight_together() {
    check(
        "
        D 20 R 100+8
        D 24 R 100+8
        C 50 R 100+8
        C 55 R 100+8
        ",
        expect![[r#"
            request 1: read 100+8 D20 C50
            request 2: read 100+8 D24 C55
            ambiguous_completions 1
            duplicate_issues 1
        "#]],
    );
}

#[test]
fn sizes_and_directions_tell_requests_apart() {
    check(
        "
        D 20 R 100+8
        D 21 W 100+8
        D 22 R 100+16
        C 50 R 100+16
        C 51 W 100+8
        C 52 R 100+8
        ",
        expect![[r#"
            request 3: read 100+16 D22 C50
            request 2: write 100+8 D21 C51
            request 1: read 100+8 D20 C52
        "#]],
    );
}

/// The issue at 20 never completes; the sector is written repeatedly.
#[test]
fn a_lost_completion_spoils_one_request_only() {
    check(
        "
        D 10 W 500+8
        C 14 W 500+8
        D 20 W 100+8
        D 2000000000 W 100+8
        C 2000000005 W 100+8
        D 3000000000 W 100+8
        C 3000000004 W 100+8
        D 4000000000 W 100+8
        C 4000000006 W 100+8
        ",
        expect![[r#"
            request 1: write 500+8 D10 C14
            request 3: write 100+8 D2000000000 C2000000005
            request 2: write 100+8 D20
            request 4: write 100+8 D3000000000 C3000000004
            request 5: write 100+8 D4000000000 C4000000006
            ambiguous_completions 1
            duplicate_issues 2
            superseded_issues 1
        "#]],
    );
}

/// A request that was passed over completes if no newer one begins.
#[test]
fn an_older_equal_request_that_is_late_but_alive() {
    check(
        "
        D 20 W 100+8
        D 2000000000 W 100+8
        C 2000000005 W 100+8
        C 2000000100 W 100+8
        ",
        expect![[r#"
            request 2: write 100+8 D2000000000 C2000000005
            request 1: write 100+8 D20 C2000000100
            ambiguous_completions 1
            duplicate_issues 1
        "#]],
    );
}

/// A request in flight that overlaps another does not take the other's completion.
#[test]
fn a_stale_issue_of_another_size() {
    check(
        "
        D 20 W 100+8
        D 1000 W 96+16
        C 1005 W 96+16
        D 2000 W 100+16
        C 2005 W 100+16
        ",
        expect![[r#"
            request 2: write 96+16 D1000 C1005
            request 3: write 100+16 D2000 C2005
            request 1: write 100+8 D20
            requests_open_at_end 1
        "#]],
    );
}

#[test]
fn a_stale_bio_does_not_lend_its_queue_time() {
    check(
        "
        Q 1 W 100+8 t1
        Q 1000 W 100+8 t2
        D 1001 W 100+8
        C 1005 W 100+8
        Q 2000 W 100+8 t2
        D 2001 W 100+8
        C 2005 W 100+8
        ",
        expect![[r#"
            bio 2: write 100+8 Q1000 t2 in request 1
            request 1: write 100+8 Q1000 D1001 C1005 t2
            bio 1: write 100+8 Q1 t1
            bio 3: write 100+8 Q2000 t2 in request 2
            request 2: write 100+8 Q2000 D2001 C2005 t2
            ambiguous_issues 1
            superseded_bios 1
        "#]],
    );
}

#[test]
fn the_captures_edges() {
    check(
        "
        C 10 W 100+8
        Q 20 W 200+8 t7
        G 21 W 200+8 t7
        Q 22 W 300+8 t7
        D 30 W 400+8
        C 40 W 0+0
        ",
        expect![[r#"
            bio 1: write 200+8 Q20 t7 in request 2
            request 2: write 200+8 Q20 t7
            bio 2: write 300+8 Q22 t7
            request 1: write 400+8 D30
            bios_without_request 1
            completions_without_issue 1
            flush_sequence_ends 1
            requests_never_issued 1
            requests_open_at_end 1
        "#]],
    );
}

#[test]
fn an_issue_that_was_not_seen() {
    check(
        "
        D 10 R 900+8
        C 11 R 900+8
        Q 20 W 200+8 t7
        C 40 W 200+8
        ",
        expect![[r#"
            request 1: read 900+8 D10 C11
            bio 1: write 200+8 Q20 t7 in request 2
            request 2: write 200+8 Q20 C40 t7
            completions_of_unissued 1
        "#]],
    );
}

#[test]
fn lost_events_cut_everything_open() {
    check(
        "
        Q 5 W 300+8 t7
        D 10 W 100+8
        D 20 W 200+8
        C 25 W 200+8
        L 30-60

        D 50 W 400+8
        C 70 W 100+8
        C 75 W 400+8
        D 80 W 300+8
        C 90 W 300+8
        ",
        expect![[r#"
            request 2: write 200+8 D20 C25
            bio 1: write 300+8 Q5 t7
            request 1: write 100+8 D10
            request 3: write 400+8 D50
            request 4: write 300+8 D80 C90
            bios_without_request 1
            completions_after_lost_events 2
            gaps_of_lost_events 1
            requests_cut_by_lost_events 2
        "#]],
    );
}

#[test]
fn events_out_of_order_in_a_batch() {
    check(
        "
        C 50 R 100+8
        D 20 R 100+8
        ",
        expect![[r#"
            request 1: read 100+8 D20 C50
            events_out_of_order 1
        "#]],
    );
}

#[test]
fn an_issue_in_the_batch_after_its_completion() {
    check(
        "
        C 50 R 100+8 e0
        D 60 R 300+8

        D 20 R 100+8
        C 70 R 300+8
        ",
        expect![[r#"
            request 2: read 100+8 D20 C50 e0
            request 1: read 300+8 D60 C70
            events_out_of_order 1
        "#]],
    );
}

/// Their size is shown only at completion, and their sector never.
#[test]
fn passthrough_commands() {
    check(
        "
        D 10 N 0+0
        C 20 N max+1
        ",
        expect![[r#"
            request 1: other 0+0 D10 C20
        "#]],
    );
}

#[test]
fn discards_of_several_ranges() {
    check(
        "
        Q 10 D 100+8 t7
        Q 11 D 108+8 t7
        M 11 D 108+8 t7
        D 20 D 100+16
        C 30 D 100+16
        ",
        expect![[r#"
            bio 1: discard 100+8 Q10 t7 in request 1
            bio 2: discard 108+8 Q11 t7 in request 1
            merge: bio 2 > request 1
            request 1: discard 100+16 Q10 D20 C30 t7
        "#]],
    );
}

/// The kernel does not show these merges.
#[test]
fn discards_of_several_ranges_that_do_not_touch() {
    check(
        "
        Q 9 D 700+8 t7
        G 9 D 700+8 t7
        Q 10 D 100+8 t7
        G 10 D 100+8 t7
        Q 11 D 500+16 t7
        Q 12 D 300+8 t7
        D 20 D 100+32
        C 30 D 100+32
        D 40 D 700+16
        C 50 D 700+16
        ",
        expect![[r#"
            bio 2: discard 100+8 Q10 t7 in request 1
            bio 3: discard 500+16 Q11 t7 in request 1
            merge: bio 3 > request 1
            bio 4: discard 300+8 Q12 t7 in request 1
            merge: bio 4 > request 1
            request 1: discard 100+32 Q10 D20 C30 t7
            bio 1: discard 700+8 Q9 t7 in request 2
            request 2: discard 700+16 Q9 D40 C50 t7
            discard_merges_inferred 1
            merges_missing 1
        "#]],
    );
}

/// The split was not shown.
#[test]
fn a_bio_larger_than_its_request() {
    check(
        "
        Q 10 W 100+16 t7
        G 11 W 100+8 t7
        D 12 W 100+8 t7
        G 13 W 108+8 t7
        D 14 W 108+8 t7
        C 30 W 100+8
        C 31 W 108+8
        ",
        expect![[r#"
            split: bio 1 > bio 2
            bio 1: write 100+8 Q10 t7 in request 1
            bio 2: write 108+8 Q10 t7 in request 2
            request 1: write 100+8 Q10 D12 C30 t7
            request 2: write 108+8 Q10 D14 C31 t7
            splits_inferred 1
        "#]],
    );
}

#[test]
fn the_horizon_and_the_limit() {
    let events = "
        D 10 W 100+8
        D 20 W 200+8
        D 30 W 300+8
        D 40 W 400+8

        C 150 W 200+8
        C 151 W 400+8
    ";
    let options = AssemblerOptions { horizon: Nanos(115), open_max: 3, disorder: Nanos(0) };
    expect![[r#"
        request 1: write 100+8 D10
        settled 20
        request 2: write 200+8 D20 C150
        request 4: write 400+8 D40 C151
        request 3: write 300+8 D30
        settled 151
        requests_beyond_horizon 1
        requests_beyond_open_limit 1
    "#]]
    .assert_eq(&show(events, options, true));
}

#[test]
fn what_is_settled() {
    let events = "
        Q 10 W 100+8
        D 20 W 100+8
        D 25 W 200+8

        C 30 W 200+8

        C 40 W 100+8
        D 45 W 300+8

        C 50 W 300+8
    ";
    let options = AssemblerOptions { disorder: Nanos(3), ..AssemblerOptions::default() };
    expect![[r#"
        bio 1: write 100+8 Q10 in request 1
        settled 20
        request 2: write 200+8 D25 C30
        request 1: write 100+8 Q10 D20 C40
        settled 42
        request 3: write 300+8 D45 C50
        settled 47
    "#]]
    .assert_eq(&show(events, options, true));
}

/// An empty bio that grew is emitted when an equal place is queued again; it must not absorb the new bio.
#[test]
fn what_is_given_up_leaves_the_newcomer_alone() {
    check(
        "
        Q 10 W 100+0
        I 11 W 100+8
        Q 1000 W 100+0
        I 1001 W 100+8
        D 1010 W 100+0
        Q 1011 W 100+8 t7
        D 1012 W 100+8 t7
        C 1020 W 100+8
        ",
        expect![[r#"
            bio 2: write 100+0 Q1000 in request 1
            bio 1: write 100+0 Q10 in request 2
            request 2: write 100+8 Q10 I11
            bio 3: write 100+8 Q1011 t7 in request 3
            request 3: write 100+8 Q1011 D1012 C1020 t7
            request 1: write 100+0 Q1000 I1001 D1010
            ambiguous_issues 1
            requests_open_at_end 1
            superseded_bios 1
        "#]],
    );
}

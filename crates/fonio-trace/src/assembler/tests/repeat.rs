//! Requests that are issued several times, and requests that are never issued.

use expect_test::expect;

use super::text::check;

/// A recording of atrace on a phone: the application issues, then kblockd, then a worker.
#[test]
fn a_request_handed_from_thread_to_thread() {
    check(
        "
        D 10 WS 100+8 t7
        D 12 WS 100+8 t90
        D 20 WS 100+8 t91
        C 50 WS 100+8 e0
        D 60 R 300+8 t7
        C 61 R 300+8 e0
        ",
        expect![[r#"
            request 2: read 300+8 D60 C61 t7 e0
            request 1: write sync 100+8 D10 again20 C50 t7 e0
            repeated_issues 2
        "#]],
    );
}

/// The place is written repeatedly, and handed over each time.
#[test]
fn an_equal_issue_after_the_completion_is_another_request() {
    check(
        "
        D 10 W 100+8 t7
        D 12 W 100+8 t90
        C 20 W 100+8
        D 30 W 100+8 t7
        D 32 W 100+8 t90
        C 40 W 100+8
        D 50 W 100+8 t7
        C 60 W 100+8
        ",
        expect![[r#"
            request 1: write 100+8 D10 again12 C20 t7
            request 2: write 100+8 D30 again32 C40 t7
            request 3: write 100+8 D50 C60 t7
            repeated_issues 2
        "#]],
    );
}

#[test]
fn as_many_completions_as_issues_are_as_many_requests() {
    check(
        "
        D 20 R 100+8 t7
        D 24 R 100+8 t8
        D 26 R 100+8 t9
        C 50 R 100+8 e0
        C 55 R 100+8 e-5
        C 57 R 100+8 e0
        ",
        expect![[r#"
            request 1: read 100+8 D20 C50 t7 e0
            request 2: read 100+8 D24 C55 t8 e-5
            request 3: read 100+8 D26 C57 t9 e0
            ambiguous_completions 2
            duplicate_issues 2
        "#]],
    );
}

/// Its bio shows that it is a request of its own, although its completion is missing.
#[test]
fn an_issue_with_a_bio_of_its_own_is_no_repeat() {
    check(
        "
        Q 10 W 100+8 t7
        D 20 W 100+8 t7
        Q 21 W 100+8 t8
        D 24 W 100+8 t8
        C 50 W 100+8
        ",
        expect![[r#"
            bio 1: write 100+8 Q10 t7 in request 1
            bio 2: write 100+8 Q21 t8 in request 2
            request 1: write 100+8 Q10 D20 C50 t7
            request 2: write 100+8 Q21 D24 t8
            ambiguous_completions 1
            duplicate_issues 1
            requests_open_at_end 1
        "#]],
    );
}

/// The request is inserted again after a requeue that the source does not show.
#[test]
fn an_insertion_alone_is_no_request() {
    check(
        "
        Q 8 W 100+8 t7
        I 9 W 100+8 t7
        D 10 W 100+8 t7
        I 15 W 100+8 t90
        D 20 W 100+8 t90
        C 50 W 100+8
        ",
        expect![[r#"
            bio 1: write 100+8 Q8 t7 in request 1
            request 1: write 100+8 Q8 I9 D10 again20 C50 t7
            repeated_issues 1
        "#]],
    );
}

#[test]
fn a_flush_handed_over() {
    check(
        "
        D 10 FF 0+0 t7
        D 12 FF 0+0 t90
        C 50 FF 0+0
        ",
        expect![[r#"
            request 1: flush preflush D10 again12 C50 t7
            repeated_issues 1
        "#]],
    );
}

#[test]
fn passthrough_commands_are_told_apart_by_nothing() {
    check(
        "
        D 10 N 0+0
        D 12 N 0+0
        C 20 N max+1
        C 22 N max+1
        ",
        expect![[r#"
            request 1: other 0+0 D10 C20
            request 2: other 0+0 D12 C22
            duplicate_issues 1
        "#]],
    );
}

#[test]
fn repeats_and_requeues_of_one_request() {
    check(
        "
        D 10 W 100+8 t7
        D 11 W 100+8 t90
        R 12 W 100+8
        D 20 W 100+8 t91
        C 50 W 100+8
        ",
        expect![[r#"
            request 1: write 100+8 D10 again20 C50 requeues1 t7
            repeated_issues 1
        "#]],
    );
}

/// In a trace of issues alone, nothing distinguishes a repeat from a request.
#[test]
fn without_completions_each_issue_is_a_request() {
    check(
        "
        D 10 W 100+8 t7
        D 20 W 100+8 t8
        D 30 W 100+8 t9
        ",
        expect![[r#"
            request 1: write 100+8 D10 t7
            request 2: write 100+8 D20 t8
            request 3: write 100+8 D30 t9
            requests_open_at_end 3
        "#]],
    );
}

#[test]
fn the_trace_ends_before_the_completion() {
    check(
        "
        D 5 R 300+8
        C 6 R 300+8
        D 10 W 100+8 t7
        D 20 W 100+8 t90
        ",
        expect![[r#"
            request 1: read 300+8 D5 C6
            request 2: write 100+8 D10 again20 t7
            repeated_issues 1
            requests_open_at_end 1
        "#]],
    );
}

/// A second later, an issue is no longer a hand-over, and no other completion is expected.
#[test]
fn what_comes_too_late() {
    check(
        "
        D 10 W 100+8
        D 1000000011 W 100+8
        C 1000000020 W 100+8
        D 2000000000 R 300+8
        D 2000000010 R 300+8
        C 2000000020 R 300+8
        C 3000000021 R 300+8
        ",
        expect![[r#"
            request 2: write 100+8 D1000000011 C1000000020
            request 3: read 300+8 D2000000000 again2000000010 C2000000020
            request 1: write 100+8 D10
            ambiguous_completions 1
            completions_without_issue 1
            duplicate_issues 1
            repeated_issues 1
            requests_without_completion 1
        "#]],
    );
}

/// Requests in flight at the end, and completions that were not seen.
#[test]
fn the_end_of_the_trace() {
    check(
        "
        D 10 R 100+8
        D 20 R 200+8
        C 2000000000 R 200+8
        D 3000000000 R 300+8
        C 3000000010 R 300+8
        D 3900000000 R 400+8
        C 4000000000 R 900+8
        ",
        expect![[r#"
            request 2: read 200+8 D20 C2000000000
            request 3: read 300+8 D3000000000 C3000000010
            request 1: read 100+8 D10
            request 4: read 400+8 D3900000000
            completions_without_issue 1
            requests_open_at_end 1
            requests_without_completion 1
        "#]],
    );
}

/// When the trace ends, the scheduler holds a write of three bios, one of which was merged in front.
#[test]
fn a_request_that_is_never_issued_has_its_merged_size() {
    check(
        "
        Q 10 W 100+8 t7
        G 11 W 100+8 t7
        I 12 W 100+8 t7
        Q 13 W 108+8 t8
        M 14 W 108+8 t8
        Q 15 W 92+8 t9
        F 16 W 92+8 t9
        Q 17 W 116+8 t8
        ",
        expect![[r#"
            bio 1: write 100+8 Q10 t7 in request 1
            bio 2: write 108+8 Q13 t8 in request 1
            merge: bio 2 > request 1
            bio 3: write 92+8 Q15 t9 in request 1
            merge: bio 3 > request 1
            request 1: write 92+24 Q10 I12 t7
            bio 4: write 116+8 Q17 t8
            bios_without_request 1
            requests_never_issued 1
        "#]],
    );
}

/// The bios were merged while plugged: the insertion shows the size.
#[test]
fn a_request_that_is_never_issued_has_the_size_of_its_insertion() {
    check(
        "
        START 10 W 100+8 t7
        I 12 W 100+64 t7
        START 13 R 500+8 t7
        ",
        expect![[r#"
            request 1: write 100+64 Q10 I12 t7
            request 2: read 500+8 Q13 t7
            queued_from_allocation 2
            requests_never_issued 2
        "#]],
    );
}

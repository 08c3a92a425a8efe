//! Flushes, preflushes and FUA.

use expect_test::expect;

use super::text::check;

#[test]
fn several_waiters_and_one_flush() {
    check(
        "
        Q 10 FWS 0+0 t7
        Q 11 FWS 0+0 t8
        D 20 FF 0+0 t90
        Q 22 FWS 0+0 t9
        C 50 FF max+0
        C 51 WS 0+0
        C 52 WS 0+0
        D 55 FF 0+0 t90
        C 60 FF max+0
        C 61 WS 0+0
        ",
        expect![[r#"
            bio 1: flush sync preflush Q10 t7 in request 1
            flush: bio 1 > request 1
            bio 2: flush sync preflush Q11 t8 in request 1
            flush: bio 2 > request 1
            request 1: flush sync preflush Q10 D20 C50 t7
            bio 3: flush sync preflush Q22 t9 in request 2
            flush: bio 3 > request 2
            request 2: flush sync preflush Q22 D55 C60 t9
            flush_sequence_ends 3
        "#]],
    );
}

/// ext4's commit block on a device without FUA.
#[test]
fn preflush_data_and_flush_instead_of_fua() {
    check(
        "
        START 10 FWFSM 600+2 t7
        D 20 FF 0+0 t90
        C 30 FF max+0
        I 31 WSM 600+2 t90
        D 32 WSM 600+2 t90
        C 40 WSM 600+2
        D 41 FF 0+0 t90
        C 50 FF max+0
        C 51 WSM 600+0
        ",
        expect![[r#"
            flush: request 2 > request 1
            request 1: flush preflush D20 C30 t90 cause7
            request 2: write sync meta fua preflush 600+2 Q10 I31 D32 C40 t7
            flush: request 2 > request 3
            request 3: flush preflush D41 C50 t90 cause7
            flush_sequence_ends 1
            queued_from_allocation 1
        "#]],
    );
}

#[test]
fn fua_that_the_device_does_itself() {
    check(
        "
        START 10 WFS 600+2 t7
        D 20 WFS 600+2 t7
        C 40 WFS 600+2
        D 60 FF 0+0 t90
        C 70 FF max+0
        ",
        expect![[r#"
            request 1: write sync fua 600+2 Q10 D20 C40 t7
            request 2: flush preflush D60 C70 t90
            queued_from_allocation 1
        "#]],
    );
}

#[test]
fn blktraces_flush() {
    check(
        "
        Q 10 FWS 0+0 t7
        G 11 FWS 0+0 t7
        D 20 FN 0+0 t90
        C 50 FN 0+0
        C 51 WS 0+0
        ",
        expect![[r#"
            bio 1: flush sync preflush Q10 t7 in request 1
            flush: bio 1 > request 1
            request 1: flush sync preflush Q10 D20 C50 t7
            flush_sequence_ends 1
        "#]],
    );
}

#[test]
fn old_kernels_that_do_not_show_the_flush_complete() {
    check(
        "
        Q 10 FWS 0+0 t7
        Q 11 FWS 0+0 t8
        D 20 FWS max+0 t90
        C 51 WS 0+0
        D 52 FWS max+0 t90
        C 53 WS 0+0
        C 60 WS 0+0
        ",
        expect![[r#"
            bio 1: flush sync preflush Q10 t7 in request 1
            flush: bio 1 > request 1
            bio 2: flush sync preflush Q11 t8 in request 1
            flush: bio 2 > request 1
            request 1: flush sync preflush Q10 D20 C51 t7
            request 2: flush sync preflush D52 C60 t90
            flush_completions_inferred 2
            flush_sequence_ends 3
        "#]],
    );
}

/// A flush bio on a device without a volatile cache ends by itself.
#[test]
fn nothing_to_flush() {
    check(
        "
        D 1 W 5+1
        Q 10 FWS 0+0 t7
        C 51 WS 0+0
        ",
        expect![[r#"
            bio 1: flush sync preflush Q10 t7 in request 2
            request 2: flush sync preflush Q10 C51 t7
            request 1: write 5+1 D1
            flush_sequence_ends 1
            requests_open_at_end 1
        "#]],
    );
}

#[test]
fn a_flush_that_was_requeued() {
    check(
        "
        D 20 FF 0+0 t90
        R 25 FF 0+0
        D 30 FF 0+0 t90
        C 50 FF max+0
        ",
        expect![[r#"
            request 1: flush preflush D20 again30 C50 requeues1 t90
        "#]],
    );
}

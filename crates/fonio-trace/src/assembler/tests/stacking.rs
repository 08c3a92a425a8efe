//! Partitions, device mapper, splits.

use expect_test::expect;

use super::text::check;

#[test]
fn a_partition() {
    check(
        "
        A 10 R 164+8 <8:1,100 t7
        Q 11 R 164+8 t7
        D 20 R 164+8 t7
        C 50 R 164+8
        ",
        expect![[r#"
            bio 1: 8:1 read 100+8 Q10 t7
            remap: bio 1 > bio 2
            bio 2: read 164+8 Q11 t7 in request 1
            request 1: read 164+8 Q11 D20 C50 t7
        "#]],
    );
}

#[test]
fn mapper_partition_disk() {
    check(
        "
        Q 10 253:0 W 100+8 t7
        A 12 8:1 W 200+8 <253:0,100 t90
        A 13 8:0 W 264+8 <8:1,200 t90
        Q 14 8:0 W 264+8 t90
        D 20 8:0 W 264+8 t91
        C 50 8:0 W 264+8
        C 55 253:0 W 100+8
        ",
        expect![[r#"
            remap: bio 1 > bio 2
            bio 2: 8:1 write 200+8 Q12 t90 cause7
            remap: bio 2 > bio 3
            bio 3: write 264+8 Q14 t90 cause7 in request 1
            request 1: write 264+8 Q14 D20 C50 t90 cause7
            bio 1: 253:0 write 100+8 Q10 C55 t7
        "#]],
    );
}

#[test]
fn mirrored_writes() {
    check(
        "
        Q 10 9:0 W 100+8 t7
        A 12 8:0 W 100+8 <9:0,100 t7
        Q 12 8:0 W 100+8 t7
        A 13 8:16 W 100+8 <9:0,100 t7
        Q 13 8:16 W 100+8 t7
        D 20 8:0 W 100+8
        D 21 8:16 W 100+8
        C 50 8:0 W 100+8
        C 52 8:16 W 100+8
        C 55 9:0 W 100+8
        ",
        expect![[r#"
            remap: bio 1 > bio 2
            remap: bio 1 > bio 3
            bio 2: write 100+8 Q12 t7 in request 1
            bio 3: 8:16 write 100+8 Q13 t7 in request 2
            request 1: write 100+8 Q12 D20 C50 t7
            request 2: 8:16 write 100+8 Q13 D21 C52 t7
            bio 1: 9:0 write 100+8 Q10 C55 t7
        "#]],
    );
}

#[test]
fn a_split_bio() {
    check(
        "
        Q 10 W 100+16 t7
        X 11 W 100+8 /108
        G 12 W 100+8
        D 13 W 100+8
        G 14 W 108+8
        D 15 W 108+8
        C 30 W 100+8
        C 31 W 108+8
        ",
        expect![[r#"
            split: bio 1 > bio 2
            bio 1: write 100+8 Q10 t7 in request 1
            bio 2: write 108+8 Q10 t7 in request 2
            request 1: write 100+8 Q10 D13 C30 t7
            request 2: write 108+8 Q10 D15 C31 t7
        "#]],
    );
}

/// Before Linux 4.13, the remainder had its own Q.
#[test]
fn a_split_bio_that_is_queued_again() {
    check(
        "
        Q 10 W 100+16 t7
        X 11 W 100+8 /108
        D 13 W 100+8
        Q 14 W 108+8 t7
        D 15 W 108+8
        C 30 W 100+8
        C 31 W 108+8
        ",
        expect![[r#"
            split: bio 1 > bio 2
            bio 1: write 100+8 Q10 t7 in request 1
            bio 2: write 108+8 Q10 t7 in request 2
            request 1: write 100+8 Q10 D13 C30 t7
            request 2: write 108+8 Q10 D15 C31 t7
        "#]],
    );
}

#[test]
fn a_bio_striped_without_a_split_shown() {
    check(
        "
        Q 10 253:0 W 100+16 t7
        A 11 8:0 W 50+8 <253:0,100 t7
        Q 11 8:0 W 50+8 t7
        A 12 8:16 W 50+8 <253:0,108 t7
        Q 12 8:16 W 50+8 t7
        D 20 8:0 W 50+8
        D 21 8:16 W 50+8
        C 30 8:0 W 50+8
        C 31 8:16 W 50+8
        C 32 253:0 W 100+16
        ",
        expect![[r#"
            remap: bio 1 > bio 2
            remap: bio 1 > bio 3
            bio 2: write 50+8 Q11 t7 in request 1
            bio 3: 8:16 write 50+8 Q12 t7 in request 2
            request 1: write 50+8 Q11 D20 C30 t7
            request 2: 8:16 write 50+8 Q12 D21 C31 t7
            bio 1: 253:0 write 100+16 Q10 C32 t7
        "#]],
    );
}

#[test]
fn a_request_remapped_by_multipath() {
    check(
        "
        Q 10 253:0 W 100+8 t7
        G 11 253:0 W 100+8 t7
        D 20 253:0 W 100+8 t90
        RA 21 8:16 W 100+8 <253:0,100
        D 22 8:16 W 100+8 t90
        C 50 8:16 W 100+8
        C 51 253:0 W 100+8
        ",
        expect![[r#"
            bio 1: 253:0 write 100+8 Q10 t7 in request 1
            request 1: 8:16 write 100+8 Q10 D22 C50 t7
        "#]],
    );
}

#[test]
fn a_flush_through_the_mapper() {
    check(
        "
        Q 10 253:0 FWS 0+0 t7
        A 11 8:0 FWS 0+0 <253:0,0 t7
        Q 12 8:0 FWS 0+0 t7
        D 20 8:0 FF 0+0 t90
        C 50 8:0 FF max+0
        C 51 8:0 WS 0+0
        C 52 253:0 FWS 0+0
        ",
        expect![[r#"
            remap: bio 1 > bio 2
            bio 2: flush sync preflush Q12 t7 in request 1
            flush: bio 2 > request 1
            request 1: flush sync preflush Q12 D20 C50 t7
            bio 1: 253:0 flush sync preflush Q10 C52 t7
            flush_sequence_ends 1
        "#]],
    );
}

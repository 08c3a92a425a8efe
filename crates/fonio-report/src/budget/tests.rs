use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{Budget, figures};

fn report() -> Value {
    json!({
        "schema": "fonio.report/2",
        "analysis": {
            "io_share": {
                "all": { "busy_union_share": 0.31, "busy_union_ns": 3_100_000_000_u64, "latency_sum_share": 0.42 },
                "devices": [{ "device": 0, "share": { "busy_union_share": 0.31 } }],
            },
            "latency": { "groups": [
                { "group": "reads", "requests": 10, "service_ns": { "count": 10, "p99": 1_000_000, "mean": 500_000.5 }, "response_ns": null },
                { "group": "writes", "requests": 20, "service_ns": { "count": 20, "p99": 31_200_000, "mean": 4e6 },
                  "response_ns": { "count": 20, "p99": 40_000_000, "mean": 5e6 } },
            ], "shares": { "read": 0.2, "write_sync": 0.8 } },
            "totals": { "read_bytes": 4096, "read_write_ratio": 0.5, "write_bytes_per_s": 1_048_576.0, "requests_per_s": null },
            "flushes": { "flushes": 12, "flushes_per_s": 1.2 },
            "processes": { "processes": [
                { "name": "kworker/0:1.a", "requests": 3 },
                { "name": "a<b", "requests": 4 },
            ] },
            "machine": { "temperature": [{ "zone": "cpu", "max_millicelsius": 61_500 }] },
            "points": { "of_requests": 3, "sample": [{ "at_ns": 1 }] },
            "locality": { "most_written": (0..20).map(|at| json!({ "sector": at, "writes": 20 - at })).collect::<Vec<_>>() },
        },
    })
}

fn check(budget: &str, expected: Expect) {
    let said = match Budget::parse(budget).and_then(|budget| budget.evaluate(&report())) {
        Ok(outcome) => format!("{}: {}", if outcome.passed { "kept" } else { "broken" }, outcome.sentence),
        Err(error) => format!("error: {error}"),
    };
    expected.assert_eq(&said);
}

#[test]
fn full_paths() {
    check(
        "latency.groups[writes].service_ns.p99<=20ms",
        expect!["broken: latency.groups[writes].service_ns.p99 is 31.2 ms, outside the budget of <= 20 ms"],
    );
    check(
        "analysis.latency.groups.writes.service_ns.p99 < 0.04 s",
        expect!["kept: latency.groups[writes].service_ns.p99 is 31.2 ms, within the budget of < 40 ms"],
    );
    check(
        "latency.groups[1].service_ns.count==20",
        expect!["kept: latency.groups[1].service_ns.count is 20, within the budget of == 20"],
    );
    check(
        "processes.processes[kworker/0:1.a].requests>=4",
        expect!["broken: processes.processes[kworker/0:1.a].requests is 3, outside the budget of >= 4"],
    );
    check(
        "processes[a<b].requests>3",
        expect!["kept: processes.processes[a<b].requests is 4, within the budget of > 3"],
    );
    check(
        "locality.most_written[19].writes<=1",
        expect!["kept: locality.most_written[19].writes is 1, within the budget of <= 1"],
    );
    check(
        "totals.write_bytes_per_s>=1MiB/s",
        expect!["kept: totals.write_bytes_per_s is 1 MiB/s, within the budget of >= 1 MiB/s"],
    );
    check(
        "totals.read_bytes<=4kB",
        expect!["broken: totals.read_bytes is 4 KiB, outside the budget of <= 3.91 KiB"],
    );
    check(
        "latency.shares.write_sync<80%",
        expect!["broken: latency.shares.write_sync is 80 %, outside the budget of < 80 %"],
    );
    check(
        "machine.temperature[cpu].max_millicelsius<=60 °C",
        expect![
            "broken: machine.temperature[cpu].max_millicelsius is 61.5 °C, outside the budget of <= 60 °C"
        ],
    );
}

#[test]
fn shortened_paths() {
    check(
        "io_share.busy_union<=20%",
        expect!["broken: io_share.all.busy_union_share is 31 %, outside the budget of <= 20 %"],
    );
    check(
        "io_share.busy_union<=5s",
        expect!["kept: io_share.all.busy_union_ns is 3.1 s, within the budget of <= 5 s"],
    );
    check(
        "latency.reads.p99<=2ms",
        expect!["kept: latency.groups[reads].service_ns.p99 is 1 ms, within the budget of <= 2 ms"],
    );
    check(
        "latency.writes.p99<=2ms",
        expect![[
            r#"error: "latency.writes.p99" could be several figures: latency.groups[writes].response_ns.p99, latency.groups[writes].service_ns.p99"#
        ]],
    );
    check(
        "flushes.flushes<2/s",
        expect!["error: flushes.flushes is a count; 2/s cannot be compared with it"],
    );
}

#[test]
fn what_cannot_be_held() {
    check(
        "latency.groups[writes].p99_ns<=20ms",
        expect![[
            r#"error: the report has no figure "latency.groups[writes].p99_ns"; did you mean latency.groups[writes].requests or latency.groups[writes].response_ns.p99 or latency.groups[writes].service_ns.p99 or latency.groups[writes].response_ns.mean?"#
        ]],
    );
    check(
        "latency.groups[writes].service_ns.p99<=20",
        expect!["error: latency.groups[writes].service_ns.p99 is a duration; 20 cannot be compared with it"],
    );
    check(
        "flushes.flushes<=20ms",
        expect!["error: flushes.flushes is a count; 20ms cannot be compared with it"],
    );
    check("totals.requests_per_s>1", expect!["error: totals.requests_per_s is unknown in this recording"]);
    check(
        "nonsense<1",
        expect![[r#"error: the report has no figure "nonsense"; `fonio report --figures` lists them all"#]],
    );
    check(
        "totals.read_bytes<=4 potatoes",
        expect![
            "error: `4 potatoes` ends in `potatoes`; write a number with a unit, such as 20ms, 4KiB, 1.5MB/s, 12%, 10/s, 2x or 60°C, or a number alone"
        ],
    );
    check(
        "totals.read_bytes",
        expect![[
            r#"error: "totals.read_bytes" is not a budget: write FIGURE<=LIMIT, with one of <, <=, >, >=, =="#
        ]],
    );
    check(
        "a=3",
        expect![[r#"error: "a=3" is not a budget: write FIGURE<=LIMIT, with one of <, <=, >, >=, =="#]],
    );
    check(
        "<3",
        expect![[r#"error: "<3" is not a budget: write FIGURE<=LIMIT, with one of <, <=, >, >=, =="#]],
    );
    check(
        "totals.read_bytes<nan",
        expect![
            "error: `nan` does not begin with a number; write a number with a unit, such as 20ms, 4KiB, 1.5MB/s, 12%, 10/s, 2x or 60°C, or a number alone"
        ],
    );
}

#[test]
fn every_figure_has_a_path_and_every_path_its_figure() {
    let report = report();
    let listed = figures(&report);
    for figure in &listed {
        let found =
            super::figures::resolve(&report, &figure.path, &super::Amount::parse("1").expect("a number"));
        assert_eq!(found.as_ref(), Ok(figure));
    }
    let lines: Vec<String> = listed
        .iter()
        .map(|figure| {
            format!(
                "{} {}",
                figure.path,
                figure.value.map_or("unknown".into(), |value| figure.unit.format(value))
            )
        })
        .collect();
    expect![[r#"
        flushes.flushes 12
        flushes.flushes_per_s 1.2/s
        io_share.all.busy_union_ns 3.1 s
        io_share.all.busy_union_share 31 %
        io_share.all.latency_sum_share 42 %
        io_share.devices[0].device 0
        io_share.devices[0].share.busy_union_share 31 %
        latency.groups[reads].requests 10
        latency.groups[reads].response_ns unknown
        latency.groups[reads].service_ns.count 10
        latency.groups[reads].service_ns.mean 500 µs
        latency.groups[reads].service_ns.p99 1 ms
        latency.groups[writes].requests 20
        latency.groups[writes].response_ns.count 20
        latency.groups[writes].response_ns.mean 5 ms
        latency.groups[writes].response_ns.p99 40 ms
        latency.groups[writes].service_ns.count 20
        latency.groups[writes].service_ns.mean 4 ms
        latency.groups[writes].service_ns.p99 31.2 ms
        latency.shares.read 20 %
        latency.shares.write_sync 80 %
        machine.temperature[cpu].max_millicelsius 61.5 °C
        processes.processes[kworker/0:1.a].requests 3
        processes.processes[a<b].requests 4
        totals.read_bytes 4 KiB
        totals.read_write_ratio 0.5×
        totals.requests_per_s unknown
        totals.write_bytes_per_s 1 MiB/s"#]]
    .assert_eq(&lines.join("\n"));
}

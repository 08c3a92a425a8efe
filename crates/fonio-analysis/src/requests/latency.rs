//! Computes service and response times by kind of request, and each kind's share of the sum of latencies (the
//! block-trace study's Figure 2, right, and its main finding: sync writes dominate).

use fonio_core::{Nanos, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::requests::class::Group;

/// Latencies of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Each group that has requests.
    pub groups: Vec<LatencyRow>,
    /// Sum of all service times in nanoseconds; absent if no completion is known.
    pub service_sum_ns: Option<Nanos>,
    /// Shares of `service_sum_ns` by class; absent if nothing completed.
    pub shares: Option<LatencyShares>,
    /// Whether the source shows which reads are readahead. If it does not, all reads are in `read`.
    pub readahead_known: bool,
    /// Whether the source shows which writes are synchronous.
    pub sync_known: bool,
}

/// Latencies of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRow {
    /// The group.
    pub group: Group,
    /// Number of requests of the group, with or without a latency.
    pub requests: u64,
    /// Time from issue to completion, which the studies call latency, in nanoseconds.
    pub service_ns: Option<Distribution>,
    /// Time from queue to completion, in nanoseconds; absent if the source shows no queueing.
    pub response_ns: Option<Distribution>,
    /// Share of the sum of all service times; absent if no completion of the group is known.
    pub latency_share: Option<f64>,
}

/// Shares of the sum of service times; they sum to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyShares {
    /// Reads that are not known to be readahead.
    pub read: f64,
    /// Readahead.
    pub readahead: f64,
    /// Synchronous writes.
    pub write_sync: f64,
    /// Write-back.
    pub write_async: f64,
    /// Writes for which the source does not show whether they are synchronous.
    pub write_unknown: f64,
    /// Flush requests.
    pub flush: f64,
    /// Discards.
    pub discard: f64,
    /// All other requests.
    pub other: f64,
}

use super::class::Class;
use crate::distribution::tally::Curve;
use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::ratio;

/// Lists the times kept in [`Context`](crate::question::context::Context).
#[derive(Debug, Default)]
pub(crate) struct LatencyTally;

impl Question for LatencyTally {
    type Answer = Latency;

    fn finish(self, end: &mut Ending) -> Latency {
        let (service, response) = (&end.context.service, &end.context.response);
        let sum = |class: Class| service.sum_ns(class);
        let service_sum_ns = Class::ALL.into_iter().map(sum).fold(0, u64::saturating_add);
        let share = |class: Class| sum(class) as f64 / service_sum_ns as f64;
        let groups = Group::ALL.into_iter().filter_map(|group| {
            let (requests, responses) = response.of_group(group);
            let without_service = end.loss.and(service.without(group));
            let without_response = end.loss.and(requests - responses.count);
            let times = service.of_group(group);
            (requests > 0).then(|| LatencyRow {
                group,
                requests,
                service_ns: times.distribution_despite(without_service, 1, Curve::With),
                response_ns: responses.distribution_despite(without_response, 1, Curve::With),
                latency_share: ratio(times.sum, service_sum_ns).filter(|_| times.count > 0),
            })
        });
        Latency {
            groups: groups.collect(),
            service_sum_ns: (service.of_group(Group::All).count > 0).then_some(Nanos(service_sum_ns)),
            shares: (service_sum_ns > 0).then(|| LatencyShares {
                read: share(Class::Read),
                readahead: share(Class::Readahead),
                write_sync: share(Class::WriteSync),
                write_async: share(Class::WriteAsync),
                write_unknown: share(Class::WriteUnknown),
                flush: share(Class::Flush),
                discard: share(Class::Discard),
                other: share(Class::Other),
            }),
            readahead_known: response.is_readahead_known(),
            sync_known: response.is_sync_known(),
        }
    }

    fn figures(latency: &Latency, _: &Frame, facts: &mut Facts) {
        for row in &latency.groups {
            let (name, adjective) = (row.group.name(), row.group.adjective());
            if let Some(times) = &row.service_ns {
                let label = format!("{adjective} service");
                facts.distribution(&format!("latency.{name}.service"), &label, Unit::Ns, times);
            }
            if let Some(times) = &row.response_ns {
                let (figure, label) = (format!("latency.{name}.response"), format!("{adjective} response"));
                if matches!(row.group, Group::Reads | Group::Read | Group::WriteSync | Group::Flush) {
                    facts.felt_distribution(&figure, &label, Unit::Ns, times);
                } else {
                    facts.distribution(&figure, &label, Unit::Ns, times);
                }
            }
            let label = format!("{}, share of summed service time", row.group.requests());
            facts.share(format!("latency_share.{name}"), label, row.latency_share);
            if let Some(times) = row.response_ns.as_ref().or(row.service_ns.as_ref()) {
                let label = format!("{adjective} wait");
                facts.distribution(&format!("wait.{name}"), &label, Unit::Ns, times);
            }
            if row.group == Group::WriteUnknown {
                facts.word("source.sync_unknown", "the recording does not show which writes are synchronous");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyser::tests::{analyse, analyse_rows, rows};

    #[test]
    fn whose_latency_it_is() {
        let latency = analyse(&[
            "R 0+8 q0 d10 c20",
            "RA 8+8 q0 d20 c40",
            "WS 0+8 q0 d40 c90",
            "W 8+8 q0 d90 c100",
            "FF q0 d100 c110",
        ])
        .latency;
        let shares = latency.shares.unwrap();
        assert_eq!(latency.service_sum_ns, Some(Nanos(100_000)));
        assert_eq!(
            (shares.read, shares.readahead, shares.write_sync, shares.write_async, shares.flush),
            (0.1, 0.2, 0.5, 0.1, 0.1)
        );
        assert!(latency.sync_known && latency.readahead_known);
        let reads = latency.groups.iter().find(|row| row.group == Group::Reads).unwrap();
        assert_eq!(reads.latency_share, Some(0.3));
        let (service, response) = (reads.service_ns.as_ref().unwrap(), reads.response_ns.as_ref().unwrap());
        assert_eq!((service.mean, response.mean, response.max), (15_000.0, 30_000.0, Some(40_000)));
    }

    #[test]
    fn a_group_without_completions_has_no_share() {
        let latency = analyse(&["R 0+8 d0 c10", "WS 0+8 d10", "WS 8+8 q20"]).latency;
        let of = |group| latency.groups.iter().find(|row| row.group == group).unwrap().latency_share;
        assert_eq!(
            (of(Group::Reads), of(Group::WriteSync), latency.service_sum_ns),
            (Some(1.0), None, Some(Nanos(10_000)))
        );
        assert_eq!(analyse(&["WS 0+8 d10"]).latency.service_sum_ns, None);
    }

    #[test]
    fn what_the_source_does_not_show_is_not_async() {
        let mut rows = rows(&["W 0+8 d0 c10", "R 0+8 d10 c20"]);
        rows.iter_mut().for_each(|row| row.flags_known = fonio_core::Flags::NONE);
        let latency = analyse_rows(&rows, &fonio_core::Meta::default()).latency;
        assert!(!latency.sync_known && !latency.readahead_known);
        assert_eq!(latency.shares.unwrap().write_unknown, 0.5);
    }
}

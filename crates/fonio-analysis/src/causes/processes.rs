//! Sums up requests, bytes and latency by the name of the process that caused the requests.

use super::process::Processes;
use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;

/// Lists the processes counted by [`Context`](crate::question::context::Context).
#[derive(Debug, Default)]
pub(crate) struct ProcessTally;

impl Question for ProcessTally {
    type Answer = Processes;

    fn finish(self, end: &mut Ending) -> Processes {
        end.context.processes.table(&end.context.threads, end.loss)
    }

    fn figures(processes: &Processes, _: &Frame, facts: &mut Facts) {
        facts.count("processes.count", "processes with I/O", processes.processes.len() as u64);
        for row in &processes.processes {
            let process = &row.name;
            let name = |figure: &str| format!("process[{process}].{figure}");
            let label = |what: &str| format!("{process}, {what}");
            facts.count(name("requests"), label("requests"), row.requests);
            facts.count(name("reads"), label("reads"), row.reads);
            facts.count(name("writes"), label("writes"), row.writes);
            facts.count(name("sync_writes"), label("synchronous writes"), row.sync_writes);
            facts.count(name("flushes"), label("flushes"), row.flushes);
            facts.amount(name("read_bytes"), label("bytes read"), row.read_bytes);
            facts.amount(name("write_bytes"), label("bytes written"), row.write_bytes);
            facts.share(name("latency_share"), label("share of summed service time"), row.latency_share);
            facts.amount(name("service_max"), label("longest service"), row.service_max_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{Meta, Nanos, RowSink, Thread};

    use crate::analyser::Analyser;
    use crate::analyser::tests::{analyse, rows};
    use crate::question::options::AnalysisOptions;

    #[test]
    fn by_name_with_the_greatest_latency_first() {
        let mut analyser = Analyser::new(AnalysisOptions::default());
        for (tid, comm) in [(1, "sqlite"), (2, "kworker/0:1"), (3, "kworker/u8:3-flush")] {
            analyser.thread(&Thread { tid, comm: Some(comm.to_owned()), ..Thread::default() }).unwrap();
        }
        let mut rows = rows(&[
            "WS 0+8 d0 c30 t1",
            "W 0+8 d30 c40 t2",
            "W 0+8 d40 c60 t3",
            "R 0+8 d60 c100 t9",
            "FF d100 c110",
        ]);
        // A kernel worker wrote back pages that the database had dirtied.
        rows[1].cause_tid = Some(1);
        rows.iter().for_each(|row| analyser.request(row).unwrap());
        let processes = analyser.finish(&Meta::default()).processes.processes;
        let short: Vec<_> = processes
            .iter()
            .map(|p| (p.name.as_str(), p.requests, p.sync_writes, p.service_sum_ns.unwrap().0 / 1000))
            .collect();
        assert_eq!(
            short,
            [("sqlite", 2, 1, 40), ("tid 9", 1, 0, 40), ("kworker", 1, 0, 20), ("(unknown)", 1, 0, 10)]
        );
    }

    #[test]
    fn requests_of_a_thread_count_for_its_process() {
        let mut analyser = Analyser::new(AnalysisOptions::default());
        for (tid, comm) in [(5, "chromium"), (7, "ThreadPoolForeg")] {
            let comm = Some(comm.to_owned());
            analyser.thread(&Thread { tid, pid: Some(5), comm, ..Thread::default() }).unwrap();
        }
        rows(&["R 0+8 d0 c10 t7"]).iter().for_each(|row| analyser.request(row).unwrap());
        let processes = analyser.finish(&Meta::default()).processes.processes;
        assert_eq!(processes.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["chromium"]);
    }

    #[test]
    fn without_a_completion_the_latency_is_unknown() {
        let processes = analyse(&["R 0+8 d0 c10 t1", "R 0+8 d10 t2", "W 0+8 q20 t2"]).processes.processes;
        let times =
            processes.iter().map(|p| (p.requests, p.service_sum_ns, p.service_max_ns, p.latency_share));
        assert_eq!(
            times.collect::<Vec<_>>(),
            [(1, Some(Nanos(10_000)), Some(Nanos(10_000)), Some(1.0)), (2, None, None, None)]
        );
    }

    #[test]
    fn points_name_the_process_by_its_place() {
        let analysis = analyse(&["R 0+8 d0 c10 t1", "R 0+8 d10 c100 t2"]);
        let names = analysis
            .points
            .sample
            .iter()
            .map(|p| analysis.processes.processes[p.process as usize].name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["tid 1", "tid 2"]);
    }
}

//! Names files that fonio does not read, and says what to record in their place.
//!
//! Each row of [`KINDS`] is one kind of file. A file is of this kind if one of the row's signs is in its head.

/// A sign by which a kind of file is recognised.
enum Sign {
    /// These bytes are at this offset.
    Bytes(usize, &'static [u8]),
    /// One of the first lines begins with this text, after blanks.
    Line(&'static str),
    /// One of the first lines has these words in this order; other words may be between them.
    Words(&'static [&'static str]),
    /// One of the first lines, as words, has this shape.
    Shape(fn(&[&str]) -> bool),
    /// The beginning of the file has this shape.
    Head(fn(&[u8]) -> bool),
}

use Sign::{Bytes, Head, Line, Shape, Words};

/// Number of lines in which a text's signs must occur. Tools print messages before their first line.
const LINES: usize = 30;
/// Maximum number of bytes of a line that are examined.
const LINE_BYTES: usize = 1000;

const REQUESTS: &str = "To see requests, record them: `fonio record --for 60s`, `blktrace -d /dev/sda -w 60` or `biosnoop -Q > trace.txt`";
const CALLS: &str = "It has calls of a file system, not requests of a device. Record both with `fonio record --calls -- CMD`, or \
    the requests alone with `biosnoop -Q > trace.txt`";
const CONVERT: &str = "Give fonio a trace in a format that it reads";
const NOT_A_TRACE: &str = "It is not a trace. To record one, use `fonio record --for 60s`";

/// Every kind of file: its signs, what it is, and what to do.
const KINDS: &[(&[Sign], &str, &str)] = &[
    // Traces.
    (
        &[Bytes(0, b"\x1e{")],
        "it is the description of a CTF 2 trace",
        "fonio reads CTF 1.8, which LTTng 2.14 and earlier write",
    ),
    (
        &[Line("/* CTF ")],
        "it is the description of a CTF trace in another version than 1.8",
        "fonio reads CTF 1.8, which LTTng writes",
    ),
    (
        &[Head(is_vscsi_2)],
        "it is a .vscsi trace (CloudPhysics) of version 2, whose units no public file shows",
        "Use a trace of version 1, or write a table with known units and read it with `--csv`",
    ),
    (
        &[Bytes(0, b"SIMPLEPERF")],
        "it is a recording of simpleperf, which samples processors",
        "Record the requests with Perfetto (`block/block_rq_issue`, `block/block_rq_complete`)",
    ),
    (
        &[Words(&["COMM", "PID", "TYPE", "DEV", "BLOCK", "BYTES", "LATms"])],
        "it is the text of iosnoop without times",
        "Record again with `iosnoop -ts`, which prints when each request began and ended",
    ),
    (
        &[Line("fio version ")],
        "it is an iolog of fio in an unknown version: the calls that fio made, without their completions",
        "Record the requests while fio runs: `fonio record -- fio job.fio`. To run the calls again, use fio's `--read_iolog`",
    ),
    (
        &[Shape(is_fio_histogram)],
        "it is a histogram log of fio (`write_hist_log`): counts of each interval in fio's own steps",
        "Run fio again with `--write_lat_log=NAME`, and give fonio the file with `_clat` in its name",
    ),
    (
        &[Line("{\"fio version\""), Line("\"fio version\"")],
        "it is the JSON output of fio, which has totals and percentiles",
        "Record the requests while fio runs: `fonio record -- fio job.fio`",
    ),
    (
        &[Line("execve("), Shape(is_strace)],
        "it is the text of strace: system calls, not requests of a device",
        "Record calls and requests with `fonio record --calls -- CMD`",
    ),
    (
        &[Shape(is_perf_sample)],
        "it is the text of `perf script` without tracepoints, such as samples of processors",
        "Record the requests: `perf record -a -e block:block_rq_issue,block:block_rq_complete`, then `perf script > trace.txt`",
    ),
    (
        &[Words(&["\"Time of Day\",\"Process Name\",\"PID\",\"Operation\",\"Path\""])],
        "it is a table of Windows' Process Monitor: calls of a file system, not requests of a device",
        CONVERT,
    ),
    // Tables of calls.
    (&[Words(&["PID", "COMM", "FD", "ERR", "PATH"])], "it is the text of opensnoop", CALLS),
    // Totals.
    (
        &[
            Words(&["usecs", ":", "count"]),
            Words(&["msecs", ":", "count"]),
            Words(&["nsecs", ":", "count"]),
            Line("{'ts': '"),
        ],
        "it is a histogram of a BPF tool: counts in steps of powers of two, and nothing says that they are of a disk",
        "fonio reads the text of biolatency from its first line on, and `biolatency -j -D`. To see each request, use `biosnoop -Q > trace.txt`, or `fonio \
         record --for 60s`",
    ),
    (
        &[Shape(is_bpftrace_histogram)],
        "it is a histogram of bpftrace: counts in steps of powers of two, without requests",
        "Record each request with `biosnoop -Q > trace.txt`, or with `fonio record --for 60s`",
    ),
    (
        &[Words(&["PID", "COMM", "D", "MAJ", "MIN", "DISK", "I/O"])],
        "it is the text of biotop: totals of each interval, without requests",
        REQUESTS,
    ),
    (
        &[Line("avg-cpu:")],
        "it is the text of iostat without devices",
        "Print the devices: `iostat -d -x -t 1`. fonio reads this text, but it has only totals. To see requests, use `fonio record --for 60s`",
    ),
    (
        &[Shape(is_sysstat)],
        "it is the text of sar or of another program of sysstat (mpstat, pidstat), without devices",
        "Print the devices: `sar -d`. fonio reads this text, but it has only totals. To see requests, use `fonio record --for 60s`",
    ),
    (
        &[Line("{\"sysstat\""), Line("\"sysstat\"")],
        "it is JSON of sysstat (sadf, iostat): totals of each interval, without requests",
        "fonio reads these totals as text (`iostat -d -x -t 1`, `sar -d`). To see requests, use `fonio record --for 60s`",
    ),
    (
        &[Shape(is_diskstats)],
        "it is one copy of /proc/diskstats: totals since the start of the machine, without requests",
        "For the totals of a time, make several: `while sleep 10; do date +%s; cat /proc/diskstats; done`. To see requests, use \
         `fonio record --for 60s`",
    ),
    (
        &[Line("procs -----------memory"), Words(&["r", "b", "swpd", "free", "buff"])],
        "it is the text of vmstat: totals of each interval, without requests",
        REQUESTS,
    ),
    (
        &[Line("Total DISK READ")],
        "it is the text of iotop: totals of each interval, without requests",
        REQUESTS,
    ),
    (
        &[Line("==================== All Devices ====================")],
        "it is the text of btt, which has totals",
        "Give fonio the files of blktrace from which btt made it",
    ),
    // Archives, compressed files and encodings.
    (
        &[Bytes(0, b"\x28\xb5\x2f\xfd"), Bytes(0, b"\x1f\x8b"), Bytes(0, b"\xfd7zXZ"), Bytes(0, b"BZh")],
        "it is compressed twice",
        "Unpack it first with `zstdcat`, `zcat`, `xzcat` or `bzcat`: `zcat FILE | fonio report -`",
    ),
    (
        &[Bytes(0, b"\x04\x22\x4d\x18")],
        "it is compressed with lz4",
        "Unpack it: `lz4cat FILE | fonio report -`",
    ),
    (&[Bytes(0, b"\x89LZO")], "it is compressed with lzop", "Unpack it: `lzop -dc FILE | fonio report -`"),
    (&[Bytes(0, b"PK\x03\x04")], "it is a zip archive", "Unpack it first"),
    (&[Bytes(0, b"7z\xbc\xaf\x27\x1c")], "it is a 7-Zip archive", "Unpack it first"),
    (&[Bytes(257, b"ustar")], "it is a tar archive", "Unpack it first"),
    (&[Bytes(0, b"\xff\xfe")], "it is UTF-16 text, as PowerShell's `>` writes it", "Convert it to UTF-8"),
    (&[Bytes(0, b"\xfe\xff")], "it is UTF-16 text", "Convert it to UTF-8"),
    // Other files.
    (
        &[Bytes(0, b"PAR1"), Bytes(0, b"PARE")],
        "it is a Parquet file",
        "Open a recording by its directory, not by a file in it",
    ),
    (&[Bytes(0, b"ARROW1")], "it is an Arrow file", CONVERT),
    (
        &[Line("{\"schema_version\""), Line("\"schema_version\"")],
        "it is JSON of fonio",
        "Open a recording by its directory, not by a file in it",
    ),
    (
        &[
            Bytes(0, b"\xd4\xc3\xb2\xa1"),
            Bytes(0, b"\xa1\xb2\xc3\xd4"),
            Bytes(0, b"\x4d\x3c\xb2\xa1"),
            Bytes(0, b"\xa1\xb2\x3c\x4d"),
            Bytes(0, b"\x0a\x0d\x0d\x0a"),
        ],
        "it is a pcap file, which has packets of a network",
        NOT_A_TRACE,
    ),
    (&[Bytes(0, b"\x7fELF")], "it is an ELF program", NOT_A_TRACE),
    (&[Bytes(0, b"MZ")], "it is a Windows program", NOT_A_TRACE),
    (&[Bytes(0, b"SQLite format 3\0")], "it is a SQLite database", NOT_A_TRACE),
    (&[Bytes(0, b"%PDF-")], "it is a PDF document", NOT_A_TRACE),
    (&[Bytes(0, b"\x89PNG"), Bytes(0, b"\xff\xd8\xff")], "it is an image", NOT_A_TRACE),
    (
        &[Bytes(0, b"QFI\xfb"), Bytes(512, b"EFI PART"), Bytes(1080, b"\x53\xef")],
        "it is the image of a disk",
        NOT_A_TRACE,
    ),
    (
        &[Line("== dumpstate:")],
        "it is a bug report of Android, whose text has no requests",
        "Record a trace with Perfetto, or unpack the trace from the bug report's zip (FS/data/misc/perfetto-traces)",
    ),
    (&[Line("[    0.000000]")], "it is the kernel's log (dmesg)", NOT_A_TRACE),
];

/// Returns what a file with this head is, and what to do, if it is a known kind that fonio does not read.
pub(crate) fn known(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let text = String::from_utf8_lossy(&head[..head.len().min(LINES * LINE_BYTES)]);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES).collect();
    let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
    let shows = |sign: &Sign| match sign {
        Bytes(offset, bytes) => head.get(*offset..).is_some_and(|rest| rest.starts_with(bytes)),
        Line(begin) => lines.iter().any(|line| line.starts_with(begin)),
        Words(wanted) => words.iter().any(|line| {
            let mut line = line.iter();
            wanted.iter().all(|word| line.any(|found| found == word))
        }),
        Shape(has) => words.iter().any(|line| has(line)),
        Head(has) => has(head),
    };
    KINDS.iter().find(|(signs, _, _)| signs.iter().any(shows)).map(|(_, found, way_out)| (*found, *way_out))
}

/// Describes a file of no known kind by its first bytes, and returns what to do.
pub(crate) fn describe(head: &[u8]) -> (String, &'static str) {
    if head.is_empty() {
        return ("it is empty".into(), "Record again");
    }
    let text = head.iter().take(1024).all(|byte| *byte >= b' ' || b"\t\r\n\x1b".contains(byte));
    if text {
        let line =
            head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
        let line = String::from_utf8_lossy(&line[..line.len().min(60)]).trim_end().to_owned();
        (format!("it is text without known events that begins with `{}`", line.escape_debug()), CONVERT)
    } else {
        let bytes: Vec<String> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        (format!("it is binary and begins with the bytes {}", bytes.join(" ")), CONVERT)
    }
}

/// Returns whether a file begins with records of .vscsi in version 2: 40 bytes, the SCSI operation code and the version first.
fn is_vscsi_2(head: &[u8]) -> bool {
    const READS_AND_WRITES: [u16; 8] = [0x08, 0x0a, 0x28, 0x2a, 0x88, 0x8a, 0xa8, 0xaa];
    let (records, _) = head.as_chunks::<40>();
    let is_record = |record: &[u8; 40]| {
        let number = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        number(2) >> 8 == 2 && READS_AND_WRITES.contains(&number(0))
    };
    records.len() >= 4 && records.iter().take(64).all(is_record)
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a line is the first line of sysstat's programs: `Linux 6.1.0 (host) 04/18/19 _x86_64_ (9 CPU)`.
fn is_sysstat(words: &[&str]) -> bool {
    words.first() == Some(&"Linux")
        && words.last() == Some(&"CPU)")
        && words.get(2).is_some_and(|host| host.starts_with('('))
}

/// Returns whether a line is from /proc/diskstats: two device numbers, a name, and 11 to 20 numbers.
fn is_diskstats(words: &[&str]) -> bool {
    (14..=23).contains(&words.len())
        && words.iter().enumerate().all(|(at, word)| (at == 2) != is_number(word))
}

/// Returns whether a line is from a histogram log of fio: `time, direction, block size` and more than thousand counts.
fn is_fio_histogram(words: &[&str]) -> bool {
    words.len() > 1000
        && words[..words.len() - 1].iter().all(|word| word.strip_suffix(',').is_some_and(is_number))
}

/// Returns whether a line is from strace: `[pid 12] 12:00:01.2 openat(AT_FDCWD, …) = 3`.
fn is_strace(words: &[&str]) -> bool {
    const CALLS: [&str; 8] =
        ["openat(AT_FDCWD", "read(", "write(", "pread64(", "pwrite64(", "fsync(", "fdatasync(", "close("];
    words.contains(&"=") && words.iter().any(|word| CALLS.iter().any(|call| word.starts_with(call)))
}

/// Returns whether a line is a sample of `perf script`: `swapper 0/0 [007] 264874.155395: 1001001 cpu-clock:`.
fn is_perf_sample(words: &[&str]) -> bool {
    let is_cpu =
        |word: &str| word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).is_some_and(is_number);
    let Some(at) = words.iter().position(|word| is_cpu(word)).filter(|at| *at >= 2) else { return false };
    let is_time = |word: &str| {
        word.strip_suffix(':')
            .and_then(|word| word.split_once('.'))
            .is_some_and(|(a, b)| is_number(a) && is_number(b))
    };
    words[at - 1].split('/').all(is_number)
        && words.get(at + 1).is_some_and(|word| is_time(word))
        && words.last().is_some_and(|word| word.ends_with(':'))
}

/// Returns whether a line is from a histogram of bpftrace: `[256, 512) 77 |@@@ |`.
fn is_bpftrace_histogram(words: &[&str]) -> bool {
    words.len() > 3
        && words[0].starts_with('[')
        && words[1].ends_with(')')
        && is_number(words[2])
        && words[3].starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples of foreign files, one in each paragraph, and their names.
    #[test]
    fn kinds() {
        let file = expect_test::expect_file!["foreign.txt"];
        let data = file.data();
        let mut shown = String::new();
        for sample in data.split("\n\n") {
            let text: String = sample
                .lines()
                .filter(|line| !line.starts_with("→ "))
                .map(|line| format!("{line}\n"))
                .collect();
            let head = text.replace("\\n", "\n");
            let found = known(head.as_bytes()).map_or("unknown", |(found, _)| found);
            assert_eq!(crate::recognise::recognise(head.as_bytes()), None, "{text}");
            shown += &format!("{text}→ {found}\n\n");
        }
        file.assert_eq(&format!("{}\n", shown.trim_end()));
    }

    #[test]
    fn vscsi_of_version_2() {
        let mut record = [0; 40];
        (record[0], record[3]) = (0x2a, 2);
        let found = known(&record.repeat(4)).expect("it is known").0;
        assert!(found.contains("version 2"), "{found}");
        assert_eq!(known(&record.repeat(3)), None);
    }

    #[test]
    fn bytes_at_an_offset() {
        let mut tar = vec![0; 300];
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(known(&tar), Some(("it is a tar archive", "Unpack it first")));
        assert_eq!(known(&tar[..261]), None);
        assert_eq!(known(b""), None);
    }
}

//! Random histories: the steps that follow from a seed, and the scripts that perform them.

use fonio_core::random::Random;

/// The fixes whose settings change, each with its target.
const FIXES: [&str; 8] = [
    "noatime /mnt/card",
    "commit-30s /mnt/card",
    "lazytime /mnt/card",
    "mq-deadline /mnt/card",
    "swappiness=10",
    "dirty-limit=64MiB",
    "journald-sync=10m",
    "io-weight=50 backup.service",
];

/// The row of a history in the result: the files that its steps write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Settings,
    Recordings,
    Watch,
}

pub const SUBJECTS: [Subject; 3] = [Subject::Settings, Subject::Recordings, Subject::Watch];

impl Subject {
    pub fn name(self) -> &'static str {
        match self {
            Subject::Settings => "settings, fstab, state",
            Subject::Recordings => "recordings",
            Subject::Watch => "history of the watch",
        }
    }
}

/// What happens to a command of fonio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    None,
    /// `kill -9` at this call that writes; without effect if the command makes fewer calls.
    Kill(u64),
    /// A disk that is full except for this number of blocks.
    Full(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A command of fonio with these arguments.
    Fonio(String, Harm),
    /// Another program appends a line to fstab, or sets the swappiness.
    AppendToFstab(u64),
    SetSwappiness(u64),
    Reboot,
    PowerCut,
}

/// Generates the steps of a history.
pub fn steps(subject: Subject, seed: u64) -> Vec<Step> {
    let mut random = Random::labelled(seed, subject.name());
    let count = random.between(3, 7);
    let mut steps: Vec<Step> = (0..count).map(|number| step(subject, number, &mut random)).collect();
    // One history in twenty ends its boot, because a boot takes much longer than all other steps.
    if random.below(20) == 0 {
        let at = 1 + random.below(count) as usize;
        steps.insert(at, if random.below(2) == 0 { Step::Reboot } else { Step::PowerCut });
    }
    steps
}

fn step(subject: Subject, number: u64, random: &mut Random) -> Step {
    let harm = match random.below(20) {
        0..12 => Harm::Kill(random.between(1, 70)),
        12..15 => Harm::Full(random.below(6)),
        _ => Harm::None,
    };
    match subject {
        Subject::Settings => {
            let fix = FIXES[random.below(FIXES.len() as u64) as usize];
            match random.below(20) {
                0..9 => Step::Fonio(format!("fix apply {fix} --keep"), harm),
                9..13 => Step::Fonio(format!("fix apply {fix}"), harm),
                13..15 => {
                    Step::Fonio(format!("fix undo {}", fix.split(['=', ' ']).next().unwrap_or(fix)), harm)
                }
                15..17 => Step::Fonio("fix undo".to_owned(), harm),
                17..19 => Step::AppendToFstab(random.below(1000)),
                _ => Step::SetSwappiness(random.between(20, 40)),
            }
        }
        Subject::Recordings => {
            // On a simulated processor, starting the record of waits takes many seconds.
            let waits = if random.below(3) == 0 { "" } else { " --blocked none" };
            let file = format!("/var/lib/histories/recording{}", number % 2);
            Step::Fonio(format!("record --for 300ms --overwrite{waits} -o {file}"), harm)
        }
        Subject::Watch => {
            Step::Fonio("watch run --state /var/lib/histories/watch --run /run/histories".to_owned(), harm)
        }
    }
}

impl Step {
    /// Returns the script of a step; `None` for a step that the host performs.
    pub fn script(&self) -> Option<String> {
        Some(match self {
            Step::Fonio(words, harm) if words.starts_with("watch run") => watched(words, *harm),
            Step::Fonio(words, Harm::None) => format!("fonio {words}"),
            Step::Fonio(words, Harm::Kill(at)) => format!("killed {at} {words}"),
            Step::Fonio(words, Harm::Full(left)) => format!("on_full_disk {left} {words}"),
            Step::AppendToFstab(number) => format!("{}; sync", append(*number)),
            Step::SetSwappiness(value) => format!("echo {value} >/proc/sys/vm/swappiness"),
            Step::Reboot | Step::PowerCut => return None,
        })
    }
}

/// Runs the watch while a file is written. At its end, the watch writes its history.
fn watched(words: &str, harm: Harm) -> String {
    let (before, run, after) = match harm {
        Harm::None => (String::new(), format!("fonio {words}"), ""),
        Harm::Kill(at) => (String::new(), format!("killed {at} {words}"), ""),
        Harm::Full(left) => (format!("fill / {left}; "), format!("fonio {words}"), "rm -f /filling /rest;"),
    };
    format!(
        "mkdir -p /run/histories; {run} & pid=$!; started $pid; dd if=/dev/zero of=/mnt/card/file bs=64k count=16 \
         conv=fsync 2>/dev/null; {before} pkill -TERM -x fonio; code=0; wait $pid || code=$?; {after} (exit $code)"
    )
}

fn append(number: u64) -> String {
    format!("echo '{}' >>/etc/fstab", foreign_line(number))
}

/// Returns the line that another program appends to fstab.
pub fn foreign_line(number: u64) -> String {
    format!("# note {number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_a_history_and_all_kinds_of_steps_occur() {
        let mut said = String::new();
        for seed in 0..200 {
            for subject in SUBJECTS {
                assert_eq!(steps(subject, seed), steps(subject, seed));
                said += &format!("{:?}", steps(subject, seed));
            }
        }
        for kind in [
            "--keep",
            "fix undo",
            "Kill(1)",
            "Kill(70)",
            "Full(0)",
            "None",
            "AppendToFstab",
            "SetSwappiness",
            "Reboot",
            "PowerCut",
            "record",
            "watch run",
        ] {
            assert!(said.contains(kind), "no {kind}");
        }
    }

    #[test]
    fn the_scripts_are_valid_shell() {
        let functions = include_str!("functions.sh");
        for step in (0..50).flat_map(|seed| SUBJECTS.map(|subject| steps(subject, seed))).flatten() {
            let Some(script) = step.script() else { continue };
            let checked = std::process::Command::new("sh")
                .args(["-n", "-c", &format!("{functions}\n{script}")])
                .output();
            let checked = checked.expect("sh");
            assert!(checked.status.success(), "{script}: {}", String::from_utf8_lossy(&checked.stderr));
        }
    }

    #[test]
    fn a_killed_command_ends_at_the_chosen_write() {
        let dir = tempfile::tempdir().expect("dir");
        let fonio = dir.path().join("fonio");
        std::fs::write(&fonio, "#!/bin/sh\nfor name in a b c; do echo $name >$name; done\n").expect("script");
        std::fs::set_permissions(&fonio, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
        if fonio_testing::find_program("cc").is_none() {
            println!("skipped: `cc` is not installed");
            return;
        }
        crate::histories::killed_at::compile(&dir.path().join("killed_at")).expect("it compiles");
        for (words, at, code, written) in
            [("fix undo", 2, 137, "a\n"), ("record", 3, 137, "a\nb\n"), ("fix undo", 4, 0, "a\nb\nc\n")]
        {
            let script = format!(
                "PATH=.:$PATH; rm -f a b c; {}\nkilled {at} {words}; echo $?; cat a b c 2>/dev/null",
                include_str!("functions.sh")
            );
            let out = std::process::Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output();
            let out = out.expect("sh");
            let said = String::from_utf8_lossy(&out.stdout);
            assert_eq!(said, format!("{code}\n{written}"), "{}", String::from_utf8_lossy(&out.stderr));
        }
    }
}

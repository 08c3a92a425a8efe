//! The path of a change that makes a test suite write more, in a container of continuous integration.
//!
//! The container has no capabilities, an ordinary user, and Docker's default seccomp profile, which Docker's own
//! Go module prints. crun runs it. Each command is a container of its own, as each job of such a system is.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::databases::build_go;
use super::state::State;
use super::typed::{Person, Said, finish};
use super::{Answer, Outcome, Walk, Walked, wrong};
use crate::process;

const FILES: [(&str, &str); 3] = [
    ("shop.py", include_str!("apps/shop.py")),
    ("test_shop.py", include_str!("apps/test_shop.py")),
    ("test-suite", include_str!("apps/test-suite")),
];
const PROFILE: &str = include_str!("apps/profile.go");
const USER: u32 = 1000;
/// The files that the typed commands write.
const ASKED_FOR: [&str; 2] = ["fonio-baseline.json", "comment.md"];
/// The change: a commit for each item of a basket instead of one for the basket.
const CHANGE: [&str; 2] =
    ["(item, pieces))\n        self.db.commit()\n", "(item, pieces))\n            self.db.commit()\n"];
/// The statement that pays for the change.
const STATEMENT: &str = "INSERT INTO orders(item, pieces) VALUES";
/// crun refuses a machine with both versions of control groups, so it does not see version 2.
const START: &str =
    "for at in $(awk '$3 == \"cgroup2\" {print $2}' /proc/mounts); do umount $at; done; exec \"$@\"";

pub fn walk(walk: &Walk<'_>) -> Result<Outcome> {
    if fonio_testing::find_program("crun").is_none() {
        return Ok(Outcome::Skipped(
            "crun is not installed (apt-get install --no-install-recommends crun)".to_owned(),
        ));
    }
    let needs = walk.folder("needs")?;
    let profile = match profile(&needs) {
        Ok(profile) => profile,
        Err(error) => return Ok(Outcome::Skipped(format!("no seccomp profile of Docker: {error:#}"))),
    };
    let place = tempfile::tempdir()?;
    let container = Container::new(place.path(), walk.programs, &profile)?;
    let work = &container.work;
    let before = State::of(&[work])?;
    let run = |line: &str| container.run(line);
    let mut person = Person::new(run);
    let mut answers: Vec<Answer> = Vec::new();
    let mut is_code = |said: &Said, code: i32| {
        let is_right = said.code == code;
        answers.push(if is_right {
            Ok(())
        } else {
            wrong(&format!("exit code {} instead of {code}", said.code))
        });
    };

    is_code(&person.types("fonio ci --update -- ./test-suite")?, 0);
    let baseline = fs::read(work.join(ASKED_FOR[0])).context("the first command wrote no baseline")?;
    // Somebody changes the program, which is not typed.
    let shop = work.join("shop.py");
    let text = fs::read_to_string(&shop)?;
    ensure!(text.contains(CHANGE[0]), "the change does not fit the program");
    fs::write(&shop, text.replace(CHANGE[0], CHANGE[1]))?;
    is_code(&person.types("fonio ci --comment comment.md -- ./test-suite")?, 1);
    let comment =
        fs::read_to_string(work.join(ASKED_FOR[1])).context("the second command wrote no comment")?;
    // Its author takes the change back.
    install(work)?;
    let last = person.types("fonio ci -- ./test-suite")?;
    let ended = person.passed();

    // Counts of the same program must be equal, in each run and in each baseline.
    let again = container.run("fonio ci --update -- ./test-suite ")?;
    ensure!(again.code == 0, "fonio ci --update failed: {}", again.text);
    if fs::read(work.join(ASKED_FOR[0]))? != baseline {
        answers.push(wrong("a second baseline of the same program differs"));
    }
    if !comment.contains(STATEMENT) {
        answers.push(wrong("the comment does not name the statement that pays"));
    }
    let as_before = before.difference(&State::of(&[work])?.without(&ASKED_FOR)).map_or(Ok(()), Err);
    let fix =
        if last.code == 0 { Ok(()) } else { wrong(&format!("exit code {} without the change", last.code)) };
    Ok(Outcome::Walked(Walked {
        ended,
        fixed: Some(ended),
        typed: person.typed,
        words: person.words,
        verdict: Some(answers.into_iter().find(Result::is_err).unwrap_or(Ok(()))),
        fix: Some(fix),
        as_before,
        shown: first_sentence(&comment),
    }))
}

/// Returns the first sentence of a comment's verdict, which is bold.
fn first_sentence(comment: &str) -> String {
    let bold = comment.split("**").nth(1).unwrap_or_default();
    let line = bold.split_whitespace().collect::<Vec<_>>().join(" ");
    // A point inside a number does not end a sentence.
    let first = line.split_once(". ").map_or(line.as_str(), |(first, _)| first);
    first.trim_start_matches(['✗', ' ']).trim_end_matches('.').to_owned()
}

/// Returns Docker's default profile for a container without capabilities.
fn profile(needs: &Path) -> Result<Value> {
    let program = needs.join("profile");
    fs::write(needs.join("profile.go"), PROFILE)?;
    build_go(needs, "github.com/moby/profiles/seccomp@v0.3.0", &program)?;
    let text = process::output(&mut Command::new(&program))?;
    serde_json::from_str(&text).context("the profile is not JSON")
}

/// Writes the files of the program and its tests with the same time in each run.
fn install(work: &Path) -> Result<()> {
    for (name, text) in FILES {
        let path = work.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        chown(&path, Some(USER), Some(USER))?;
        let file = fs::File::options().write(true).open(&path)?;
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000))?;
    }
    Ok(())
}

/// The bundle of a container whose folder `/work` has the program.
struct Container {
    bundle: PathBuf,
    config: Value,
    work: PathBuf,
}

impl Container {
    fn new(place: &Path, programs: &Path, profile: &Value) -> Result<Container> {
        let (bundle, work) = (place.join("bundle"), place.join("work"));
        fs::create_dir_all(&work)?;
        chown(&work, Some(USER), Some(USER))?;
        install(&work)?;
        let bind = |source: &Path, to: &str, rights: &str| json!({"destination": to, "type": "bind", "source": source, "options": ["rbind", rights]});
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]}),
            bind(programs, "/opt", "ro"),
            bind(&work, "/work", "rw"),
        ];
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"].into_iter();
        mounts.extend(
            system.filter(|path| Path::new(path).exists()).map(|path| bind(path.as_ref(), path, "ro")),
        );
        for folder in ["proc", "tmp", "dev", "opt", "work", "usr", "bin", "lib", "lib64", "etc"] {
            fs::create_dir_all(bundle.join("rootfs").join(folder))?;
        }
        let nothing = json!([]);
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": USER, "gid": USER},
                "env": ["PATH=/opt:/usr/bin:/bin", "HOME=/work", "PYTHONDONTWRITEBYTECODE=1"],
                "cwd": "/work",
                "noNewPrivileges": true,
                "capabilities": {"bounding": nothing, "effective": nothing, "permitted": nothing},
            },
            "root": {"path": "rootfs", "readonly": true},
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}],
                "seccomp": profile,
            },
        });
        Ok(Container { bundle, config, work })
    }

    /// Runs a line in a new container.
    fn run(&self, line: &str) -> Result<Said> {
        let mut config = self.config.clone();
        config["process"]["args"] = json!(["sh", "-c", format!("exec 2>&1\n{line}")]);
        fs::write(self.bundle.join("config.json"), config.to_string())?;
        let mut command = process::bound_to_this(Path::new("unshare"));
        command.args(["--mount", "--propagation", "private", "sh", "-c", START, "start", "crun"]);
        command.args(["--cgroup-manager=disabled", "--root"]).arg(self.bundle.join("state"));
        command
            .args(["run", "--bundle"])
            .arg(&self.bundle)
            .arg(format!("fonio-paths-{}", std::process::id()));
        finish(command.stdin(Stdio::null()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_change_makes_a_commit_for_each_item() {
        let text = FILES[0].1;
        assert_eq!(text.matches(CHANGE[0]).count(), 1);
        assert!(text.contains(STATEMENT));
        assert_ne!(text.replace(CHANGE[0], CHANGE[1]), text);
    }

    #[test]
    fn the_first_sentence_is_taken_from_a_comment() {
        let comment =
            "# Storage cost of `x`\n\n**✗ The command costs 3.5 writes; was 2. Most\nof it is in x.**\n";
        assert_eq!(first_sentence(comment), "The command costs 3.5 writes; was 2");
    }
}

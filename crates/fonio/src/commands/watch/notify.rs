//! Tells a person about stalls, while the watch runs: at a time of day, about each cause at most once in 24 hours; and
//! once a week a digest.
//!
//! A thread wakes up twice a minute, and reads the history as `fonio watch report` does. The times at which a cause was
//! told are in `STATE/told.json`, so that a restart of the watch does not tell it again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fonio_core::printable;
use fonio_system::{TrustedFolder, regular};
use fonio_watch::answers::{self, StallGroup};
use fonio_watch::settings::{DAYS, Notify};
use fonio_watch::{Folders, Settings, Shared, times};
use serde::{Deserialize, Serialize};

use super::status::{digest_lines, followed_all};
use super::{remedy, report};

const DAY_S: i64 = 24 * 3600;
const LOOK: Duration = Duration::from_secs(30);
const SLEEP: Duration = Duration::from_millis(200);
const TOLD: &str = "told.json";
const TOLD_BYTES_MAX: u64 = 1 << 20;
const TOKEN_BYTES_MAX: u64 = 64 << 10;
const GROUPS_MAX: usize = 3;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The running thread; it ends when this value is dropped.
pub(super) struct Notifier {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the thread if the settings name a way to tell a person.
pub(super) fn start(
    settings: &Settings,
    folders: &Folders,
    shared: Arc<Shared>,
    tell: fn(&str),
) -> Result<Option<Notifier>> {
    let Some(notify) = settings.notify.clone() else { return Ok(None) };
    let stop = Arc::new(AtomicBool::new(false));
    let teller = Teller { settings: settings.clone(), notify, folders: folders.clone(), shared };
    let stopped = Arc::clone(&stop);
    let work = move || {
        let mut waited = LOOK;
        while !stopped.load(Ordering::Relaxed) {
            if waited < LOOK {
                std::thread::sleep(SLEEP);
                waited += SLEEP;
                continue;
            }
            waited = Duration::ZERO;
            if let Err(error) = teller.look(now()) {
                tell(&format!("nobody could be told about stalls: {error:#}"));
            }
        }
    };
    let thread = std::thread::Builder::new().name("notify".to_owned()).spawn(work);
    Ok(Some(Notifier { stop, thread: Some(thread.context("cannot start a thread")?) }))
}

fn now() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}

/// What was told already.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Told {
    /// The day on which the stalls of a day were last looked at, such as `2026-11-24`.
    day: String,
    /// The day of the last digest.
    week: String,
    /// When each cause was last told.
    causes: BTreeMap<String, i64>,
    /// The kept fixes of which it was told that they have stopped helping.
    #[serde(default)]
    stopped: BTreeSet<String>,
}

/// A text for a person.
#[derive(Debug, PartialEq)]
struct Message {
    subject: String,
    text: String,
}

impl Told {
    /// Returns whether it is time to look at the stalls of the day.
    fn is_due(&self, notify: &Notify, at: i64) -> bool {
        let of_day = times::on_clock(at).rem_euclid(DAY_S) / 60;
        self.day != times::day(at) && notify.minute().is_some_and(|minute| of_day >= minute)
    }

    /// Returns the message about the causes that were not told in the last 24 hours, and notes them as told.
    fn message(
        &mut self,
        groups: &[StallGroup],
        at: i64,
        fix: &dyn Fn(&StallGroup) -> Option<String>,
    ) -> Option<Message> {
        // A message is sent at the same time each day, so a few minutes less than a day count as a day.
        self.causes.retain(|_, told| at - *told < DAY_S - 600);
        let new: Vec<&StallGroup> =
            groups.iter().filter(|group| !self.causes.contains_key(&name(group))).collect();
        let first = new.first()?;
        let mut text = String::new();
        for group in new.iter().take(GROUPS_MAX) {
            text += &format!("{}\n", group.sentence);
            if let Some(line) = fix(group) {
                text += &format!("{line}\n");
            }
        }
        if new.len() > GROUPS_MAX {
            text += &format!("And {} more causes.\n", new.len() - GROUPS_MAX);
        }
        text += "More: sudo fonio watch status\n";
        let stalls: u64 = new.iter().map(|group| group.stalls).sum();
        let subject = format!(
            "{} in the last day, mostly of {}",
            if stalls == 1 { "1 stall".to_owned() } else { format!("{stalls} stalls") },
            answers::party_name(&first.party)
        );
        self.causes.extend(new.iter().map(|group| (name(group), at)));
        Some(Message { subject, text })
    }
}

/// Returns the name of a cause: who was blocked, how, and by whom.
fn name(group: &StallGroup) -> String {
    let by = group.culprit.as_ref().map_or("", |party| party.name.as_str());
    format!("{} | {:?} | {by}", group.party.name, group.cause)
}

struct Teller {
    settings: Settings,
    notify: Notify,
    folders: Folders,
    shared: Arc<Shared>,
}

impl Teller {
    fn look(&self, at: i64) -> Result<()> {
        let folder = TrustedFolder::make(&self.folders.state)?;
        let mut told: Told = match folder.read(TOLD, TOLD_BYTES_MAX)? {
            Some(text) => serde_json::from_slice(&text).unwrap_or_default(),
            None => Told::default(),
        };
        if !told.is_due(&self.notify, at) {
            return Ok(());
        }
        let history = report::history(&self.folders)?;
        told.day = times::day(at);
        let stalls = answers::stalls(&history, at - DAY_S);
        let mut messages: Vec<Message> = Vec::new();
        messages.extend(told.message(&stalls.groups, at, &remedy::fix));
        for fix in followed_all(&history, at).iter().filter(|fix| fix.has_stopped) {
            // Once for each fix: it is told again only if it was kept anew.
            let name = format!("{} | stopped | {}", fix.fix, fix.kept_at);
            if told.stopped.insert(name) {
                let subject = format!("a kept fix has stopped helping: {}", fix.fix);
                messages.push(Message { subject, text: format!("{}\n", fix.sentence) });
            }
        }
        let is_day = self.notify.weekly.as_deref() == Some(DAYS[times::day_of_week(at) % DAYS.len()]);
        if is_day && told.week != told.day {
            told.week.clone_from(&told.day);
            let week = answers::stalls(&history, at - 7 * DAY_S);
            let wear = answers::wear(&history, at - 7 * DAY_S, &self.settings.endurance);
            let text = digest_lines(&week, &wear).join("\n") + "\n";
            messages.push(Message { subject: "the last week".to_owned(), text });
        }
        // Noted first: a way that fails must not send the same text twice a minute.
        folder.replace(TOLD, &serde_json::to_vec(&told)?)?;
        messages.iter().try_for_each(|message| self.tell(message))
    }

    /// Tells a person in all configured ways. Fails with the first error, after all ways were tried.
    fn tell(&self, message: &Message) -> Result<()> {
        let mut outcomes = Vec::new();
        let text = printable_text(&message.text);
        let subject = format!("fonio on {}: {}", host(), printable(&message.subject));
        if let [program, arguments @ ..] = self.notify.command.as_slice() {
            let mut command = Command::new(program);
            command.args(arguments).env("FONIO_SUBJECT", &subject);
            outcomes.push(give(command, &text).with_context(|| format!("`command` of [notify], {program}")));
        }
        if let Some(to) = &self.notify.mail {
            let mut command = Command::new("sendmail");
            command.args(["-i", "--", to]);
            let mail =
                format!("To: {to}\nSubject: {subject}\nContent-Type: text/plain; charset=utf-8\n\n{text}");
            outcomes.push(
                give(command, &mail).context("`mail` of [notify]: sendmail, of a package such as msmtp-mta"),
            );
        }
        if let (Some(address), Some(file)) = (&self.notify.home_assistant, &self.notify.token_file) {
            let outcome = home_assistant(address, file, &subject, &text);
            outcomes.push(outcome.with_context(|| format!("`home-assistant` of [notify], {address}")));
        }
        if self.notify.mqtt {
            self.shared.notify(&format!("{subject}\n{text}"));
        }
        outcomes.into_iter().collect()
    }
}

/// Escapes each line, because names come from strangers.
fn printable_text(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", printable(line))).collect()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Runs a program with a text on its standard input. A program that takes longer than half a minute is killed.
fn give(mut command: Command, text: &str) -> Result<()> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().context("it cannot be started")?;
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(text.as_bytes()));
    let began = std::time::Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if began.elapsed() > ANSWER_WITHIN => {
                child.kill()?;
                child.wait()?;
                bail!("it did not end within 30 s");
            }
            None => std::thread::sleep(SLEEP),
        }
    };
    match written {
        // A program may end without reading its input.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if status.success() { Ok(()) } else { bail!("it ended with {status}") }
}

fn home_assistant(address: &str, token: &std::path::Path, title: &str, message: &str) -> Result<()> {
    let token = regular::read_text(token, TOKEN_BYTES_MAX).context("the token file")?;
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(ANSWER_WITHIN)).build().into();
    let url = format!("{}/api/services/persistent_notification/create", address.trim_end_matches('/'));
    let body = serde_json::json!({ "title": title, "message": message, "notification_id": "fonio" });
    agent
        .post(&url)
        .header("Authorization", &format!("Bearer {}", token.trim()))
        .header("Content-Type", "application/json")
        .send(body.to_string())
        .context("it did not accept the notification")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use fonio_record::observer::{Party, PartyKind};
    use fonio_watch::answers::CauseKind;

    use super::*;

    fn group(party: &str, culprit: Option<&str>) -> StallGroup {
        let unit = |name: &str| Party { name: name.to_owned(), kind: PartyKind::Unit };
        StallGroup {
            party: unit(party),
            cause: CauseKind::Behind,
            culprit: culprit.map(unit),
            operations: Vec::new(),
            file: None,
            device: None,
            stalls: 4,
            total_ms: 8000,
            longest_ms: 3000,
            first: 0,
            last: 1,
            kept: None,
            sentence: format!("{party} was blocked."),
        }
    }

    fn notify(text: &str) -> Notify {
        let text = format!("[notify]\n{text}\n");
        let settings = Settings::parse(&text, std::path::Path::new("watch.toml")).expect("settings");
        settings.notify.expect("they have the section")
    }

    #[test]
    fn a_cause_is_told_once_a_day() {
        let mut told = Told::default();
        let fix = |group: &StallGroup| group.culprit.as_ref().map(|by| format!("Fix: x {}", by.name));
        let (notes, mail) = (group("notes", Some("backup")), group("mail", None));
        let first = told.message(std::slice::from_ref(&notes), 0, &fix).expect("it is new");
        assert_eq!(
            first,
            Message {
                subject: "4 stalls in the last day, mostly of notes".to_owned(),
                text: "notes was blocked.\nFix: x backup\nMore: sudo fonio watch status\n".to_owned(),
            }
        );
        assert_eq!(told.message(std::slice::from_ref(&notes), DAY_S / 2, &fix), None);
        let second = told.message(&[notes.clone(), mail], DAY_S / 2, &fix).expect("one is new");
        assert_eq!(second.text, "mail was blocked.\nMore: sudo fonio watch status\n");
        assert!(told.message(&[notes], DAY_S, &fix).is_some(), "a day has passed");
        assert_eq!(told.message(&[], 9 * DAY_S, &fix), None);
    }

    #[test]
    fn it_is_due_once_a_day_from_the_time_on() {
        let notify = notify("at = \"08:00\"\nmail = \"root\"");
        let at = |text: &str| times::parse_local(text).expect("a time");
        let mut told = Told::default();
        assert!(!told.is_due(&notify, at("2026-11-24T07:59:59")));
        assert!(told.is_due(&notify, at("2026-11-24T08:00:00")));
        assert!(told.is_due(&notify, at("2026-11-24T23:00:00")), "the machine was off at that time");
        told.day = "2026-11-24".to_owned();
        assert!(!told.is_due(&notify, at("2026-11-24T23:00:00")));
        assert!(told.is_due(&notify, at("2026-11-25T08:00:00")));
        assert_eq!(DAYS[times::day_of_week(at("2026-11-24T08:00:00"))], "tuesday");
    }

    #[test]
    fn a_program_gets_the_text_and_its_failure_is_told() {
        let dir = tempfile::tempdir().expect("dir");
        let to = dir.path().join("text");
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).env("TO", &to);
            command
        };
        give(shell("cat >$TO"), "one\ntwo\n").expect("it takes the text");
        assert_eq!(std::fs::read_to_string(&to).expect("it is there"), "one\ntwo\n");
        give(shell("true"), &"x".repeat(1 << 20)).expect("it need not read");
        let error = give(shell("exit 3"), "x").expect_err("it fails").to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(give(Command::new("/no/such/program"), "x").is_err());
    }
}

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

use anyhow::{Context, Result, anyhow, bail};
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
            outcomes.push(
                give(sendmail(to), &mail(to, &subject, &text))
                    .context("`mail` of [notify]: sendmail, of a package such as msmtp-mta"),
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

/// Folders of sendmail, which the search path of a service can lack.
const SENDMAIL_IN: [&str; 2] = ["/usr/sbin", "/usr/lib"];

/// Returns the command that sends a mail from standard input.
fn sendmail(to: &str) -> Command {
    let mut command = Command::new("sendmail");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", [&[path.as_str()], &SENDMAIL_IN[..]].concat().join(":")).args(["-i", "--", to]);
    command
}

/// Returns a mail with its headers.
fn mail(to: &str, subject: &str, text: &str) -> String {
    format!(
        "To: {to}\nSubject: {}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\n\n{text}",
        header(subject)
    )
}

/// Encodes the text of a header, which may contain only ASCII (RFC 2047).
fn header(text: &str) -> String {
    /// An encoded word has at most 75 characters, and a letter is complete in one word.
    const BYTES_MAX: usize = 60;
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut words = vec![String::new()];
    for letter in text.chars() {
        let encoded: String = match letter {
            ' ' => "_".to_owned(),
            letter if letter.is_ascii_alphanumeric() => letter.to_string(),
            letter => letter.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("={byte:02X}")).collect(),
        };
        let last = words.last_mut().expect("there is always a word");
        if last.len() + encoded.len() > BYTES_MAX {
            words.push(encoded);
        } else {
            last.push_str(&encoded);
        }
    }
    let words: Vec<String> = words.into_iter().map(|word| format!("=?utf-8?Q?{word}?=")).collect();
    words.join("\n ")
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
        .map_err(|error| match error {
            ureq::Error::StatusCode(401) => anyhow!(
                "it does not know the token; create a long-lived access token on your profile's page, and write it into the file"
            ),
            error => anyhow::Error::from(error).context("it did not accept the notification"),
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use fonio_record::observer::{Party, PartyKind};
    use fonio_testing::{Need, find_program, has};
    use fonio_watch::answers::CauseKind;

    use super::*;

    fn group(party: &str, culprit: Option<&str>) -> StallGroup {
        let unit = |name: &str| Party { name: name.to_owned(), kind: PartyKind::Unit };
        StallGroup {
            party: unit(party),
            cause: CauseKind::Behind,
            culprit: culprit.map(unit),
            culprit_op: None,
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
    fn a_header_is_ascii() {
        assert_eq!(header("fonio on pi: 4 stalls"), "fonio on pi: 4 stalls");
        assert_eq!(header("auf dem Gerät"), "=?utf-8?Q?auf_dem_Ger=C3=A4t?=");
        let long = header(&"ä ".repeat(30));
        assert!(long.lines().count() > 1 && long.lines().all(|line| line.trim().len() <= 75), "{long}");
    }

    /// Answers one SMTP session, and returns the commands and the mail.
    fn receive(listener: &TcpListener) -> String {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
        let mut received = String::new();
        write!(stream, "220 test\r\n").expect("it can be written");
        let mut is_data = false;
        while let Some(Ok(line)) = lines.next() {
            received += &line;
            received.push('\n');
            let answer = match (is_data, line.as_str()) {
                (true, ".") => "250 taken",
                (true, _) => continue,
                (false, "DATA") => "354 go on",
                (false, "QUIT") => "221 bye",
                (false, _) => "250 yes",
            };
            is_data = line == "DATA";
            write!(stream, "{answer}\r\n").expect("it can be written");
        }
        received
    }

    #[test]
    fn a_real_sendmail_sends_the_mail() {
        if !has(&[Need::Msmtp]) {
            return;
        }
        let dir = tempfile::tempdir().expect("dir");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        // Debian's package msmtp-mta is this link.
        let msmtp = find_program("msmtp").expect("it is installed");
        std::os::unix::fs::symlink(msmtp, dir.path().join("sendmail")).expect("a link");
        let config = format!("account default\nhost 127.0.0.1\nport {port}\nfrom fonio@pi.example\n");
        std::fs::write(dir.path().join(".msmtprc"), config).expect("a file");
        let received = std::thread::spawn(move || receive(&listener));
        let mut command = sendmail("anna@example.org");
        command.env("HOME", dir.path()).env("PATH", dir.path());
        let text = "notes was blocked.\n.\nZürich: 12 µs\n";
        give(command, &mail("anna@example.org", "fonio on Gerät: 1 stall", text)).expect("it is sent");
        let received = received.join().expect("a session");
        for wanted in [
            "MAIL FROM:<fonio@pi.example>",
            "RCPT TO:<anna@example.org>",
            "To: anna@example.org\n",
            "Subject: =?utf-8?Q?fonio_on_Ger=C3=A4t=3A_1_stall?=\n",
            "Content-Type: text/plain; charset=utf-8\n",
            // SMTP doubles the dot at the beginning of a line.
            "\n\nnotes was blocked.\n..\nZürich: 12 µs\n.\n",
        ] {
            assert!(received.contains(wanted), "{wanted} is not in {received}");
        }
    }

    #[test]
    fn home_assistant_shows_the_notification() {
        if !has(&[Need::HomeAssistant]) {
            return;
        }
        let dir = tempfile::tempdir().expect("dir");
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port").port();
        let address = format!("http://127.0.0.1:{port}");
        let config = format!(
            "homeassistant:\n  name: test\nhttp:\n  server_host: 127.0.0.1\n  server_port: {port}\napi:\n\
             websocket_api:\nauth:\nonboarding:\n"
        );
        std::fs::write(dir.path().join("configuration.yaml"), config).expect("a file");
        let hass = find_program("hass").expect("it is installed");
        // The interpreter of hass has the packages for its WebSocket.
        let first = std::fs::read_to_string(&hass).expect("a script");
        let python = first.lines().next().and_then(|line| line.strip_prefix("#!")).expect("an interpreter");
        let log = std::fs::File::create(dir.path().join("log")).expect("a file");
        let mut command = Command::new(&hass);
        command.args(["--skip-pip", "-c"]).arg(dir.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a copy")).stderr(log);
        let server = Ends(command.spawn().expect("it starts"));
        let script = dir.path().join("ask.py");
        std::fs::write(&script, include_str!("home_assistant.py")).expect("a file");
        let ask = |what: &str, token: &str| {
            let mut ask = Command::new(python);
            let out = ask.arg(&script).args([&address, what, token]).output().expect("it starts");
            let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
            assert!(out.status.success(), "{}\n{log}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8_lossy(&out.stdout).trim().to_owned()
        };
        let token = ask("token", "");
        let file = dir.path().join("token");
        std::fs::write(&file, format!("{token}\n")).expect("a file");
        let text = "notes was blocked.\nZürich: 12 µs\n";
        home_assistant(&format!("{address}/"), &file, "fonio on pi: 1 stall", text).expect("it is accepted");
        let shown: serde_json::Value = serde_json::from_str(&ask("notifications", &token)).expect("JSON");
        let own = shown.as_array().and_then(|all| all.iter().find(|one| one["notification_id"] == "fonio"));
        let own = own.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!((&own["title"], &own["message"]), (&"fonio on pi: 1 stall".into(), &text.into()));
        // A wrong token is an error that names the way out.
        std::fs::write(&file, "wrong\n").expect("a file");
        let refused = home_assistant(&address, &file, "x", "y").expect_err("a wrong token");
        assert!(format!("{refused:#}").contains("token"), "{refused:#}");
        drop(server);
    }

    /// Ends a process when it is dropped.
    struct Ends(std::process::Child);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
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

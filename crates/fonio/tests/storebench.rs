//! Runs `fonio storebench`.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Output, Stdio};

use assert_cmd::Command;
use fonio_storebench_document::document::{Document, Effort, Mode, Origin};
use fonio_storebench_document::models;
use fonio_testing::{Need, has, skip, skip_without};

use super::text;

fn fonio(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
    command.args(arguments).env("FONIO_LASTING_STATE", home).output().expect("fonio starts")
}

fn model(folder: &Path, name: &str) -> String {
    let document = models::shipped().into_iter().find(|model| model.device.model.as_deref() == Some(name));
    let file = folder.join(format!("{name}.json"));
    fs::write(&file, serde_json::to_string(&document.expect("it is shipped")).expect("JSON"))
        .expect("it can be written");
    file.to_str().expect("its name is text").to_owned()
}

#[test]
fn a_dry_run_says_the_bytes_and_writes_none() {
    let (home, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let at = folder.path().to_str().expect("its name is text");
    let said = fonio(home.path(), &["storebench", at, "--dry-run", "--max-write", "300MiB"]);
    assert!(said.status.success(), "{said:?}");
    let out = text(&said.stdout);
    assert!(out.contains("StoreBench writes at most 148 MiB"), "{out}");
    assert!(out.contains("its writes would exceed the --max-write limit"), "{out}");
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn wrong_targets_are_refused_in_words() {
    let home = tempfile::tempdir().expect("a folder");
    for (arguments, code, expected) in [
        (&["storebench", "no-such-card"][..], 2, "neither a directory nor a block device"),
        (&["storebench", "/tmp", "--erase", "/tmp"], 2, "--erase is for a raw device"),
        (&["storebench", "/tmp", "--for", "1h"], 2, "at most 10min"),
        (&["storebench", "show", "/no/such/file"], 2, "cannot read /no/such/file"),
        (&["storebench", "submit", "--server", "ftp://x.example", "r.json"], 2, "write https://HOST"),
    ] {
        let said = fonio(home.path(), arguments);
        assert_eq!(said.status.code(), Some(code), "{arguments:?}: {said:?}");
        assert!(text(&said.stderr).contains(expected), "{arguments:?}: {}", text(&said.stderr));
    }
}

#[test]
fn a_folder_in_memory_is_refused() {
    if !has(&[Need::Fio]) || !Path::new("/dev/shm").is_dir() {
        return;
    }
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let said =
        fonio(folder.path(), &["storebench", folder.path().to_str().expect("its name is text"), "--quick"]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    // Before Linux 6.6, tmpfs does not support direct I/O, so the error message differs.
    let err = text(&said.stderr);
    assert!(err.contains("is in memory (tmpfs)") || err.contains("does not support direct I/O"), "{err}");
}

/// A run that is killed together with its children leaves test files and the results of finished parts. The
/// next run removes the test files and continues after the finished parts.
#[test]
fn a_killed_run_is_continued_and_cleaned_up() {
    skip_without!(Fio);
    let (home, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let at = folder.path().to_str().expect("its name is text");
    let mut killed = std::process::Command::new(env!("CARGO_BIN_EXE_fonio"))
        .args(["storebench", at, "--quick"])
        .env("FONIO_LASTING_STATE", home.path())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("fonio starts");
    let lines = BufReader::new(killed.stderr.take().expect("it was asked for")).lines();
    let mut said = Vec::new();
    for line in lines.map_while(Result::ok) {
        let begins_second = line.starts_with("[2/");
        said.push(line);
        if begins_second {
            break;
        }
    }
    killed.kill().expect("it can be killed");
    killed.wait().expect("it ends");
    if said.iter().any(|line| line.contains("does not support direct I/O")) {
        return skip(Need::DirectIo, said.join("\n"));
    }
    assert!(said.iter().any(|line| line.starts_with("[2/")), "{said:?}");
    assert!(fs::read_dir(folder.path()).expect("the folder").count() > 0, "kill -9 leaves the file");
    let said = fonio(home.path(), &["storebench", at, "--quick", "--json"]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let err = text(&said.stderr);
    assert!(
        err.contains("Continues an interrupted run, which measured: bandwidth and response times."),
        "{err}"
    );
    assert!(!err.contains("[1/") && err.contains("[2/"), "{err}");
    assert!(err.starts_with("StoreBench writes at most "), "{err}");
    let document = Document::parse(&said.stdout).expect("a document in order");
    assert_eq!((document.key.effort, document.key.mode), (Effort::Quick, Mode::Directory));
    assert_eq!(document.origin, Origin::Measured);
    for figure in ["bandwidth.total", "slowdown.rand_read.4x4", "launch.cold.total", "concurrency.rand_read"]
    {
        assert!(document.value(figure).is_some(), "{figure}: {:?}", document.figures[figure]);
    }
    assert_eq!(document.launches.len(), 40);
    assert!(document.written_bytes > 100 << 20);
    assert!(!text(&said.stdout).contains(at), "the result contains the path");
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
    let kept: Vec<_> = fs::read_dir(home.path().join("storebench")).expect("the results").flatten().collect();
    assert_eq!(kept.len(), 1, "expected only the result: {kept:?}");
}

#[test]
fn results_are_shown_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let (slow, fast) = (model(folder.path(), "kingston"), model(folder.path(), "sd_a2"));
    let said = fonio(folder.path(), &["storebench", "show", &slow, "--color", "never"]);
    assert!(said.status.success(), "{said:?}");
    let out = text(&said.stdout);
    assert!(out.contains("Computed from a model, not measured."), "{out}");
    assert!(out.contains("v1.full.device.none."), "{out}");
    let said = fonio(folder.path(), &["storebench", "compare", &slow, &slow]);
    assert!(text(&said.stdout).contains("No difference was shown in any of "), "{said:?}");
    let said = fonio(folder.path(), &["storebench", "compare", &slow, &fast, "--json"]);
    assert!(said.status.success() && text(&said.stdout).contains("\"answer\": \"better\""), "{said:?}");
}

#[test]
fn different_keys_are_not_compared_by_chance() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = model(folder.path(), "sd_a1");
    let mut other = Document::parse(&fs::read(&first).expect("it was written")).expect("in order");
    other.key.effort = Effort::Quick;
    let second = folder.path().join("quick.json");
    fs::write(&second, serde_json::to_string(&other).expect("JSON")).expect("it can be written");
    let second = second.to_str().expect("its name is text");
    let said = fonio(folder.path(), &["storebench", "compare", &first, second]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("the results differ in the effort (full and quick)"), "{said:?}");
    let said = fonio(folder.path(), &["storebench", "compare", &first, second, "--across-keys"]);
    assert!(said.status.success(), "{said:?}");
}

#[test]
fn damaged_results_are_refused_with_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = model(folder.path(), "sd_a1");
    let sound = fs::read_to_string(&file).expect("it was written");
    for (from, to, expected) in [
        ("\"sd_a1\"", "\"/home/ann\"", "device.model: the text has a path"),
        ("fonio.storebench/1", "fonio.storebench/9", "schema: the schema is not fonio.storebench/1"),
        ("\"took_s\"", "\"took\"", "unknown field `took`"),
        ("{", "", "invalid type"),
    ] {
        assert!(sound.contains(from), "{from}");
        fs::write(&file, sound.replacen(from, to, 1)).expect("it can be written");
        let said = fonio(folder.path(), &["storebench", "show", &file]);
        assert_eq!(said.status.code(), Some(2), "{from}");
        assert!(text(&said.stderr).contains(expected), "{from}: {}", text(&said.stderr));
    }
}

#[test]
fn nothing_is_sent_without_a_yes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = model(folder.path(), "sd_a1");
    // No program listens on this TCP port.
    let submit = ["storebench", "submit", "--server", "http://127.0.0.1:9", &file];
    let said = fonio(folder.path(), &submit);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stdout).contains("schema: \"fonio.storebench/1\""), "no preview: {said:?}");
    assert!(text(&said.stderr).contains("nothing was sent"), "{said:?}");
    let said = fonio(folder.path(), &[&submit[..], &["--yes"]].concat());
    assert!(text(&said.stderr).contains("http://127.0.0.1:9 cannot be reached"), "{said:?}");
}

/// A TLS server whose certificate is not signed by a known authority.
struct TlsServer {
    process: std::process::Child,
    address: String,
    /// The server's output, which stays open because openssl continues to write.
    _output: BufReader<std::process::ChildStdout>,
}

impl TlsServer {
    /// Starts openssl's server, which replies to each request with a page about the connection.
    fn start(folder: &Path) -> TlsServer {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", "key.pem", "-out", "certificate.pem"])
            .current_dir(folder)
            .output()
            .expect("openssl starts");
        assert!(made.status.success(), "{made:?}");
        // Find a free TCP port for openssl, because openssl does not print a port that it chooses itself.
        let free =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let mut process = std::process::Command::new("openssl")
            .args(["s_server", "-www", "-cert", "certificate.pem", "-key", "key.pem", "-accept"])
            .arg(free.to_string())
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl starts");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let has_begun = output.by_ref().lines().map_while(Result::ok).any(|line| line == "ACCEPT");
        assert!(has_begun, "openssl accepts no connection");
        TlsServer { process, address: format!("https://{free}"), _output: output }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_with_tls_is_trusted_by_its_certificate_alone() {
    skip_without!(Openssl);
    let folder = tempfile::tempdir().expect("a folder");
    let (file, server) = (model(folder.path(), "sd_a1"), TlsServer::start(folder.path()));
    let show = |authorities: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
        command.args(["storebench", "show", &file, "--server", &server.address]);
        command.env("FONIO_LASTING_STATE", folder.path()).env_remove("SSL_CERT_FILE");
        if let Some(name) = authorities {
            command.env("SSL_CERT_FILE", folder.path().join(name));
        }
        text(&command.output().expect("fonio starts").stderr)
    };
    for (authorities, expected) in [
        (None, "no trusted encrypted connection to"),
        (Some("certificate.pem"), "does not answer like a results service of fonio"),
        (Some("key.pem"), "contains no PEM certificate"),
        (Some("no-such-file"), "No such file"),
    ] {
        let said = show(authorities);
        assert!(said.contains(expected), "{authorities:?}: {said}");
    }
}

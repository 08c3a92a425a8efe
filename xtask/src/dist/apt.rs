//! `cargo xtask dist apt`: makes a repository for apt, as static files for any web server.
//!
//! The packages of ARMv6 have the same name, version and Debian architecture (`armhf`) as those of ARMv7.
//! Therefore, they are in a suite of their own, `armv6`; all other packages are in the suite `stable`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use fonio_lab::Architecture;

use super::package::{self, VERSION};
use super::target::{TARGETS, Target};
use super::{committed_s, folder, sha256, within};
use crate::{process, tools};

/// The environment variable with the text of the secret key, for machines that keep secrets in variables.
pub const KEY_VARIABLE: &str = "FONIO_SIGNING_KEY";
/// The name of the public key in the repository.
pub const PUBLIC_KEY: &str = "fonio-archive-keyring.asc";
/// The suites, each with its targets.
const SUITES: [(&str, &[&str]); 2] = [("stable", &["amd64", "arm64", "armhf"]), ("armv6", &["armv6"])];
/// The packages that the repository has for each target.
const PACKAGES: [&str; 2] = ["fonio", "fonio-recorder"];

/// The secret key with which a repository is signed, in a keyring of its own. The keyring is removed when this
/// value is dropped.
pub struct Key {
    home: tempfile::TempDir,
}

impl Key {
    /// Reads the key from a file, or from the environment variable [`KEY_VARIABLE`]; `None` if neither is given.
    pub fn given(file: Option<&Path>) -> Result<Option<Key>> {
        let text = match (file, std::env::var(KEY_VARIABLE)) {
            (Some(file), _) => {
                fs::read(file).with_context(|| format!("cannot read the key {}", file.display()))?
            }
            (None, Ok(text)) if !text.is_empty() => text.into_bytes(),
            (None, _) => return Ok(None),
        };
        let key = Key::empty()?;
        let path = key.home.path().join("given");
        fs::write(&path, text)?;
        process::output(key.gpg().arg("--import").arg(&path))
            .context("gpg cannot import the key; export it with `gpg --armor --export-secret-keys`")?;
        fs::remove_file(&path)?;
        let listed = process::output(key.gpg().args(["--with-colons", "--list-secret-keys"]))?;
        ensure!(listed.lines().any(|line| line.starts_with("sec:")), "the key file has no secret key");
        Ok(Some(key))
    }

    /// Makes a new key for a test.
    pub fn new_for_test() -> Result<Key> {
        let key = Key::empty()?;
        let arguments =
            ["--passphrase", "", "--quick-generate-key", "fonio test <test@localhost>", "ed25519", "sign"];
        process::output(key.gpg().args(arguments))?;
        Ok(key)
    }

    fn empty() -> Result<Key> {
        tools::ensure(&[tools::APT])?;
        let home = tempfile::tempdir().context("cannot create a folder")?;
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700))?;
        Ok(Key { home })
    }

    fn gpg(&self) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.args(["--batch", "--quiet", "--yes", "--homedir"]).arg(self.home.path());
        gpg
    }

    /// Signs a file. Writes the result into the file `to`.
    fn sign(&self, how: &[&str], file: &Path, to: &Path) -> Result<()> {
        let mut gpg = self.gpg();
        gpg.args(["--digest-algo", "SHA256"]).args(how).arg("--output").arg(to).arg(file);
        process::output(&mut gpg).map(drop)
    }

    fn public(&self) -> Result<String> {
        process::output(self.gpg().args(["--armor", "--export"])).map(|text| text + "\n")
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // gpg starts a process that keeps secret keys.
        let mut end = Command::new("gpgconf");
        end.arg("--homedir").arg(self.home.path()).args(["--kill", "all"]);
        let _ = end.stderr(Stdio::null()).status();
    }
}

/// Creates the repository `apt` in the folder of the files to distribute, from the packages of this version there.
pub fn make(key: &Key) -> Result<PathBuf> {
    let place = folder()?.join("apt");
    make_in(key, &place)?;
    println!("{}: a repository for apt, for any web server", within(&place));
    Ok(place)
}

fn make_in(key: &Key, place: &Path) -> Result<()> {
    process::remove_folder(place)?;
    let mut suites = Vec::new();
    for (suite, targets) in SUITES {
        let targets: Vec<Target> =
            TARGETS.into_iter().filter(|target| targets.contains(&target.name)).collect();
        let mut indexes = Vec::new();
        for target in targets {
            if let Some(index) = index(target, suite, place)? {
                indexes.push((target.debian, index));
            }
        }
        if !indexes.is_empty() {
            release(key, suite, &indexes, place)?;
            suites.push(suite);
        }
    }
    ensure!(
        !suites.is_empty(),
        "{} has no packages of version {VERSION}; run `cargo xtask dist` first",
        folder()?.display()
    );
    package::write(&place.join(PUBLIC_KEY), key.public()?.as_bytes())
}

/// Copies the packages of a target into the repository, and returns their index; `None` if there are none.
fn index(target: Target, suite: &str, place: &Path) -> Result<Option<String>> {
    let mut index = String::new();
    for name in PACKAGES {
        let file = folder()?.join(format!("{name}_{VERSION}_{target}.deb"));
        if !file.exists() {
            continue;
        }
        let path = format!("pool/{suite}/{}", file.file_name().unwrap_or_default().to_string_lossy());
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        package::write(&place.join(&path), &bytes)?;
        let control = process::output(Command::new("dpkg-deb").arg("--field").arg(&file))?;
        writeln!(index, "{control}\nFilename: {path}\nSize: {}\nSHA256: {}\n", bytes.len(), sha256(&bytes))?;
    }
    Ok((!index.is_empty()).then_some(index))
}

/// Writes the indexes of a suite, and the signed file with their checksums.
fn release(key: &Key, suite: &str, indexes: &[(Architecture, String)], place: &Path) -> Result<()> {
    let dist = place.join("dists").join(suite);
    let mut sums = String::new();
    for (architecture, index) in indexes {
        let binary = format!("main/binary-{architecture}");
        let compressed = package::gzipped(index.as_bytes())?;
        for (name, bytes) in [("Packages", index.as_bytes()), ("Packages.gz", &compressed)] {
            let sum = sha256(bytes);
            package::write(&dist.join(&binary).join(name), bytes)?;
            // During an update of the web server, apt still gets the file that the signed checksums name.
            package::write(&dist.join(&binary).join("by-hash/SHA256").join(&sum), bytes)?;
            writeln!(sums, " {sum} {} {binary}/{name}", bytes.len())?;
        }
    }
    let architectures: Vec<String> =
        indexes.iter().map(|(architecture, _)| architecture.to_string()).collect();
    let date = process::output(
        Command::new("date")
            .args(["--utc", &format!("--date=@{}", committed_s()?), "+%a, %d %b %Y %H:%M:%S UTC"])
            .env("LC_ALL", "C"),
    )?;
    let text = format!(
        "Origin: fonio\nLabel: fonio\nSuite: {suite}\nCodename: {suite}\nDate: {date}\nArchitectures: {}\n\
         Components: main\nDescription: Packages of fonio {VERSION}\nAcquire-By-Hash: yes\nSHA256:\n{sums}",
        architectures.join(" ")
    );
    let file = dist.join("Release");
    package::write(&file, text.as_bytes())?;
    key.sign(&["--clearsign"], &file, &dist.join("InRelease"))?;
    key.sign(&["--armor", "--detach-sign"], &file, &dist.join("Release.gpg"))
}

/// A web server on this machine for the files of a folder. It ends when this value is dropped.
pub struct Server {
    process: std::process::Child,
    /// The address of the folder, such as `http://127.0.0.1:34567`.
    pub address: String,
}

impl Server {
    /// Starts the server on a free port.
    pub fn start(folder: &Path) -> Result<Server> {
        use std::io::{BufRead, BufReader};
        let mut python = process::bound_to_this(Path::new("python3"));
        python.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory"]).arg(folder).arg("0");
        let mut process = python
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start Python's web server")?;
        let output = process.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let port: String = line
            .split_once(" port ")
            .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect())
            .unwrap_or_default();
        let server = Server { process, address: format!("http://127.0.0.1:{port}") };
        if port.is_empty() {
            bail!("Python's web server did not say its port: {line}");
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Debian's release for the clean root of the test.
const RELEASE: &str = "trixie";

/// Installs fonio with apt in a new root directory of Debian, from a repository with a new key on a local web
/// server. Also checks that apt refuses a repository with a changed index, and one with another key.
pub fn test() -> Result<()> {
    tools::ensure(&[tools::APT])?;
    ensure!(process::is_root(), "the test makes a root directory; run it as root");
    process::outlive_signals()?;
    let scratch = tempfile::tempdir().context("cannot create a folder")?;
    let (site, root) = (scratch.path().join("site"), scratch.path().join("root"));
    make_in(&Key::new_for_test()?, &site)?;
    println!("Making a clean Debian ({RELEASE}) …");
    let mut debian = Command::new("mmdebstrap");
    debian.args(["--quiet", "--variant=apt", "--mode=root", RELEASE]).arg(&root);
    process::run(&mut debian)?;
    process::check_signals()?;
    let server = Server::start(&site)?;
    let keyring = "/usr/share/keyrings/fonio-archive-keyring.asc";
    let place = |path: &str| root.join(path.trim_start_matches('/'));
    fs::create_dir_all(place("/usr/share/keyrings"))?;
    fs::copy(site.join(PUBLIC_KEY), place(keyring)).context("cannot copy the key")?;
    package::write(
        &place("/etc/apt/sources.list.d/fonio.sources"),
        format!(
            "Types: deb\nURIs: {}\nSuites: stable\nComponents: main\nSigned-By: {keyring}\n",
            server.address
        )
        .as_bytes(),
    )?;
    let inside = |script: &str| {
        process::check_signals()?;
        let mut chroot = Command::new("chroot");
        chroot.arg(&root).args(["sh", "-c", &format!("exec 2>&1; {script}")]);
        process::output(
            chroot.env("DEBIAN_FRONTEND", "noninteractive").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
        )
    };
    let steps = [
        (
            "apt-get update && apt-get install -y --no-install-recommends fonio",
            "Setting up fonio",
            "apt installs fonio",
        ),
        ("fonio --version", VERSION, "the program runs"),
        ("apt-cache policy fonio", &server.address, "apt knows where it comes from"),
        ("fonio report --help", "report", "a command prints its help"),
        (
            "apt-get install -y fonio-recorder && fonio-recorder --version",
            VERSION,
            "the recorder is there too",
        ),
        (
            "apt-get purge -y fonio fonio-recorder && ! test -e /usr/bin/fonio && echo gone",
            "gone",
            "apt removes both",
        ),
    ];
    let mut broken = 0;
    for (script, wanted, what) in steps {
        let (holds, found) = crate::lab::steps::contains(inside(script), wanted);
        broken += u32::from(!crate::lab::steps::shown(what, holds, &format!("$ {script}\n{found}")));
    }
    // A stranger changes the index, and the checksums of the signed file no longer match.
    let index = site.join("dists/stable/main/binary-amd64");
    for name in ["Packages", "Packages.gz"] {
        fs::write(index.join(name), "Package: fonio\nVersion: 99\n")?;
    }
    process::remove_folder(&index.join("by-hash"))?;
    broken += refused(&inside, "a changed index is refused")?;
    make_in(&Key::new_for_test()?, &site)?;
    broken += refused(&inside, "a repository with another key is refused")?;
    drop(server);
    crate::lab::steps::all_kept(broken)
}

/// Returns 1 if apt accepts the repository.
fn refused(inside: &dyn Fn(&str) -> Result<String>, what: &str) -> Result<u32> {
    let script =
        "rm -rf /var/lib/apt/lists/*; apt-get -o APT::Update::Error-Mode=any update && echo accepted";
    process::check_signals()?;
    let (holds, found) = match inside(script) {
        Ok(said) => (false, said),
        Err(error) => (true, format!("{error:#}")),
    };
    Ok(u32::from(!crate::lab::steps::shown(what, holds, &format!("$ {script}\n{found}"))))
}

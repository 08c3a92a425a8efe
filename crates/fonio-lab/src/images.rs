//! Images of containers: brings them into a folder of this machine, in the format of the Open Container Initiative.
//!
//! skopeo, in a root directory of programs, copies an image from a registry, from an archive, or from a folder. Images of a
//! registry are kept, under a name with the hash of theirs. An image of a file is kept, under the hash of the file's path, size
//! and time, until one with the same name comes from another file. A process that uses an image holds a shared lock.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{IsTerminal, stderr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use crate::archive::Archive;
use crate::error::LabError;
use crate::program_root::ProgramRoot;
use crate::programs;
use crate::root::{Scratch, hash};

const COPY: &str = concat!(include_str!("roots.sh"), include_str!("images.sh"));
/// The lock of the process that brings images.
const IMAGES_LOCK: &str = "images.lock";
/// The folder in a finished folder with the image.
const IMAGE: &str = "image";
/// The extension of a folder that is being made.
const UNFINISHED: &str = "copying";
/// The length of the hash at the end of a folder's name.
const HASH_DIGITS: usize = 16;
/// Environment variables that say how this machine reaches registries.
const KEPT: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
/// The registry of images whose names have none, and its folder of names without a slash.
const HUB: (&str, &str) = ("docker.io/", "library/");

/// An image of containers in a folder.
#[derive(Debug)]
pub struct ContainerImage {
    /// The folder, in the format of the Open Container Initiative. It stays at least as long as this value.
    pub folder: PathBuf,
    /// The digest of the image's manifest, such as `sha256:…`.
    pub digest: String,
    /// The lock that keeps other processes from removing the folder.
    _in_use: File,
}

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// A registry, by its full name.
    Registry(String),
    /// A file or folder, in the format that skopeo calls so, and the image in it, perhaps empty.
    File { format: &'static str, path: PathBuf, image: String },
    /// The images of this machine's own Podman.
    Storage(String),
}

/// The formats of files and folders with an image, as skopeo names them.
const FORMATS: [&str; 4] = ["docker-archive", "oci-archive", "oci", "dir"];
const STORAGE: &str = "containers-storage:";

/// Brings images.
#[expect(missing_debug_implementations, reason = "it has a function")]
pub struct Images<'a> {
    archive: &'a Archive,
    /// The root directory that has skopeo.
    programs: &'a ProgramRoot,
    announce: &'a dyn Fn(&str),
    stop: &'a AtomicBool,
}

/// A file or folder with images that the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenImage {
    /// The image in it; `None` if the file tells.
    pub name: Option<String>,
    /// The file or folder.
    pub path: PathBuf,
}

/// An image that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedImage<'a> {
    /// The image: a name in a registry, or `docker-archive:`, `oci-archive:`, `oci:`, `dir:` and a path, or
    /// `containers-storage:` and a name in the storage of this machine's Podman.
    pub name: &'a str,
    /// The service that needs it.
    pub service: &'a str,
    /// The folder from which it would be built. Such an image is in no registry.
    pub built_from: Option<&'a str>,
    /// The folder to which paths in `name` are relative.
    pub folder: &'a Path,
}

impl<'a> Images<'a> {
    /// Returns what brings images with the skopeo of `programs`. Reports long steps to `announce`.
    pub fn new(
        archive: &'a Archive,
        programs: &'a ProgramRoot,
        announce: &'a dyn Fn(&str),
        stop: &'a AtomicBool,
    ) -> Images<'a> {
        Images { archive, programs, announce, stop }
    }

    /// Brings images: each from `given`, or else from this machine's Podman, or else from its registry. An image of a registry
    /// that was brought before is used without asking for a newer one. Fails if an image cannot be read or pulled, if a
    /// given file has no wanted image, or with [`LabError::Interrupted`] when `stop` becomes true.
    pub fn bring(
        &self,
        wanted: &[WantedImage<'_>],
        given: &[GivenImage],
    ) -> Result<Vec<ContainerImage>, LabError> {
        let mut is_used = vec![false; given.len()];
        let mut held = Vec::new();
        for given in given {
            held.push(Held::by(&given.path)?);
        }
        let at: Vec<Option<usize>> = wanted
            .iter()
            .map(|wanted| {
                let at = given.iter().zip(&held).position(|(given, held)| match &given.name {
                    Some(name) => name == wanted.name,
                    None => held.image(wanted.name).is_some(),
                });
                at.inspect(|at| is_used[*at] = true)
            })
            .collect();
        if let Some(at) = is_used.iter().position(|is_used| !is_used) {
            return Err(LabError::ImageNotWanted {
                path: given[at].path.clone(),
                holds: held[at].told(),
                wanted: wanted.iter().map(|wanted| wanted.name).collect::<Vec<_>>().join(", "),
            });
        }
        let source = |(wanted, at): (&WantedImage<'_>, Option<usize>)| match at {
            Some(at) => held[at].source(&given[at], wanted.name),
            None => self.source(wanted),
        };
        // All of them first: pulling can take minutes.
        let sources: Vec<Source> = wanted.iter().zip(at).map(source).collect::<Result<_, _>>()?;
        wanted.iter().zip(&sources).map(|(wanted, source)| self.image(wanted, source)).collect()
    }

    /// Returns where an image comes from that no given file has.
    fn source(&self, wanted: &WantedImage<'_>) -> Result<Source, LabError> {
        if let Some(name) = wanted.name.strip_prefix(STORAGE) {
            return Ok(Source::Storage(name.to_owned()));
        }
        let of_format = FORMATS.iter().find_map(|format| {
            let rest = wanted.name.strip_prefix(format)?.strip_prefix(':')?;
            Some((*format, rest))
        });
        if let Some((format, rest)) = of_format {
            let (path, image) = rest.split_once(':').unwrap_or((rest, ""));
            return Ok(Source::File { format, path: wanted.folder.join(path), image: image.to_owned() });
        }
        let names = if wanted.built_from.is_some() {
            vec![wanted.name.to_owned(), format!("localhost/{}", wanted.name)]
        } else {
            vec![wanted.name.to_owned()]
        };
        for name in names {
            if own_podman(&["image", "exists", "--", &name]).is_some() {
                return Ok(Source::Storage(name));
            }
        }
        match wanted.built_from {
            Some(folder) => Err(LabError::ImageNotBuilt {
                image: wanted.name.to_owned(),
                service: wanted.service.to_owned(),
                folder: folder.to_owned(),
                file: file_name(wanted.name),
            }),
            None => Ok(Source::Registry(full(wanted.name))),
        }
    }

    fn image(&self, wanted: &WantedImage<'_>, source: &Source) -> Result<ContainerImage, LabError> {
        let folder = self.archive.folder().join("images");
        fs::create_dir_all(&folder).map_err(LabError::system("make", &folder))?;
        let place = folder.join(place_name(wanted.name, source)?);
        let found = |place: &Path| -> Result<ContainerImage, LabError> {
            let in_use = File::open(place).map_err(LabError::system("open", place))?;
            in_use.lock_shared().map_err(LabError::system("lock", place))?;
            let folder = place.join(IMAGE);
            let digest = digest(&folder)?;
            Ok(ContainerImage { folder, digest, _in_use: in_use })
        };
        let _lock = self.archive.lock_until(IMAGES_LOCK, self.announce, self.stop)?;
        if place.exists() {
            return found(&place);
        }
        let is_of_file = !matches!(source, Source::Registry(_));
        remove_older(&folder, is_of_file.then(|| prefix(wanted.name, source)).as_deref())?;
        let scratch = Scratch::make(place.with_extension(UNFINISHED))?;
        let made = match source {
            Source::Registry(full) => {
                (self.announce)(&format!(
                    "pulling the image {} from its registry; this happens only once …",
                    wanted.name
                ));
                self.copy(&scratch.0, &format!("docker://{full}"), &scratch.0)
            }
            Source::File { format, path, image } => {
                (self.announce)(&format!("reading the image {} from {} …", wanted.name, path.display()));
                let absolute = fs::canonicalize(path).map_err(LabError::system("read", path))?;
                let is_file = absolute.is_file();
                let folder = if is_file { absolute.parent().unwrap_or(&absolute) } else { &absolute };
                let name = absolute.file_name().filter(|_| is_file).unwrap_or_default().to_string_lossy();
                let colon = if image.is_empty() { "" } else { ":" };
                self.copy(&scratch.0, &format!("{format}:/media/{name}{colon}{image}"), folder)
            }
            Source::Storage(name) => {
                (self.announce)(&format!("reading the image {name} from this machine's Podman …"));
                let mut save = Command::new("podman");
                save.args(["save", "--quiet", "--format", "oci-dir", "--output"]).arg(scratch.0.join(IMAGE));
                programs::ended(save.args(["--", name]), "podman", Stdio::null(), self.stop)
            }
        }?;
        if !made.success {
            let (image, complaint) =
                (wanted.name.to_owned(), shortened(&String::from_utf8_lossy(&made.complaint)));
            return Err(match source {
                Source::File { path, .. } => {
                    LabError::ImageUnreadable { image, path: path.clone(), complaint }
                }
                _ => LabError::NoImage { image, complaint, file: file_name(wanted.name) },
            });
        }
        for name in ["scratch", "tmp"] {
            let of_copy = scratch.0.join(name);
            if of_copy.exists() {
                fs::remove_dir_all(&of_copy).map_err(LabError::system("remove", &of_copy))?;
            }
        }
        fs::rename(&scratch.0, &place).map_err(LabError::system("make", &place))?;
        found(&place)
    }

    /// Copies an image into the folder [`IMAGE`] of `folder`. skopeo reads files of `source`, at `/media`.
    fn copy(&self, folder: &Path, from: &str, source: &Path) -> Result<programs::Ended, LabError> {
        let mut copy = programs::in_namespaces(COPY);
        copy.args([&self.programs.path, folder, source]);
        for name in KEPT {
            if let Some(value) = std::env::var_os(name) {
                let mut word = OsString::from(format!("{name}="));
                word.push(value);
                copy.arg(word);
            }
        }
        copy.args(["skopeo", "copy", from, &format!("oci:/mnt/{IMAGE}")]);
        let shown = if stderr().is_terminal() { Stdio::from(stderr()) } else { Stdio::null() };
        programs::ended(&mut copy, "util-linux", shown, self.stop)
    }
}

/// The images in a file or folder.
struct Held {
    format: &'static str,
    names: Vec<String>,
}

impl Held {
    /// Lists the images in a file or folder. Fails if it contains no image.
    fn by(path: &Path) -> Result<Held, LabError> {
        let metadata = fs::metadata(path).map_err(LabError::system("read", path))?;
        let read = |name: &str| -> Option<serde_json::Value> {
            let text = if metadata.is_dir() {
                fs::read(path.join(name)).ok()?
            } else {
                let read = |member: &str| {
                    let mut tar = Command::new("tar");
                    tar.arg("-xOf").arg(path).args(["--occurrence=1", member]);
                    let out = tar.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
                    (!out.stdout.is_empty()).then_some(out.stdout)
                };
                // An archive of the folder `.` has other names.
                read(name).or_else(|| read(&format!("./{name}")))?
            };
            serde_json::from_slice(&text).ok()
        };
        let texts = |value: &serde_json::Value| -> Vec<String> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|text| text.as_str().map(str::to_owned))
                .collect()
        };
        if metadata.is_file()
            && let Some(serde_json::Value::Array(images)) = read("manifest.json")
        {
            let names = images.iter().flat_map(|image| texts(&image["RepoTags"])).collect();
            return Ok(Held { format: "docker-archive", names });
        }
        if let Some(index) = read("index.json") {
            let manifests = index["manifests"].as_array().into_iter().flatten();
            let name = |manifest: &serde_json::Value| {
                Some(manifest["annotations"]["org.opencontainers.image.ref.name"].as_str()?.to_owned())
            };
            let format = if metadata.is_dir() { "oci" } else { "oci-archive" };
            return Ok(Held { format, names: manifests.filter_map(name).collect() });
        }
        if metadata.is_dir() && read("manifest.json").is_some_and(|manifest| manifest.is_object()) {
            return Ok(Held { format: "dir", names: Vec::new() });
        }
        Err(LabError::NotAnImage { path: path.to_owned() })
    }

    /// Returns the name in this file of a wanted image.
    fn image(&self, wanted: &str) -> Option<&str> {
        let full = full(wanted);
        // Podman's name for an image without a registry.
        let local = full
            .strip_prefix(HUB.0)
            .map(|name| format!("localhost/{}", name.strip_prefix(HUB.1).unwrap_or(name)));
        self.names.iter().map(String::as_str).find(|name| {
            let name = crate::images::full(name);
            name == full || local.as_ref() == Some(&name)
        })
    }

    fn source(&self, given: &GivenImage, wanted: &str) -> Result<Source, LabError> {
        let image = match self.image(wanted) {
            Some(name) => name.to_owned(),
            None if self.names.len() > 1 => {
                return Err(LabError::ImageNotWanted {
                    path: given.path.clone(),
                    holds: self.told(),
                    wanted: wanted.to_owned(),
                });
            }
            None => String::new(),
        };
        Ok(Source::File { format: self.format, path: given.path.clone(), image })
    }

    fn told(&self) -> String {
        if self.names.is_empty() { "an image without a name".to_owned() } else { self.names.join(", ") }
    }
}

/// Returns the name of an image with its registry and its tag.
fn full(name: &str) -> String {
    let (first, rest) = name.split_once('/').unwrap_or(("", name));
    let has_registry = first.contains(['.', ':']) || first == "localhost";
    let named = if has_registry {
        name.to_owned()
    } else if first.is_empty() {
        format!("{}{}{rest}", HUB.0, HUB.1)
    } else {
        format!("{}{name}", HUB.0)
    };
    let last = named.rsplit('/').next().unwrap_or(&named);
    if last.contains([':', '@']) {
        // skopeo refuses a tag beside a digest. The digest says more.
        return match named.split_once('@') {
            Some((tagged, digest)) => {
                let at = tagged.rfind('/').map_or(0, |at| at + 1);
                let end = tagged[at..].find(':').map_or(tagged.len(), |end| at + end);
                format!("{}@{digest}", &tagged[..end])
            }
            None => named,
        };
    }
    format!("{named}:latest")
}

/// Returns the name of the folder of an image.
fn place_name(image: &str, source: &Source) -> Result<String, LabError> {
    let told: Vec<String> = match source {
        Source::Registry(full) => vec![full.clone()],
        Source::File { format, path, image } => {
            let absolute = fs::canonicalize(path).map_err(LabError::system("read", path))?;
            // The index of a folder changes with its image.
            let read = if absolute.is_dir() { absolute.join("index.json") } else { absolute.clone() };
            let found = fs::metadata(&read).or_else(|_| fs::metadata(&absolute));
            let found = found.map_err(LabError::system("read", path))?;
            let time = format!("{} {} {}", found.len(), found.mtime(), found.mtime_nsec());
            vec![(*format).to_owned(), absolute.display().to_string(), image.clone(), time]
        }
        Source::Storage(name) => {
            let id = own_podman(&["image", "inspect", "--format", "{{.Id}}", "--", name]);
            let Some(id) = id else {
                return Err(LabError::NoImage {
                    image: image.to_owned(),
                    complaint: "this machine's Podman does not have it".to_owned(),
                    file: file_name(name),
                });
            };
            vec![id.trim().to_owned()]
        }
    };
    Ok(format!("{}{:0HASH_DIGITS$x}", prefix(image, source), hash(&told)))
}

/// Returns the beginning of the names of an image's folders.
fn prefix(image: &str, source: &Source) -> String {
    let of = if matches!(source, Source::Registry(_)) { "registry" } else { "file" };
    format!("{of}-{}-", slug(image))
}

/// Removes what killed processes left in `folder`. Also removes the images whose names are `prefix` and a hash, if no process
/// uses them. The caller must hold the lock.
fn remove_older(folder: &Path, prefix: Option<&str>) -> Result<(), LabError> {
    let entries = fs::read_dir(folder).map_err(LabError::system("read", folder))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hash = prefix.and_then(|prefix| name.strip_prefix(prefix));
        let is_older = hash.is_some_and(|hash| hash.len() == HASH_DIGITS);
        let is_unfinished = path.extension().is_some_and(|extension| extension == UNFINISHED);
        let is_unused = || File::open(&path).is_ok_and(|place| place.try_lock().is_ok());
        if is_unfinished || (is_older && is_unused()) {
            fs::remove_dir_all(&path).map_err(LabError::system("remove", &path))?;
        }
    }
    Ok(())
}

/// Returns the output of this machine's Podman, if it has one, and if the command succeeds.
fn own_podman(words: &[&str]) -> Option<String> {
    let mut podman = Command::new("podman");
    let out = podman.args(words).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

fn slug(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    let plain: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    plain.chars().take(40).collect()
}

/// Returns the name of a file for an image, in the remedy of an error.
fn file_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    let name = last.split([':', '@']).next().unwrap_or(last);
    format!("{name}.tar")
}

fn digest(folder: &Path) -> Result<String, LabError> {
    let index = folder.join("index.json");
    let text = fs::read(&index).map_err(LabError::system("read", &index))?;
    let parsed: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| LabError::system("understand", &index)(error.into()))?;
    Ok(parsed["manifests"][0]["digest"].as_str().unwrap_or_default().to_owned())
}

/// The longest part of skopeo's complaint that an error repeats, in characters.
const SAID_CHARACTERS: usize = 300;

/// Returns the last message of skopeo or Podman, without its time and level.
fn shortened(complaint: &str) -> String {
    let line = complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let message = match line.split_once(" msg=\"") {
        Some((_, rest)) => rest.trim_end_matches('"').replace("\\\"", "\""),
        None => line.trim_start_matches("Error: ").to_owned(),
    };
    // The image is named by the error.
    let message = match message.strip_prefix("initializing source ") {
        Some(rest) => rest.split_once(": ").map_or(rest, |(_, reason)| reason),
        None => &message,
    };
    message.chars().take(SAID_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_completed_as_docker_does() {
        for (name, expected) in [
            ("redis", "docker.io/library/redis:latest"),
            ("redis:7", "docker.io/library/redis:7"),
            ("grafana/grafana", "docker.io/grafana/grafana:latest"),
            ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
            ("localhost/web", "localhost/web:latest"),
            ("registry:5000/web", "registry:5000/web:latest"),
            ("redis@sha256:12", "docker.io/library/redis@sha256:12"),
            ("redis:7@sha256:12", "docker.io/library/redis@sha256:12"),
        ] {
            assert_eq!(full(name), expected, "{name}");
        }
    }

    #[test]
    fn images_of_a_file_are_found_by_their_names() {
        let names = ["localhost/web:latest", "docker.io/library/redis:7"].map(str::to_owned).to_vec();
        let held = Held { format: "docker-archive", names };
        for (wanted, expected) in [
            ("web", Some("localhost/web:latest")),
            ("localhost/web", Some("localhost/web:latest")),
            ("redis:7", Some("docker.io/library/redis:7")),
            ("redis", None),
            ("a/web", None),
        ] {
            assert_eq!(held.image(wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn the_last_message_is_told() {
        for (complaint, expected) in [
            (
                "a\ntime=\"2026\" level=fatal msg=\"pinging \\\"x\\\": no such host\"\n",
                "pinging \"x\": no such host",
            ),
            (
                "level=fatal msg=\"initializing source docker://x:1: pinging r: no such host\"",
                "pinging r: no such host",
            ),
            ("Error: x: image not known\n", "x: image not known"),
        ] {
            assert_eq!(shortened(complaint), expected);
        }
    }
}

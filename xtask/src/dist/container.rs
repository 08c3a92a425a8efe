//! Makes container images without a container engine: an archive for `podman load` and `docker load`.
//!
//! The archive is an OCI image layout (`oci-layout`, `index.json`, `blobs`). For older versions of Docker,
//! the archive also contains `manifest.json`, which lists the same blobs. `packages/container/Containerfile`
//! builds the same image with an engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::package::{self, VERSION};
use super::target::Target;
use super::{committed_s, folder, rfc_3339, sha256};
use crate::process;

/// The name of the image. In references, a colon and the version follow it.
pub const NAME: &str = "localhost/fonio";
/// The path of the program in the image.
const PROGRAM: &str = "usr/bin/fonio";
/// Folders of the image with their permissions: a folder for temporary recordings, and a folder for
/// recordings that are kept.
const FOLDERS: [(&str, u32); 2] = [("tmp", 0o1777), ("data", 0o755)];

/// The folder with the blobs of an image. Each blob is in a file named after the blob's checksum.
struct Blobs<'a>(&'a Path);

impl Blobs<'_> {
    /// Adds a blob. Returns the blob's descriptor for manifests.
    fn add(&self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let sum = sha256(bytes);
        let path = self.0.join("blobs/sha256").join(&sum);
        fs::create_dir_all(path.parent().context("no folder")?)?;
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{sum}"), "size": bytes.len() }))
    }
}

/// Creates the archive with the container image of a built program.
pub fn make(target: Target, program: &Path) -> Result<PathBuf> {
    let place = process::scratch("dist")?.join(format!("container-{target}"));
    process::remove_folder(&place)?;
    let image = lay_out(target, program, &place)?;
    let archive = folder()?.join(format!("fonio-{VERSION}-container-{target}.tar"));
    fs::write(&archive, tar(&image)?).with_context(|| format!("cannot write {}", archive.display()))?;
    Ok(archive)
}

/// Writes the archive's files to a new folder in `place`. Returns this folder.
fn lay_out(target: Target, program: &Path, place: &Path) -> Result<PathBuf> {
    let (files, image) = (place.join("files"), place.join("image"));
    package::install(program, &files.join(PROGRAM), 0o755)?;
    package::write(&files.join("usr/share/doc/fonio/copyright"), package::copyright()?.as_bytes())?;
    package::open_folders(&files)?;
    for (name, mode) in FOLDERS {
        let folder = files.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    }
    let layer = tar(&files)?;
    let (architecture, variant) = target.container;
    let blobs = Blobs(&image);
    let created = rfc_3339(committed_s()?)?;
    let mut config = json!({
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": [format!("/{PROGRAM}")],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": "/data",
            "Labels": {
                "org.opencontainers.image.title": "fonio",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    });
    let mut platform = json!({ "architecture": architecture, "os": "linux" });
    if let Some(variant) = variant {
        config["variant"] = variant.into();
        platform["variant"] = variant.into();
    }
    let layer = blobs
        .add("application/vnd.oci.image.layer.v1.tar+gzip", &package::gzipped(&layer)?)
        .context("the layer")?;
    let config = blobs.add("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes())?;
    let manifest_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": manifest_type, "config": config, "layers": [layer] });
    let mut manifest = blobs.add(manifest_type, manifest.to_string().as_bytes())?;
    let name = format!("{NAME}:{VERSION}");
    manifest["platform"] = platform;
    manifest["annotations"] =
        json!({ "org.opencontainers.image.ref.name": name, "io.containerd.image.name": name });
    let write = |file: &str, value: &Value| package::write(&image.join(file), value.to_string().as_bytes());
    write("oci-layout", &json!({ "imageLayoutVersion": "1.0.0" }))?;
    write("index.json", &json!({ "schemaVersion": 2, "manifests": [manifest] }))?;
    write(
        "manifest.json",
        &json!([{ "Config": blob(&config), "RepoTags": [name], "Layers": [blob(&layer)] }]),
    )?;
    package::open_folders(&image)?;
    Ok(image)
}

/// Returns the path of a blob in the archive.
fn blob(description: &Value) -> String {
    let digest = description["digest"].as_str().unwrap_or_default();
    format!("blobs/{}", digest.replace(':', "/"))
}

/// Returns a tar archive of a folder's contents. The files in the archive belong to root.
fn tar(folder: &Path) -> Result<Vec<u8>> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-cf", "-", "-C"]);
    // List the entries by name, because engines look for `index.json` and not for `./index.json`.
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let out = tar.arg(folder).args(names).stderr(Stdio::inherit()).output().context("cannot start tar")?;
    anyhow::ensure!(out.status.success(), "tar failed: {}", out.status);
    Ok(out.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the blob with this descriptor. The size and checksum of the blob must match the descriptor.
    fn read(image: &Path, description: &Value) -> Vec<u8> {
        let bytes = fs::read(image.join(blob(description))).expect("the blob exists");
        assert_eq!(description["size"], bytes.len());
        assert_eq!(description["digest"], format!("sha256:{}", sha256(&bytes)));
        bytes
    }

    #[test]
    fn each_list_of_the_archive_names_the_same_blobs() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        fs::write(&program, "a program").expect("a file");
        let image = lay_out(crate::dist::target::TARGETS[3], &program, &folder.path().join("place"))
            .expect("an image");
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON");
        let file = |name: &str| json(&fs::read(image.join(name)).expect("a file"));
        let index = file("index.json");
        assert_eq!(index["manifests"][0]["platform"]["variant"], "v6");
        let manifest = json(&read(&image, &index["manifests"][0]));
        let config = json(&read(&image, &manifest["config"]));
        read(&image, &manifest["layers"][0]);
        assert_eq!((&config["architecture"], &config["variant"]), (&json!("arm"), &json!("v6")));
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/fonio"]));
        // The image configuration contains the checksum of the uncompressed layer.
        let content = tar(&folder.path().join("place/files")).expect("an archive");
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&content))]));
        let old = &file("manifest.json")[0];
        assert_eq!(old["Config"], blob(&manifest["config"]));
        assert_eq!(old["Layers"], json!([blob(&manifest["layers"][0])]));
        assert_eq!(old["RepoTags"][0], format!("{NAME}:{VERSION}"));
    }
}

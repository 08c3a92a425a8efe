//! Runs a shell command in a guest: `cargo run -p fonio-lab --example guest -- lab:6.12 'uname -a'`.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fonio_lab::{Archive, Guest, Initramfs, Shape, Task};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(kernel), Some(script)) = (words.next(), words.next()) else {
        return Err("name a kernel and a command".into());
    };
    let announce = |text: &str| eprintln!("{text}");
    let archive = Archive::open()?;
    let (_, kernel) = archive.kernel(&kernel.parse()?, &announce)?;
    let userland = archive.userland(&["busybox-static", "libc6"], &announce)?;
    let files = Initramfs::new(&userland)?;
    let guest =
        Guest { kernel, shape: Shape::Bench, memory_mib: 1024, modules: vec![], wishes: vec![], files };
    let to = tempfile::tempdir()?;
    let words = ["sh".to_owned(), "-c".to_owned(), script];
    let task = Task { words: &words, folder: Path::new("/root"), bring: &[], to: to.path() };
    let ended = guest.run(&archive, &task, &AtomicBool::new(false), &announce)?;
    eprintln!("{ended:#?}");
    Ok(())
}

//! Compiles a C library (musl) and LLVM's unwinder for 32-bit ARM from source.
//!
//! Rust's toolchain contains these two libraries only for x86-64 and 64-bit ARM. Debian's musl for armhf uses
//! instructions that the Raspberry Pi Zero's processor lacks. musl's sources come from Debian's archive; the
//! unwinder's sources are in Rust's component `rust-src`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fonio_lab::Archive;

use super::target::Target;
use crate::process;

/// The folder of LLVM's unwinder in `rust-src`.
const UNWINDER: &str = "lib/rustlib/src/rust/src/llvm-project/libunwind";
/// The sources of the unwinder for ARM: first those in C++, then those in C and assembly.
const CPP: [&str; 2] = ["libunwind.cpp", "Unwind-EHABI.cpp"];
const C: [&str; 5] = [
    "UnwindLevel1.c",
    "UnwindLevel1-gcc-ext.c",
    "Unwind-sjlj.c",
    "UnwindRegistersRestore.S",
    "UnwindRegistersSave.S",
];
/// The flags that Rust uses to compile the unwinder for musl targets.
const UNWINDER_FLAGS: &str = "-O2 -fPIC -funwind-tables -fno-exceptions -fstrict-aliasing \
    -fvisibility=hidden -D_LIBUNWIND_IS_NATIVE_ONLY -DNDEBUG";

/// Returns the folder with a target's C library. It contains `include` and `lib`. The first call creates the
/// folder. `rust` is the folder of Rust's toolchain.
pub fn c_library(target: Target, rust: &Path) -> Result<PathBuf> {
    let scratch = process::scratch("dist")?;
    let place = scratch.join(format!("musl-{target}"));
    if place.exists() {
        return Ok(place);
    }
    let archive = Archive::open()?;
    let sources = archive.source("musl", &|text| eprintln!("{text}"))?;
    println!("Compiling musl and LLVM's unwinder for {target} (once).");
    // Configure the final paths, but install into another folder. Otherwise, an incomplete folder could be
    // mistaken for a complete one.
    let building = scratch.join(format!("musl-{target}-building"));
    process::remove_folder(&building)?;
    let (copy, made) = (building.join("source"), building.join("made"));
    fs::create_dir_all(&building).with_context(|| format!("cannot make {}", building.display()))?;
    process::output(Command::new("cp").arg("-r").args([&sources, &copy]))?;
    let compiler = format!("clang-14 --target={} {}", target.triple, target.processor.join(" "));
    let mut configure = Command::new("./configure");
    configure.arg(format!("--target={}", target.triple)).arg(format!("--prefix={}", made.display()));
    configure.args(["--disable-shared", "--disable-wrapper"]).current_dir(&copy);
    process::output(configure.env("CC", compiler).env("AR", "llvm-ar-14").env("RANLIB", "llvm-ranlib-14"))?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    process::output(Command::new("make").args([&format!("-j{jobs}"), "install"]).current_dir(&copy))?;
    unwinder(target, rust, &made)?;
    fs::rename(&made, &place).with_context(|| format!("cannot make {}", place.display()))?;
    process::remove_folder(&building)?;
    Ok(place)
}

/// Compiles the unwinder to `lib/libunwind.a` in the folder `made`, which contains the C library.
fn unwinder(target: Target, rust: &Path, made: &Path) -> Result<()> {
    let sources = rust.join(UNWINDER);
    ensure!(
        sources.join("src/libunwind.cpp").exists(),
        "Rust's component rust-src has no {}",
        sources.display()
    );
    let objects = made.join("objects");
    fs::create_dir_all(&objects).with_context(|| format!("cannot make {}", objects.display()))?;
    let languages = [(&CPP[..], &["-std=c++17", "-nostdinc++", "-fno-rtti"][..]), (&C[..], &[][..])];
    let mut made_objects = Vec::new();
    for (files, flags) in languages {
        for file in files {
            let object = objects.join(format!("{file}.o"));
            let mut clang = Command::new("clang-14");
            clang.arg(format!("--target={}", target.triple)).args(target.processor);
            clang.arg("-nostdlibinc").arg("-isystem").arg(made.join("include"));
            clang.arg("-I").arg(sources.join("include")).arg("-I").arg(sources.join("src"));
            clang.args(UNWINDER_FLAGS.split(' ')).args(flags);
            clang.arg("-c").arg(sources.join("src").join(file)).arg("-o").arg(&object);
            process::output(&mut clang)?;
            made_objects.push(object);
        }
    }
    let library = made.join("lib/libunwind.a");
    process::output(Command::new("llvm-ar-14").arg("rcs").arg(library).args(&made_objects))?;
    process::remove_folder(&objects)
}

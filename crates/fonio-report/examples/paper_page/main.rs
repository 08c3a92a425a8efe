//! `cargo xtask paper --json | cargo run -p fonio-report --example paper_page -- FILE` writes the studies' tables and
//! figures beside ours as an HTML page. `cargo xtask paper --html FILE` does both.

mod document;

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).ok_or("name the file that the page goes to")?;
    let papers: Vec<document::Paper> = serde_json::from_reader(io::stdin().lock())
        .map_err(|error| format!("standard input is not what `cargo xtask paper --json` prints: {error}"))?;
    let shown = file.display();
    let mut out =
        BufWriter::new(File::create(&file).map_err(|error| format!("cannot write {shown}: {error}"))?);
    fonio_report::render_html(&document::document(&papers), &mut out)?;
    out.flush().map_err(|error| format!("cannot write {shown}: {error}"))?;
    Ok(())
}

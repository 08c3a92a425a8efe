//! `cargo run --example run -- WORKLOAD DIRECTORY [SCALE] [PACE]`: runs a workload in an empty directory and prints its
//! outcome as JSON. With `FONIO_WAIT` in the environment it waits for a line on standard input between the two parts, so
//! that the device's I/O can be counted for the timed part alone.

use std::error::Error;
use std::path::Path;

use fonio_workload::definition::Workload;
use fonio_workload::http::Server;
use fonio_workload::{Options, Places, Runner};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [workload, directory, rest @ ..] = arguments.as_slice() else {
        return Err("give a workload and a directory".into());
    };
    let number = |at: usize| rest.get(at).map_or(Ok(1.0), |text| text.parse::<f64>());
    let workload = if workload == "mobigen" {
        fonio_workload::mobigen::workload(Path::new(rest.get(2).ok_or("give the trace after the pace")?))
    } else {
        Workload::load(workload)?
    };
    let server = Server::start("127.0.0.1:0".parse()?)?;
    let options =
        Options { scale: number(0)?, pace: number(1)?, http: Some(server.address()), ..Options::default() };
    let mut runner = Runner::new(&workload, &Places::under(Path::new(directory)), options)?;
    runner.prepare(&mut ())?;
    if std::env::var_os("FONIO_WAIT").is_some() {
        eprintln!("prepared");
        std::io::stdin().read_line(&mut String::new())?;
    }
    let outcome = runner.run(&mut ())?;
    runner.verify()?;
    println!("{}", serde_json::to_string_pretty(&outcome)?);
    Ok(())
}

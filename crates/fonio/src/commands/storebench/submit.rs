//! Implements `fonio storebench submit` and `fonio storebench delete`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fonio_bench::storebench::results;
use fonio_core::printable;
use fonio_storebench_document::Submission;
use fonio_system::say;

use crate::exit::Exit;
use crate::output;
use crate::server::{Server, Submitted};

/// Shows every field of the result to submit, asks for consent, and sends the result.
pub fn submit(server: &str, yes: bool, file: &Path) -> Result<Exit> {
    let server = Server::at(server)?;
    let document = results::read(file)?;
    let submission = Submission::of(&document).map_err(|problems| {
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{} cannot be sent: {}", file.display(), shown.join("; "))
    })?;
    let json = serde_json::to_string(&submission)?;
    let mut out = output::screen();
    write!(out, "{}", preview(&json)?)?;
    out.flush()?;
    say!(
        "\nThese {} bytes will be sent to {}; everyone who can reach the server can read them. They contain no \
         serial numbers, host names or paths. Notes are not sent; the date is sent, but not the time.",
        json.len(),
        server.address()
    );
    if !yes && !confirmed(&server)? {
        bail!("nothing was sent; repeat with --yes to send without confirmation");
    }
    let Submitted { id, state, reason, delete_token, page } = server.submit(&json)?;
    let page = if page.starts_with('/') { format!("{}{page}", server.address()) } else { page };
    // Save the token first: without it, the result could not be deleted.
    let token_file = results::keep_token(server.address(), &id, &delete_token).with_context(|| {
        format!("the result {id} was sent, but its delete token {delete_token} could not be saved")
    })?;
    match (state.as_str(), reason) {
        ("received", _) => writeln!(out, "Received: {}", printable(&page))?,
        (_, reason) => writeln!(
            out,
            "Hidden, because {}\n{}",
            printable(reason.as_deref().unwrap_or("the server gave no reason")),
            printable(&page)
        )?,
    }
    writeln!(
        out,
        "To delete it: fonio storebench delete --server {} {}\nThe delete token is in {}.",
        server.address(),
        printable(&id),
        token_file.display()
    )?;
    Ok(Exit::Fine)
}

fn preview(json: &str) -> Result<String> {
    let mut text = String::new();
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)?;
    for (name, value) in &fields {
        match value {
            serde_json::Value::Object(inner) if !inner.is_empty() => {
                text += &format!("{name}:\n");
                for (name, value) in inner {
                    text += &format!("  {name}: {value}\n");
                }
            }
            serde_json::Value::Array(entries) if !entries.is_empty() => {
                text += &format!("{name}:\n");
                for entry in entries {
                    text += &format!("  {entry}\n");
                }
            }
            value => text += &format!("{name}: {value}\n"),
        }
    }
    Ok(text)
}

fn confirmed(server: &Server) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("Send it to {}? Type yes: ", server.address());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

pub fn delete(server: &str, token: Option<&str>, id: &str) -> Result<Exit> {
    let server = Server::at(server)?;
    let kept = results::token(server.address(), id)?;
    let token = token.map(str::to_owned).or(kept).with_context(|| {
        format!("no delete token for {id} on {} is saved here; give it with --token TOKEN", server.address())
    })?;
    server.delete(id, &token)?;
    results::forget_token(server.address(), id)?;
    writeln!(output::screen(), "Deleted: {id}")?;
    Ok(Exit::Fine)
}

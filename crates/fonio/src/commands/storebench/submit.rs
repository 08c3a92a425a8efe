//! `fonio storebench submit` and `delete`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fonio_bench::storebench::document::Submission;

use super::results;
use super::server::{Server, Submitted};
use crate::exit::Exit;

/// Shows every field that would be sent, asks, and sends.
pub fn submit(server: &str, yes: bool, file: &Path) -> Result<Exit> {
    let server = Server::at(server)?;
    let document = results::read(file)?;
    let submission = Submission::of(&document).map_err(|problems| {
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{} cannot be sent: {}", file.display(), shown.join("; "))
    })?;
    let preview = serde_json::to_string_pretty(&submission)?;
    let mut out = io::stdout();
    writeln!(out, "{preview}")?;
    out.flush()?;
    eprintln!(
        "\nThese {} bytes would be sent to {}, and shown to everyone who can reach it. Serial numbers, host names and paths are not \
         among them; the notes stay here, and the time is that of the day.",
        preview.len(),
        server.address()
    );
    if !yes && !confirmed(&server)? {
        bail!("nothing was sent; repeat with --yes to send it without a question");
    }
    let Submitted { id, state, reason, delete_token, page } = server.submit(&preview)?;
    // The token comes first: without it, the result could not be deleted.
    let token_file = results::keep_token(server.address(), &id, &delete_token).with_context(|| {
        format!("the result {id} was sent, and its delete token {delete_token} could not be kept")
    })?;
    match (state.as_str(), reason) {
        ("received", _) => writeln!(out, "Received: {page}")?,
        (_, reason) => writeln!(
            out,
            "Hidden, because {}\n{page}",
            reason.as_deref().unwrap_or("the server did not say why")
        )?,
    }
    writeln!(
        out,
        "To delete it: fonio storebench delete --server {} {id}\nThe token for that is in {}.",
        server.address(),
        token_file.display()
    )?;
    Ok(Exit::Fine)
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

/// Deletes a result.
pub fn delete(server: &str, token: Option<&str>, id: &str) -> Result<Exit> {
    let server = Server::at(server)?;
    let kept = results::token(server.address(), id)?;
    let token = token.map(str::to_owned).or(kept).with_context(|| {
        format!("no delete token of {id} on {} was kept here; give it with --token TOKEN", server.address())
    })?;
    server.delete(id, &token)?;
    results::forget_token(server.address(), id)?;
    writeln!(io::stdout(), "Deleted: {id}")?;
    Ok(Exit::Fine)
}

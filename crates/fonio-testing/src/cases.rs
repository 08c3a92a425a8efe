//! Tests whose cases are in a file: inputs, each with its expected output.
//!
//! The test computes the outputs anew and compares the two texts with `expect_file!`; `UPDATE_EXPECT=1` then writes the
//! file.

/// Computes the outputs of a file of cases. A case has its name after `#`, then its input, and after a line `->` its
/// output. Lines of the input that begin with `//` are comments.
pub fn cases(text: &str, output: impl Fn(&str) -> String) -> String {
    let case = |case: &str| match case.split_once("->\n") {
        Some((head, _)) => {
            let input: Vec<&str> = head.lines().skip(1).filter(|line| !line.starts_with("//")).collect();
            format!("{head}->\n{}", output(&input.join("\n")))
        }
        None => case.to_owned(),
    };
    text.split("\n# ").map(case).collect::<Vec<_>>().join("\n# ")
}

/// Computes the outputs of a file with a case on each line: the output is on the next line, after `-> `. Lines that are
/// empty or begin with `//` are not cases.
pub fn lines(text: &str, output: impl Fn(&str) -> String) -> String {
    let inputs = text.lines().filter(|line| !line.starts_with("-> "));
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        comment if comment.starts_with("//") => format!("{comment}\n"),
        input => format!("{input}\n-> {}\n", output(input)),
    };
    inputs.map(line).collect()
}

//! Tests whose cases are in a file. Each case is an input with its expected output.
//!
//! The test computes the outputs again and compares the new text with the file by `expect_file!`. With
//! `UPDATE_EXPECT=1`, the test writes the new text to the file instead.

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

/// Computes the outputs of a file in which each line is a case, and the next line has its output after `-> `.
/// Lines that are empty or begin with `//` are not cases.
pub fn lines(text: &str, output: impl Fn(&str) -> String) -> String {
    let inputs = text.lines().filter(|line| !line.starts_with("-> "));
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        comment if comment.starts_with("//") => format!("{comment}\n"),
        input => format!("{input}\n-> {}\n", output(input)),
    };
    inputs.map(line).collect()
}

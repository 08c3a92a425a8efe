//! Helps to write tests with cases in a file. Each case is an input with its expected output.
//!
//! The test computes the outputs again, and `expect_file!` compares the new text with the file. With
//! `UPDATE_EXPECT=1`, the new text is written to the file instead.

/// Computes the outputs of the cases in a file, and returns the new text of the file. A case consists of its
/// name after `#`, its input, a line `->`, and its output. Lines of the input that begin with `//` are
/// comments.
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

/// Does the same as [`cases`] for a file in which each case is one line, followed by a line with `-> ` and
/// the output. Lines that are empty or begin with `//` are not cases.
pub fn lines(text: &str, output: impl Fn(&str) -> String) -> String {
    let inputs = text.lines().filter(|line| !line.starts_with("-> "));
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        comment if comment.starts_with("//") => format!("{comment}\n"),
        input => format!("{input}\n-> {}\n", output(input)),
    };
    inputs.map(line).collect()
}

//! Finds commands and tables of numbers in Markdown, for tests that compare documents with the program.

/// A command in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Line number of the command, counted from 1.
    pub line: usize,
    /// The words of the command, without quotes, without the brackets around optional words, and without the
    /// later commands of a pipe.
    pub words: Vec<String>,
}

/// A table of numbers: most cells after the first column begin with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureTable {
    /// Line number of the table's header, counted from 1.
    pub line: usize,
    /// Line numbers of the section that contains the table, from its heading to the line before the next
    /// heading.
    pub section: std::ops::Range<usize>,
}

/// Finds the commands that begin with one of `programs` (such as `cargo xtask`), in code blocks and inline
/// code.
#[must_use]
pub fn commands(text: &str, programs: &[&str]) -> Vec<Command> {
    let mut found = Vec::new();
    let mut add = |line: usize, text: &str| {
        let text = text.trim_start_matches("sudo ");
        let is_ours = |program: &&str| {
            text.strip_prefix(*program).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if programs.iter().any(is_ours) {
            found.push(Command { line, words: words(text) });
        }
    };
    let (mut is_fenced, mut is_continued) = (false, false);
    let mut prose = String::new();
    let mut block = String::new();
    for (at, line) in text.lines().chain([""]).enumerate() {
        let is_fence = line.starts_with("```");
        if is_fence {
            is_fenced = !is_fenced;
        } else if is_fenced || line.starts_with("    ") {
            block.push_str(line.trim());
            is_continued = block.ends_with('\\');
            if is_continued {
                block.pop();
                continue;
            }
            // A description can follow after two spaces or as a comment.
            let command = block.split("  ").next().unwrap_or_default();
            add(at + 1, command.split(" # ").next().unwrap_or_default());
            block.clear();
        } else {
            prose.push_str(line);
        }
        // Inline code can continue on the next line, but not in the next paragraph.
        if line.trim().is_empty() || is_fence || line.starts_with('|') {
            let first = at + 1 - prose.matches('\n').count();
            let mut before = 0;
            for (number, span) in prose.split('`').enumerate() {
                if number % 2 == 1 {
                    add(first + before, &span.replace('\n', " "));
                }
                before += span.matches('\n').count();
            }
            prose.clear();
        } else {
            prose.push('\n');
        }
    }
    assert!(!is_continued, "the last line continues");
    found
}

/// Splits a command into words, up to the first pipe, redirection or semicolon.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let mut word = String::new();
        let (mut quote, mut is_quoted) = (None, false);
        let mut end = rest.len();
        for (at, c) in rest.char_indices() {
            match quote {
                Some(mark) if c == mark => quote = None,
                None if c == '\'' || c == '"' => (quote, is_quoted) = (Some(c), true),
                None if c.is_whitespace() => {
                    end = at;
                    break;
                }
                _ => word.push(c),
            }
        }
        rest = rest[end..].trim_start();
        if is_quoted {
            words.push(word);
            continue;
        }
        if ["|", ">", "<", "&&"].contains(&word.as_str()) {
            break;
        }
        let is_last = word.ends_with(';');
        let word = word.trim_matches(['[', ']', ';', '…']);
        if !word.is_empty() {
            words.push(word.to_owned());
        }
        if is_last {
            break;
        }
    }
    words
}

/// Finds the tables of numbers.
#[must_use]
pub fn figure_tables(text: &str) -> Vec<FigureTable> {
    let mut tables = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut is_fenced = false;
    let mut headings = vec![1];
    for (at, line) in lines.iter().enumerate() {
        is_fenced ^= line.starts_with("```");
        if !is_fenced && line.starts_with('#') {
            headings.push(at + 1);
        }
    }
    headings.push(lines.len() + 1);
    let mut at = 0;
    while at < lines.len() {
        let head = at;
        while at < lines.len() && lines[at].starts_with('|') {
            at += 1;
        }
        if at == head {
            at += 1;
        } else if holds_figures(&lines[head..at]) {
            let next = headings.partition_point(|heading| *heading <= head + 1);
            tables.push(FigureTable { line: head + 1, section: headings[next - 1]..headings[next] });
        }
    }
    tables
}

/// Returns whether most cells after the first column of a table begin with a number.
fn holds_figures(table: &[&str]) -> bool {
    let cells = table.iter().skip(2).flat_map(|row| row.trim_matches('|').split('|').skip(1));
    let cells: Vec<&str> = cells.map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let figures = cells.iter().filter(|cell| cell.starts_with(|c: char| c.is_ascii_digit())).count();
    figures * 2 > cells.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_code_and_in_prose() {
        let text = "# Title\n\n    sudo fonio check --for 5s     check it\n    fonio mount stats DIR [--json]\n\nSee `fonio\n\
                    report X` and `fonios`.\n\n```\nfonio run \\\n  --budget 'a b<=2' | jq .x   # note\n```\n";
        let shown: Vec<_> =
            commands(text, &["fonio"]).into_iter().map(|it| (it.line, it.words.join("_"))).collect();
        let expected = [
            (3, "fonio_check_--for_5s"),
            (4, "fonio_mount_stats_DIR_--json"),
            (6, "fonio_report_X"),
            (11, "fonio_run_--budget_a b<=2"),
        ];
        assert_eq!(shown, expected.map(|(line, words)| (line, words.to_owned())));
    }

    #[test]
    fn tables_of_figures_are_told_from_others() {
        let text = "text\n\n| a | b |\n|---|---|\n| x | 1.5 s |\n| y | 2 s |\n\n## Next\n\n| a | b |\n|---|---|\n| x | text |\n";
        assert_eq!(figure_tables(text), [FigureTable { line: 3, section: 1..8 }]);
    }
}

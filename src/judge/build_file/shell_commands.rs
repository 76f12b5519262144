//! Splits a RUN instruction into commands and words, as far as possible without running it.

use std::ops::Range;

/// A word without its quotes, and its position in the Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellWord {
    pub text: String,
    pub span: Range<usize>,
}

/// Splits a script into simple commands. It begins at byte `start` of a file with the line continuation character
/// `escape`. Loops and functions are not evaluated; a word with a variable stays as it is.
pub(super) fn split_commands(script: &str, start: usize, escape: char) -> Vec<Vec<ShellWord>> {
    let mut reader = CommandReader {
        commands: vec![Vec::new()],
        word: None,
    };
    let mut quote = None;
    let mut letters = script.char_indices().peekable();
    // Whether only whitespace has been seen so far on a continuation line.
    let mut is_continued = false;
    while let Some((at, letter)) = letters.next() {
        let place = start + at;
        let begins_line = is_continued;
        is_continued &= letter.is_whitespace();
        match (quote, letter) {
            // An escaped line end continues the instruction.
            (_, sign) if sign == escape && ends_line(script.get(at + 1..).unwrap_or_default()) => {
                while letters.next().is_some_and(|(_, letter)| letter != '\n') {}
                reader.end_word(place);
                is_continued = true;
            }
            (_, '\\') => {
                if let Some((_, escaped)) = letters.next() {
                    reader.push(escaped, place);
                }
            }
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                reader.begin_word(place);
            }
            (None, '#') if reader.word.is_none() => {
                while letters.next_if(|(_, letter)| *letter != '\n').is_some() {}
                // A builder removes such a comment line before a shell sees it.
                is_continued = begins_line && letters.next().is_some();
            }
            (None, ';' | '&' | '|' | '(' | ')' | '\n') => reader.end_command(place),
            (None, letter) if letter.is_whitespace() => reader.end_word(place),
            (_, letter) => reader.push(letter, place),
        }
    }
    reader.end_command(start + script.len());
    reader.commands.retain(|words| !words.is_empty());
    reader.commands
}

/// Whether only blanks precede the end of the line, which may be CRLF. See the Dockerfile reference, "escape"; the
/// parser of `moby/buildkit` also accepts blanks after the character.
fn ends_line(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '\t']);
    rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n")
}

struct CommandReader {
    commands: Vec<Vec<ShellWord>>,
    word: Option<ShellWord>,
}

impl CommandReader {
    fn begin_word(&mut self, place: usize) -> &mut ShellWord {
        self.word.get_or_insert_with(|| ShellWord {
            text: String::new(),
            span: place..place,
        })
    }

    fn push(&mut self, letter: char, place: usize) {
        self.begin_word(place).text.push(letter);
    }

    fn end_word(&mut self, place: usize) {
        if let (Some(mut word), Some(command)) = (self.word.take(), self.commands.last_mut()) {
            word.span.end = place;
            command.push(word);
        }
    }

    fn end_command(&mut self, place: usize) {
        self.end_word(place);
        self.commands.push(Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::split_commands;

    fn texts(script: &str) -> Vec<Vec<String>> {
        let commands = split_commands(script, 0, '\\').into_iter();
        commands
            .map(|words| words.into_iter().map(|word| word.text).collect())
            .collect()
    }

    #[test]
    fn which_words_are_one_command() {
        let script =
            "apt-get update && apt-get install -y \\\n    # the profiler\n    'a b' c=\"d e\" \\\n  f; echo g|h # i";
        assert_eq!(
            texts(script),
            [
                vec!["apt-get", "update"],
                vec!["apt-get", "install", "-y", "a b", "c=d e", "f"],
                vec!["echo", "g"],
                vec!["h"]
            ]
        );
        assert_eq!(texts("\\"), [[""; 0]; 0]);
        for script in ["a \\\r\n b", "a \\ \t\n b", "a \\\n b"] {
            assert_eq!(texts(script), [["a", "b"]], "{script:?}");
        }
        assert_eq!(texts("a \\ b\nc"), [vec!["a", " b"], vec!["c"]]);
        let words = split_commands("a `\n b\\ c", 0, '`').remove(0);
        assert_eq!(words.iter().map(|word| &*word.text).collect::<Vec<_>>(), ["a", "b c"]);
        let words = split_commands("x yz", 10, '\\').remove(0);
        assert_eq!(words[1].span, 12..14);
    }
}

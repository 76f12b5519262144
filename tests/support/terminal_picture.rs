//! Draws a terminal as SVG: a command and its coloured output.

use std::fmt::Write as _;

/// The width of a character, the height of a line, and the font size, in SVG units.
const LETTER: f32 = 7.8;
const LINE: usize = 18;
const SIZE: usize = 13;

/// Converts the codes of a terminal sequence into SVG attributes.
fn attributes(codes: &str) -> &'static str {
    match codes {
        "0" | "" => "",
        "1" => " font-weight=\"bold\"",
        "2" => " fill=\"#8b949e\"",
        "1;31" | "31" => " fill=\"#ff7b72\" font-weight=\"bold\"",
        "1;32" | "32" => " fill=\"#7ee787\" font-weight=\"bold\"",
        "1;33" | "33" => " fill=\"#e3b341\" font-weight=\"bold\"",
        "1;36" | "36" => " fill=\"#79c0ff\" font-weight=\"bold\"",
        other => panic!("a style that no report has: {other:?}"),
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // SVG collapses consecutive spaces, and not every viewer supports xml:space.
    text.replace(' ', "\u{a0}")
}

/// A line with its styles, and its length in characters.
fn spans(line: &str) -> (String, usize) {
    let (mut out, mut length, mut codes) = (String::new(), 0, Vec::new());
    for (at, piece) in line.split("\u{1b}[").enumerate() {
        let text = match piece.split_once('m').filter(|_| at > 0) {
            Some((code, text)) => {
                if code == "0" {
                    codes.clear();
                } else {
                    codes.push(code);
                }
                text
            }
            None => piece,
        };
        length += text.chars().count();
        let style = attributes(&codes.join(";"));
        let _ = match (text.is_empty(), style) {
            (true, _) => Ok(()),
            (false, "") => write!(out, "{}", escaped(text)),
            (false, style) => write!(out, "<tspan{style}>{}</tspan>", escaped(text)),
        };
    }
    (out, length)
}

/// Draws a command and its coloured output.
pub fn draw(command: &str, said: &str) -> String {
    let prompt = format!("\u{1b}[2m$\u{1b}[0m {command}");
    let lines: Vec<(String, usize)> = std::iter::once(prompt.as_str())
        .chain(said.lines())
        .map(spans)
        .collect();
    let longest = lines.iter().map(|(_, length)| *length).max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss, reason = "lines have some hundred letters")]
    let units = |letters: usize| letters as f32 * LETTER;
    let (width, height) = (units(longest) + 40.0, lines.len() * LINE + 30);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" width=\"{width:.0}\" role=\"img\">\n\
         <!-- Written by tests/command_line/cli.rs from what the program says, with UPDATE_DOCS=1 in its environment. -->\n\
         <title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n\
         <g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"{SIZE}\" \
         fill=\"#e6edf3\">\n",
        escaped(command)
    );
    for (at, (line, length)) in lines.iter().enumerate().filter(|(_, (_, length))| *length > 0) {
        let y = 28 + at * LINE;
        // `textLength` gives the line its exact width in any font.
        let _ = writeln!(
            out,
            "<text x=\"20\" y=\"{y}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\">{line}</text>",
            units(*length)
        );
    }
    out + "</g>\n</svg>\n"
}

//! What the pictures share: their width, and text that fits.
//!
//! A picture is as wide as a phone's page in its own units, so that its text is never smaller than on a phone.

use maud::{Markup, html};

use crate::report::text_layout::shorten;

/// The width of a picture in its own units.
pub(super) const WIDTH: usize = 360;

/// The width of a character of the smaller text, which is monospaced, in tenths.
const CHARACTER: usize = 70;
/// The same of a box's title, whose letters differ in width: those of a path, which are wide.
const TITLE_CHARACTER: usize = 80;

/// Text in a window: what does not fit by its font does not run over its neighbours.
pub(super) struct FittedText<'a> {
    pub x: usize,
    /// The base line of the letters, as in SVG.
    pub y: usize,
    pub width: usize,
    /// For the style sheet, which gives it its font and colour.
    pub class: &'static str,
    /// What it says, cut where it is too long for the width.
    pub words: &'a str,
    pub keep: KeptEnd,
}

impl FittedText<'_> {
    pub(super) fn draw(&self) -> Markup {
        let character = if self.class == "name" {
            TITLE_CHARACTER
        } else {
            CHARACTER
        };
        let text = cut(self.words, self.width * 10 / character, self.keep);
        // The width of a text is known to the browser alone; an inner svg cuts off what runs over it. 13 above the base
        // line and 5 below it hold every letter of the fonts of style.css.
        html! {
            svg x=(self.x) y=(self.y.saturating_sub(13)) width=(self.width) height="18" {
                text.(self.class) x="0" y="13" { (text) }
            }
        }
    }
}

/// Which end of a text that is too long is kept.
#[derive(Clone, Copy)]
pub(super) enum KeptEnd {
    First,
    /// For a path, which is told by its end.
    Last,
}

fn cut(text: &str, room: usize, keep: KeptEnd) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    match keep {
        KeptEnd::First => shorten(text, kept),
        KeptEnd::Last => "…".chars().chain(text.chars().skip(length - kept)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{KeptEnd, cut};

    #[test]
    fn a_text_that_is_too_long_keeps_the_end_that_tells_more() {
        assert_eq!(cut("abc", 3, KeptEnd::First), "abc");
        assert_eq!(cut("abcd", 3, KeptEnd::First), "ab…");
        assert_eq!(cut("/süß/lib.so", 7, KeptEnd::Last), "…lib.so");
    }
}

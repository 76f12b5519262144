//! Shared by all pictures: their width, and text that fits.
//!
//! A picture is as wide as a phone in its own units, so its text is never smaller than on a phone.

use maud::{Markup, html};

use crate::report::text_layout::shorten;

/// The width of a picture in its own units.
pub(super) const WIDTH: usize = 360;

/// The width of a character in the small monospaced font, in tenths.
const CHARACTER: usize = 70;
/// Same for a box's title in a proportional font: that of a path, which has wide letters.
const TITLE_CHARACTER: usize = 80;

/// Text in a clipped window, so that it never covers its neighbours.
pub(super) struct FittedText<'a> {
    pub x: usize,
    /// The baseline of the letters, as in SVG.
    pub y: usize,
    pub width: usize,
    /// The class for font and colour in the style sheet.
    pub class: &'static str,
    /// The text, shortened to the width.
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
        // Only the browser knows the text's width; an inner svg clips the rest. 13 above the baseline and 5 below fit
        // all letters of the fonts in style.css.
        html! {
            svg x=(self.x) y=(self.y.saturating_sub(13)) width=(self.width) height="18" {
                text.(self.class) x="0" y="13" { (text) }
            }
        }
    }
}

/// Which end of a long text to keep.
#[derive(Clone, Copy)]
pub(super) enum KeptEnd {
    First,
    /// For a path, whose end matters most.
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
    fn a_long_text_keeps_its_more_useful_end() {
        assert_eq!(cut("abc", 3, KeptEnd::First), "abc");
        assert_eq!(cut("abcd", 3, KeptEnd::First), "ab…");
        assert_eq!(cut("/süß/lib.so", 7, KeptEnd::Last), "…lib.so");
    }
}

//! What the pictures share: their width, and text that fits.
//!
//! A picture is as wide as a phone's page in its own units, so that its text is never smaller than on a phone.

use maud::{Markup, html};

/// The width of a picture.
pub(super) const WIDTH: usize = 360;

/// The width of a character of the smaller text, which is monospaced, in tenths.
const CHARACTER: usize = 70;

/// Text in a window: what does not fit by its font does not run over its neighbours.
pub(super) struct FittedText<'a> {
    /// The left edge.
    pub x: usize,
    /// The base line.
    pub y: usize,
    /// The width it may have.
    pub width: usize,
    /// Its class, for its font and colour.
    pub class: &'static str,
    /// What it says.
    pub words: &'a str,
}

impl FittedText<'_> {
    /// The text, its begin cut where it is too long: a path is told by its end.
    pub(super) fn tail(&self) -> Markup {
        self.draw(&cut(self.words, self.room(), KeptEnd::Last))
    }

    /// The text, its end cut where it is too long.
    pub(super) fn head(&self) -> Markup {
        self.draw(&cut(self.words, self.room(), KeptEnd::First))
    }

    fn room(&self) -> usize {
        self.width * 10 / CHARACTER
    }

    fn draw(&self, text: &str) -> Markup {
        html! {
            svg x=(self.x) y=(self.y.saturating_sub(13)) width=(self.width) height="18" {
                text.(self.class) x="0" y="13" { (text) }
            }
        }
    }
}

/// Which end of a text is kept.
#[derive(Clone, Copy)]
enum KeptEnd {
    First,
    Last,
}

fn cut(text: &str, room: usize, keep: KeptEnd) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    match keep {
        KeptEnd::First => text.chars().take(kept).chain(['…']).collect(),
        KeptEnd::Last => "…"
            .chars()
            .chain(text.chars().skip(length - kept))
            .collect(),
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

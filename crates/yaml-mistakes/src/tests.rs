use std::collections::BTreeMap;

use serde::Deserialize;

use super::{YamlDocument, unknown_name};

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
    Off,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Wheel {
    size: u8,
    colour: Colour,
    #[serde(default)]
    spokes: Option<u16>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Car {
    name: String,
    wheels: Vec<Wheel>,
    #[serde(default)]
    notes: BTreeMap<String, String>,
    electric: bool,
    doors: u8,
}

fn mistakes(text: &str) -> Vec<String> {
    let read = YamlDocument::parse(text)
        .map_err(|mistake| vec![mistake])
        .and_then(|document| document.read::<Car>());
    let mistakes = read.err().unwrap_or_default();
    mistakes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_right_document_is_read_and_numbers_may_be_text() {
    let text = "name: 1.10\nwheels:\n  - {size: 17, colour: red}\n  - {size: 17, colour: off}\nnotes: {a: yes, b: x}\nelectric: false\ndoors: 5\n";
    let car: Car = YamlDocument::parse(text).unwrap().read().unwrap();
    let wheel = |colour| Wheel {
        size: 17,
        colour,
        spokes: None,
    };
    let notes = [("a", "yes"), ("b", "x")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let expected = Car {
        name: "1.10".to_owned(),
        wheels: vec![wheel(Colour::Red), wheel(Colour::Off)],
        notes: notes.into(),
        electric: false,
        doors: 5,
    };
    assert_eq!(car, expected);
}

#[test]
fn all_mistakes_of_all_parts_are_found_in_one_go() {
    let text =
        "nmae: x\nwheels:\n  - {size: 300, colour: blue}\n  - {colour: green, spoke: 3}\n  - 7\nnotes: []\ndoors: -1\n";
    assert_eq!(
        mistakes(text),
        [
            "1:1: the key \"electric\" is missing",
            "1:1: the key \"name\" is missing",
            "1:1: there is no key \"nmae\"; did you mean \"name\"?; there is name, wheels, notes, electric, doors",
            "3:12: expected a whole number from 0 to 255, found 300",
            "3:25: there is no value \"blue\"; there is red, green, off",
            "4:5: the key \"size\" is missing",
            "4:21: there is no key \"spoke\"; did you mean \"spokes\"?; there is size, colour, spokes",
            "5:5: expected a map of keys, found 7",
            "6:8: expected a map, found a list",
            "7:8: expected a whole number from 0 to 255, found -1",
        ]
    );
}

#[test]
fn what_is_no_yaml_is_one_mistake_at_its_place() {
    assert_eq!(mistakes("name: [\n"), ["1:7: unclosed bracket '['"]);
    assert_eq!(mistakes(&"[".repeat(100_000)).len(), 1);
    assert_eq!(mistakes("\u{1}\0"), ["1:1: unexpected character: `\\\\u{1}'"]);
    assert_eq!(mistakes("").len(), 4, "nothing is a map without keys");
}

#[test]
fn a_mistake_is_told_in_the_words_of_yaml_and_not_in_those_of_the_parser_or_of_rust() {
    for (text, said) in [
        ("name: a\nname: b\n", "2:1: the key \"name\" stands here a second time"),
        ("name: *x\n", "1:7: no anchor of this name stands before it"),
        (
            "name: a\n---\nname: b\n",
            "3:1: a second document begins here, and a file is one",
        ),
        ("? [a]\n: b\n", "1:3: a key has to be text"),
        ("null: 1\n", "1:1: a key has to be text"),
        ("name: !!int x\n", "1:13: the value is not what its tag says"),
        ("a: &x [*x]\n", "1:8: the alias stands within its own anchor"),
        (
            "a: .inf\n",
            "1:4: \".inf\" is no finite number; put it in quotes to have it as text",
        ),
        ("a: b: c\n", "1:5: mapping values are not allowed in this context"),
        ("a: @x\n", "1:4: unexpected character: `@'"),
    ] {
        assert_eq!(mistakes(text), [said], "{text}");
    }
    let typed = mistakes("name: [x]\nwheels: {}\nnotes: 3\nelectric: maybe\ndoors: 1.5\n");
    assert_eq!(
        typed,
        [
            "1:7: expected a string, found a list",
            "2:9: expected a list, found a map",
            "3:8: expected a map, found 3",
            "4:11: expected true or false, found \"maybe\"",
            "5:8: expected a whole number from 0 to 255, found 1.5",
        ]
    );
}

#[test]
fn a_name_is_proposed_only_where_it_is_near() {
    let known = ["inference", "training", "profiling"];
    assert!(unknown_name("phase", "trianing", &known).contains("did you mean \"training\"?"));
    assert!(!unknown_name("phase", "lunch", &known).contains("did you mean"));
}

#[test]
fn a_document_that_is_nested_too_deep_is_a_mistake_and_no_end_of_the_stack() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert!(YamlDocument::parse(&nested(20)).is_ok());
        let mistake = YamlDocument::parse(&nested(60)).err().unwrap();
        assert!(mistake.what.contains("depth"), "{mistake}");
    }
}

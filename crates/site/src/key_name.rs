//! What an owner may call a key, and what a key without a name is called.

use ipse_model::KeyId;

/// As many characters as fit on a line of the dashboard.
pub(crate) const LONGEST: usize = 60;

/// A name as it may be stored, or what to say beside the field. Names are only ever shown as text, so what is refused
/// here is what could not be seen, or what would turn the text around it upside down.
pub(crate) fn checked(typed: &str) -> Result<String, String> {
    let name = typed.trim();
    if name.is_empty() {
        return Err("Give the key a name, such as the program that will use it.".to_owned());
    }
    let length = name.chars().count();
    if length > LONGEST {
        return Err(format!("A name has at most {LONGEST} characters; this one has {length}."));
    }
    if name.contains(is_hidden) {
        return Err("This name holds characters that cannot be seen. Type it anew, in one line.".to_owned());
    }
    Ok(name.to_owned())
}

/// The name of a key, or its number where the command line gave it none.
pub(crate) fn called(name: &str, id: KeyId) -> String {
    if name.trim().is_empty() { format!("Key {id}") } else { name.to_owned() }
}

/// Whether what was typed to confirm is the name. Spaces are shown as one, however many there are.
pub(crate) fn is_same(typed: &str, name: &str) -> bool {
    typed.split_whitespace().eq(name.split_whitespace())
}

/// Control characters, ends of lines and paragraphs, spaces without width, and marks that change the direction. The
/// joiners stay allowed: scripts and emoji need them.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{00ad}'
                | '\u{034f}'
                | '\u{061c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{ffa0}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_seen_are_taken() {
        #[track_caller]
        fn check(typed: &str, name: &str) {
            assert_eq!(checked(typed), Ok(name.to_owned()));
        }
        check("Shop", "Shop");
        check("  my  shop \n", "my  shop");
        check("<script>alert(1)</script>", "<script>alert(1)</script>");
        check("=1+1", "=1+1");
        check("متجر", "متجر");
        check("👩\u{200d}🌾 farm", "👩\u{200d}🌾 farm");
        check(&"ö".repeat(60), &"ö".repeat(60));
    }

    #[test]
    fn others_are_refused_with_the_reason() {
        #[track_caller]
        fn check(typed: &str, part: &str) {
            let message = checked(typed).unwrap_err();
            assert!(message.contains(part), "{typed:?}: {message}");
        }
        check("", "Give the key a name");
        check(" \t ", "Give the key a name");
        check("\u{2028}", "Give the key a name");
        check(&"a".repeat(61), "at most 60 characters; this one has 61");
        check(&"x".repeat(10_240), "this one has 10240");
        for hidden in
            ['\0', '\u{7}', '\n', '\u{7f}', '\u{85}', '\u{200b}', '\u{2028}', '\u{202e}', '\u{feff}']
        {
            check(&format!("a{hidden}b"), "cannot be seen");
        }
    }

    #[test]
    fn a_key_is_confirmed_by_what_is_shown() {
        assert_eq!(called("", KeyId(7)), "Key 7");
        assert_eq!(called(" Shop", KeyId(7)), " Shop");
        assert!(is_same("my shop", "my  shop") && is_same(" Shop ", "Shop"));
        assert!(!is_same("shop", "Shop") && !is_same("", "Shop") && !is_same("Sho p", "Shop"));
    }
}

//! Every page for everybody: what axe says of it, and whether a keyboard alone is enough.

use crate::browser::check_visits;

#[test]
fn axe_finds_nothing_on_any_page_in_either_theme() {
    check_visits(|visit| visit.violations.clone());
}

#[test]
fn every_control_is_reached_by_tab_and_the_focus_is_seen() {
    check_visits(|visit| {
        let keyboard = &visit.keyboard;
        let unreached = keyboard.unreached.iter().map(|control| format!("Tab does not reach {control}"));
        let mut faults: Vec<String> = unreached.chain(keyboard.unseen.iter().cloned()).collect();
        // Every page has a link that skips to its content, the name at the top, and the way to the other pages.
        if visit.visit.contains("1280 px") && keyboard.stops < 5 {
            faults.push(format!("only {} stops for the focus", keyboard.stops));
        }
        faults
    });
}

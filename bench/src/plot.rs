//! Plots as SVG, written by ourselves: bars, with what they stand for beside them. They are legible on light and on dark pages.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const LABELS: f64 = 300.0;
const BAR: f64 = 22.0;
const STEP: f64 = 30.0;
const TOP: f64 = 44.0;
/// Room for the number behind the longest bar.
const NUMBERS: f64 = 90.0;

/// One bar.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Whether it is ours.
    pub(crate) is_ours: bool,
}

/// Bars below each other, from one beginning.
#[expect(clippy::cast_precision_loss, reason = "there are a few bars")]
pub(crate) fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let height = TOP + STEP * bars.len() as f64 + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#7d8590\">\n<title>{title}</title>\n\
         <text x=\"0\" y=\"20\" font-size=\"15\">{title}</text>\n",
        title = escaped(title),
    );
    for (row, bar) in bars.iter().enumerate() {
        let top = TOP + STEP * row as f64;
        let length = (WIDTH - LABELS - NUMBERS) * bar.value / longest;
        let (text, colour) = (top + BAR * 0.72, if bar.is_ours { "#2f81f7" } else { "#9aa4af" });
        // Written to a text, which takes everything.
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABELS}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{text:.1}\">{:.2} {unit}</text>",
            LABELS - 8.0,
            escaped(&bar.name),
            LABELS + length + 6.0,
            bar.value,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_room_and_names_are_escaped() {
        let bar = |name: &str, value| Bar { name: name.to_owned(), value, is_ours: false };
        let svg = bars("a < b", "µs", &[bar("one & only", 1.0), bar("two", 2.0)]);
        assert!(svg.contains("a &lt; b") && svg.contains("one &amp; only"), "{svg}");
        assert!(svg.contains("width=\"370.0\"") && svg.contains("width=\"185.0\""), "{svg}");
    }
}

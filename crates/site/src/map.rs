//! The world map of the front page: our own drawing, and where on it a visitor is.
//!
//! The drawing is made by `cargo xtask world-map`, and stands in the page itself, so that it has the colours of the page.

use crate::projection::{HEIGHT, WIDTH, project};
use ipse_model::Degrees;

const DRAWING: &str = include_str!("../assets/map.svg");

/// The map of one visitor.
pub(crate) struct Map {
    /// What the map shows, for those who do not see it.
    pub(crate) label: String,
    /// Where the marker is, if the place is known.
    pub(crate) marker: Option<Marker>,
}

/// A place of the drawing, in its own units.
pub(crate) struct Marker {
    x: f64,
    y: f64,
}

impl Map {
    /// `place` names where the position is.
    pub(crate) fn new(position: Option<(Degrees, Degrees)>, place: Option<&str>) -> Self {
        let marker = position.map(|(latitude, longitude)| {
            let point = project(latitude.degrees(), longitude.degrees());
            Marker { x: point.x, y: point.y }
        });
        let label = match (&marker, place) {
            (Some(_), Some(place)) => format!("Map: {place}"),
            (Some(_), None) => "World map with a marker where you are".to_owned(),
            (None, _) => "World map, without a marker".to_owned(),
        };
        Self { label, marker }
    }

    pub(crate) fn view_box(&self) -> String {
        format!("0 0 {WIDTH} {HEIGHT}")
    }

    /// What stands within the drawing’s own element: it goes into one that also holds the marker.
    pub(crate) fn shapes(&self) -> &'static str {
        let inside = DRAWING.split_once(">\n").and_then(|(_, rest)| rest.rsplit_once("</svg>"));
        inside.map_or("", |(shapes, _)| shapes)
    }
}

impl Marker {
    /// A line without length, so that only its round ends are drawn: unlike a circle it can keep its size on the screen
    /// while the map grows and shrinks.
    pub(crate) fn path(&self) -> String {
        format!("M{:.1} {:.1}h0", self.x, self.y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::Point;

    #[test]
    fn the_projection_is_that_of_its_authors() {
        /// What PROJ says (`+proj=eqearth +R=1`), turned into the units of the map.
        #[track_caller]
        fn check(latitude: f64, longitude: f64, x: f64, y: f64) {
            const UNITS: f64 = 1000.0 / 2.706_629_984;
            let point = project(latitude, longitude);
            assert!((point.x - (1000.0 + UNITS * x)).abs() < 0.01, "{latitude} {longitude}: {point:?}");
            assert!(
                (point.y - UNITS * (1.317_362_759 - y)).abs() < 0.01,
                "{latitude} {longitude}: {point:?}"
            );
        }
        check(0.0, 0.0, 0.0, 0.0);
        check(0.0, 180.0, 2.706_629_984, 0.0);
        check(0.0, -180.0, -2.706_629_984, 0.0);
        check(90.0, 0.0, 0.0, 1.317_362_759);
        check(-90.0, 0.0, 0.0, -1.317_362_759);
        // London, Sydney, New York, Reykjavík and Ushuaia.
        check(51.5142, -0.0931, -0.001_140_384, 0.965_210_891);
        check(-33.8688, 151.2093, 2.087_106_438, -0.664_683_777);
        check(40.7128, -74.006, -0.981_861_450, 0.787_064_220);
        check(64.1466, -21.9426, -0.238_246_596, 1.141_598_810);
        check(-54.8, -68.3, -0.812_934_245, -1.014_893_878);
    }

    /// The lines of one path of the drawing, each as its corners.
    fn lines(class: &str) -> Vec<Vec<Point>> {
        let path = DRAWING.split(&format!("class=\"{class}\"")).nth(1).unwrap();
        let path = path.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        path.split('M').filter(|line| !line.is_empty()).map(corners).collect()
    }

    fn corners(line: &str) -> Vec<Point> {
        let (first, steps) = line.split_once('l').unwrap_or((line.trim_end_matches("h0"), ""));
        let numbers = |text: &str| -> Vec<f64> {
            let spaced = text.trim_end_matches('z').replace('-', " -");
            spaced.split_whitespace().map(|number| number.parse().unwrap()).collect()
        };
        let first = numbers(first);
        let mut at = Point { x: first[0], y: first[1] };
        let mut corners = vec![at];
        for step in numbers(steps).chunks(2) {
            at = Point { x: at.x + step[0], y: at.y + step[1] };
            corners.push(at);
        }
        corners
    }

    fn edges(line: &[Point]) -> impl Iterator<Item = (Point, Point)> {
        line.iter().copied().zip(line.iter().copied().cycle().skip(1))
    }

    /// Whether a place is on land, by the rule that the drawing is filled with: lakes are rings within others.
    fn is_land(land: &[Vec<Point>], latitude: f64, longitude: f64) -> bool {
        let place = project(latitude, longitude);
        let crossed = land.iter().flat_map(|ring| edges(ring)).filter(|(a, b)| {
            (a.y > place.y) != (b.y > place.y) && place.x < a.x + (place.y - a.y) / (b.y - a.y) * (b.x - a.x)
        });
        crossed.count() % 2 == 1
    }

    /// How far a place is from the nearest coast.
    fn distance(land: &[Vec<Point>], latitude: f64, longitude: f64) -> f64 {
        let place = project(latitude, longitude);
        let to_edge = |(a, b): (Point, Point)| {
            let (x, y) = (b.x - a.x, b.y - a.y);
            let length = x * x + y * y;
            let along =
                if length == 0.0 { 0.0 } else { ((place.x - a.x) * x + (place.y - a.y) * y) / length };
            let along = along.clamp(0.0, 1.0);
            (place.x - a.x - along * x).hypot(place.y - a.y - along * y)
        };
        land.iter().flat_map(|ring| edges(ring)).map(to_edge).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn cities_are_on_land_and_oceans_are_not() {
        let land = lines("map-land");
        for (name, latitude, longitude) in [
            ("Madrid", 40.42, -3.70),
            ("Birmingham", 52.48, -1.90),
            ("Moscow", 55.75, 37.62),
            ("Nairobi", -1.29, 36.82),
            ("Johannesburg", -26.20, 28.05),
            ("Denver", 39.74, -104.99),
            ("Mexico City", 19.43, -99.13),
            ("Brasília", -15.79, -47.88),
            ("Alice Springs", -23.70, 133.88),
            ("Delhi", 28.61, 77.21),
            ("Xi’an", 34.34, 108.94),
            ("Anadyr’s hinterland", 66.5, 172.0),
            ("the tip of Chukotka", 66.3, -174.5),
            ("the South Pole’s hinterland", -85.0, 100.0),
        ] {
            assert!(is_land(&land, latitude, longitude), "{name}");
        }
        for (name, latitude, longitude) in [
            ("Atlantic", 30.0, -45.0),
            ("Pacific", 0.0, -150.0),
            ("Indian Ocean", -20.0, 80.0),
            ("Mediterranean", 38.0, 5.5),
            ("Hudson Bay", 59.0, -86.0),
            ("Black Sea", 43.3, 34.0),
            ("Bering Sea", 58.0, 180.0),
            ("North Pole", 89.0, 0.0),
            ("Southern Ocean", -60.0, -150.0),
        ] {
            assert!(!is_land(&land, latitude, longitude), "{name}");
        }
    }

    #[test]
    fn coasts_are_where_they_are() {
        let land = lines("map-land");
        for (name, latitude, longitude) in [
            ("Land’s End", 50.066, -5.715),
            ("Cabo da Roca", 38.781, -9.501),
            ("Cape of Good Hope", -34.358, 18.474),
            ("Cape Comorin", 8.078, 77.541),
            ("Cape York", -10.688, 142.531),
            ("Key Biscayne", 25.69, -80.16),
            ("Point Arena", 38.955, -123.74),
            ("Ponta do Seixas", -7.155, -34.793),
            ("Dakar", 14.745, -17.521),
        ] {
            let distance = distance(&land, latitude, longitude);
            assert!(distance < 3.0, "{name} is {distance:.1} units from the coast");
        }
    }

    #[test]
    fn small_islands_are_dots() {
        let dots = lines("map-islets").concat();
        for (name, latitude, longitude) in
            [("Malta", 35.9, 14.45), ("Bermuda", 32.3, -64.78), ("Saint Helena", -15.95, -5.72)]
        {
            let place = project(latitude, longitude);
            let near = |dot: &Point| (dot.x - place.x).hypot(dot.y - place.y) < 3.0;
            assert!(dots.iter().any(near), "{name}");
        }
    }

    #[test]
    fn everything_is_drawn_within_the_map_and_is_small() {
        let points = ["map-ocean", "map-grid", "map-land", "map-islets"].map(lines).concat().concat();
        assert!(points.iter().all(|at| (0.0..=WIDTH).contains(&at.x) && (0.0..=HEIGHT).contains(&at.y)));
        assert!(DRAWING.len() <= 25_000);
    }

    #[test]
    fn only_shapes_go_into_the_page() {
        let shapes = Map::new(None, None).shapes();
        assert!(shapes.starts_with("<path") && shapes.trim_end().ends_with("/>"));
        assert_eq!(shapes.matches('<').count(), shapes.matches("<path ").count());
    }

    #[test]
    fn a_map_says_what_it_shows() {
        #[track_caller]
        fn check(position: Option<(f64, f64)>, place: Option<&str>, label: &str, path: Option<&str>) {
            let position = position.and_then(|(latitude, longitude)| {
                Degrees::latitude(latitude).zip(Degrees::longitude(longitude))
            });
            let map = Map::new(position, place);
            assert_eq!(
                (map.label.as_str(), map.marker.map(|marker| marker.path()).as_deref()),
                (label, path)
            );
        }
        let london = Some((51.5142, -0.0931));
        check(london, Some("London, England"), "Map: London, England", Some("M999.6 130.1h0"));
        check(london, None, "World map with a marker where you are", Some("M999.6 130.1h0"));
        check(None, Some("Europe"), "World map, without a marker", None);
    }
}

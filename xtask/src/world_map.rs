//! `cargo xtask world-map`: draws the front page's map from the outlines of the package `world-atlas`.
//!
//! They are Natural Earth's, which are in the public domain. The projection is the site's own file, so that a marker
//! is where the map says.

#[path = "../../crates/site/src/projection.rs"]
mod projection;

use crate::geo_sources;
use anyhow::{Context, bail, ensure};
use projection::{HEIGHT, Point, WIDTH, project};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The drawing that is part of the program.
const MAP: &str = "crates/site/assets/map.svg";
const PACKAGE: &str = "world-atlas";
const VERSION: &str = "2.0.2";
const SHA256: &str = "032e7765f2ce00edaeafec23ff22bc3b77e42987c257da944cc585b452c05b97";
const FILE: &str = "land-50m.json";

/// What a corner must take away or add to the land to be kept, in square units of the map.
const LEAST_CORNER: f64 = 2.7;
/// How large an island must be to be drawn with its outline.
const LEAST_ISLAND: f64 = 8.0;
/// How far a smaller one must be from everything else to be drawn as a dot.
const LEAST_DISTANCE: f64 = 4.4;
/// The map is part of a page, so it may not be larger.
const MOST_BYTES: usize = 25_000;
/// Where the outlines have longer edges than so many degrees, they run along the border of the map, which is no straight
/// line in the projection.
const LONGEST_EDGE: f64 = 2.0;
/// How many degrees lie between two lines of the grid.
const GRID: i32 = 30;

/// Whether the map is written, or compared with the one that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Make,
    Check,
}

pub(crate) fn run(root: &Path, purpose: Purpose) -> anyhow::Result<ExitCode> {
    let path = geo_sources::file_of(root, PACKAGE, VERSION, SHA256, FILE)?;
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let drawing = draw(&rings(&serde_json::from_str(&text)?)?);
    ensure!(
        drawing.len() <= MOST_BYTES,
        "the map has {} bytes, and may have {MOST_BYTES}: raise LEAST_CORNER in xtask/src/world_map.rs",
        drawing.len()
    );
    let there = root.join(MAP);
    match purpose {
        Purpose::Make => {
            fs::write(&there, &drawing).with_context(|| format!("{MAP} cannot be written"))?;
            println!("{MAP} is written: {} bytes.", drawing.len());
        }
        Purpose::Check => {
            let same = fs::read_to_string(&there).is_ok_and(|text| text == drawing);
            ensure!(same, "{MAP} is not what is drawn now: run `cargo xtask world-map` and look at it");
            println!("{MAP} is what is drawn.");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Degrees east and north.
type Position = (f64, f64);

/// The rings of all land, as `TopoJSON` has them: joined from arcs that are coded as steps of a grid.
fn rings(atlas: &Value) -> anyhow::Result<Vec<Vec<Position>>> {
    let number = |value: &Value| value.as_f64().context("the outlines have something else for a number");
    let pair = |value: &Value| anyhow::Ok((number(&value[0])?, number(&value[1])?));
    let list =
        |value: &Value| value.as_array().cloned().context("the outlines have something else for a list");
    let (scale, shift) = (pair(&atlas["transform"]["scale"])?, pair(&atlas["transform"]["translate"])?);
    let mut arcs = Vec::new();
    for arc in list(&atlas["arcs"])? {
        let mut at = (0.0, 0.0);
        let mut positions: Vec<Position> = Vec::new();
        for step in list(&arc)? {
            let step = pair(&step)?;
            at = (at.0 + step.0, at.1 + step.1);
            positions.push((at.0 * scale.0 + shift.0, at.1 * scale.1 + shift.1));
        }
        arcs.push(positions);
    }
    let mut rings = Vec::new();
    for geometry in list(&atlas["objects"]["land"]["geometries"])? {
        ensure!(geometry["type"] == "MultiPolygon", "the land is something else than polygons");
        for ring in list(&geometry["arcs"])?.iter().map(list).collect::<Result<Vec<_>, _>>()?.concat() {
            let mut positions: Vec<Position> = Vec::new();
            for index in list(&ring)? {
                let index = index.as_i64().context("an arc is named by something else than a number")?;
                // A number that counts from minus one names an arc that is walked backwards.
                let (place, backwards) = if index < 0 { (!index, true) } else { (index, false) };
                let arc = arcs.get(usize::try_from(place)?).context("an arc that does not exist")?;
                // Where one arc ends the next begins.
                positions.pop();
                if backwards {
                    positions.extend(arc.iter().rev());
                } else {
                    positions.extend(arc);
                }
            }
            // The outlines have a hole at the South Pole, as wide as their last digit.
            if positions.iter().any(|position| position.1.abs() < 89.0) {
                rings.push(positions);
            }
        }
    }
    if rings.is_empty() {
        bail!("there is no land at all");
    }
    Ok(rings)
}

/// The whole drawing. Its colours are those of the text around it, until a stylesheet knows better.
fn draw(rings: &[Vec<Position>]) -> String {
    let mut land = Vec::new();
    let mut small = Vec::new();
    for ring in rings.iter().flat_map(|ring| on_the_map(ring)) {
        let points: Vec<Point> =
            dense(&ring).into_iter().map(|(longitude, latitude)| project(latitude, longitude)).collect();
        if area(&points).abs() >= LEAST_ISLAND {
            land.push(simplified(&points));
        } else {
            small.push(middle(&points));
        }
    }
    let land_path: String = land.iter().map(|points| closed(points)).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
         <path class=\"map-ocean\" fill=\"none\" d=\"{}\"/>\n\
         <path class=\"map-grid\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\".2\" d=\"{}\"/>\n\
         <path class=\"map-land\" fill=\"currentColor\" d=\"{land_path}\"/>\n\
         <path class=\"map-islets\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"4\" stroke-linecap=\"round\" \
         d=\"{}\"/>\n</svg>\n",
        closed(&border()),
        grid(),
        dots(&small, &land.concat()),
    )
}

/// The parts of a ring between both sides of the map: a ring may cross the meridian at its border, or go around a pole.
fn on_the_map(ring: &[Position]) -> Vec<Vec<Position>> {
    let mut whole: Vec<Position> = Vec::new();
    for (longitude, latitude) in ring {
        let near = whole.last().map_or(*longitude, |last| last.0);
        // The same place, counted from where the ring came from.
        whole.push((longitude + 360.0 * ((near - longitude) / 360.0).round(), *latitude));
    }
    if let (Some(first), Some(last)) = (whole.first().copied(), whole.last().copied())
        && (last.0 - first.0).abs() > 180.0
    {
        let pole = f64::copysign(90.0, first.1);
        whole.extend([(last.0, pole), (first.0, pole), first]);
    }
    [-360.0, 0.0, 360.0]
        .map(|turn| {
            let turned: Vec<Position> =
                whole.iter().map(|(longitude, latitude)| (longitude + turn, *latitude)).collect();
            cut(&cut(&turned, 1.0), -1.0)
        })
        .into_iter()
        .filter(|part| part.len() > 3)
        .collect()
}

/// What lies on this side of a border of the map, 1 for the eastern and −1 for the western one (Sutherland and Hodgman).
fn cut(ring: &[Position], side: f64) -> Vec<Position> {
    let over = |position: Position| position.0 * side - 180.0;
    let mut kept = Vec::new();
    for edge in ring.windows(2) {
        let [from, to] = [edge[0], edge[1]];
        if over(from) <= 0.0 {
            kept.push(from);
        }
        if (over(from) < 0.0 && over(to) > 0.0) || (over(from) > 0.0 && over(to) < 0.0) {
            let part = over(from) / (over(from) - over(to));
            kept.push((180.0 * side, from.1 + part * (to.1 - from.1)));
        }
    }
    kept.extend(kept.first().copied());
    kept
}

/// Long edges in steps, so that they bend with the projection.
fn dense(ring: &[Position]) -> Vec<Position> {
    let mut dense = Vec::new();
    for edge in ring.windows(2) {
        let [from, to] = [edge[0], edge[1]];
        let (east, north) = (to.0 - from.0, to.1 - from.1);
        let mut part = 0.0;
        let step = LONGEST_EDGE / east.abs().max(north.abs()).max(LONGEST_EDGE);
        while part < 1.0 {
            dense.push((from.0 + part * east, from.1 + part * north));
            part += step;
        }
    }
    dense
}

/// The border of the map: both sides of the meridian opposite to Greenwich.
fn border() -> Vec<Point> {
    let up = (-90..=90).step_by(5).map(|latitude| (latitude, 180));
    let down = (-90..=90).rev().step_by(5).map(|latitude| (latitude, -180));
    up.chain(down).map(|(latitude, longitude)| project(f64::from(latitude), f64::from(longitude))).collect()
}

fn grid() -> String {
    let line = |points: Vec<Point>| path(&points);
    let at = |latitude: i32, longitude: i32| project(f64::from(latitude), f64::from(longitude));
    let step = usize::try_from(GRID).unwrap_or(1);
    let meridians = (GRID - 180..180)
        .step_by(step)
        .map(|longitude| line((-90..=90).step_by(10).map(|latitude| at(latitude, longitude)).collect()));
    // Parallels are straight in this projection.
    let parallels =
        (GRID - 90..90).step_by(step).map(|latitude| line(vec![at(latitude, -180), at(latitude, 180)]));
    meridians.chain(parallels).collect()
}

/// What is enclosed; negative if it is walked the other way round.
fn area(points: &[Point]) -> f64 {
    let next = points.iter().cycle().skip(1);
    points.iter().zip(next).map(|(a, b)| a.x * b.y - b.x * a.y).sum::<f64>() / 2.0
}

/// Leaves out corners, the least first, as long as they take away or add next to nothing (Visvalingam and Whyatt).
fn simplified(points: &[Point]) -> Vec<Point> {
    let count = points.len();
    let mut before: Vec<usize> = (0..count).map(|index| (index + count - 1) % count).collect();
    let mut behind: Vec<usize> = (0..count).map(|index| (index + 1) % count).collect();
    // The bits of numbers that are not negative are in the order of the numbers.
    let weight = |before: usize, index: usize, behind: usize| {
        area(&[points[before], points[index], points[behind]]).abs().to_bits()
    };
    let mut weights: Vec<u64> = (0..count).map(|index| weight(before[index], index, behind[index])).collect();
    let mut queue: BTreeSet<(u64, usize)> = weights.iter().copied().zip(0..).collect();
    while queue.len() > 3
        && let Some((least, index)) = queue.pop_first()
    {
        if f64::from_bits(least) >= LEAST_CORNER {
            queue.insert((least, index));
            break;
        }
        let (left, right) = (before[index], behind[index]);
        behind[left] = right;
        before[right] = left;
        for neighbour in [left, right] {
            queue.remove(&(weights[neighbour], neighbour));
            // A corner never becomes lighter than one that went before it, or outlines would fray.
            let new = weight(before[neighbour], neighbour, behind[neighbour]).max(least);
            weights[neighbour] = new;
            queue.insert((new, neighbour));
        }
    }
    let kept: BTreeSet<usize> = queue.into_iter().map(|(_, index)| index).collect();
    kept.into_iter().map(|index| points[index]).collect()
}

fn closed(points: &[Point]) -> String {
    path(points) + "z"
}

fn middle(points: &[Point]) -> Point {
    let average = |part: fn(&Point) -> f64| {
        points.iter().map(part).sum::<f64>() / points.iter().map(|_| 1.0).sum::<f64>()
    };
    Point { x: average(|point| point.x), y: average(|point| point.y) }
}

/// A dot for each island that is too small for an outline, where neither land nor another dot is near: who lives there
/// is not to find themselves in the open sea.
fn dots(islands: &[Point], land: &[Point]) -> String {
    let mut drawn: Vec<Point> = Vec::new();
    let far = |a: &Point, b: &Point| (a.x - b.x).hypot(a.y - b.y) >= LEAST_DISTANCE;
    for island in islands {
        if land.iter().chain(&drawn).all(|other| far(island, other)) {
            drawn.push(*island);
        }
    }
    drawn.iter().map(|dot| path(&[*dot]) + "h0").collect()
}

/// Points as whole numbers: the first from the corner of the map, the others from the one before.
fn path(points: &[Point]) -> String {
    let mut text = String::new();
    let mut last: Option<Point> = None;
    for point in points {
        let at = Point { x: point.x.round(), y: point.y.round() };
        match last {
            None => text.push_str(&format!("M{} {}", at.x, at.y)),
            Some(last) if last == at => continue,
            Some(last) => {
                let first_step = !text.contains('l');
                text.push_str(if first_step { "l" } else { "" });
                // Zero has a sign of its own, which nobody wants to read.
                let (x, y) = (at.x - last.x + 0.0, at.y - last.y + 0.0);
                for (number, begins) in [(x, first_step), (y, false)] {
                    text.push_str(if begins || number < 0.0 { "" } else { " " });
                    text.push_str(&number.to_string());
                }
            }
        }
        last = Some(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arcs_are_joined_in_either_direction() {
        let atlas = json!({
            "transform": { "scale": [2, 1], "translate": [-10, 5] },
            "arcs": [[[0, 0], [4, 0], [0, 4]], [[0, 0], [0, 4], [4, 0]]],
            "objects": { "land": { "geometries": [{ "type": "MultiPolygon", "arcs": [[[0, -2]]] }] } },
        });
        let expected = vec![(-10.0, 5.0), (-2.0, 5.0), (-2.0, 9.0), (-10.0, 9.0), (-10.0, 5.0)];
        assert_eq!(rings(&atlas).unwrap(), [expected]);
        assert!(rings(&json!({ "arcs": [] })).is_err());
    }

    #[test]
    fn a_path_is_made_of_short_steps() {
        let at = |x, y| Point { x, y };
        assert_eq!(path(&[at(1.2, 2.0), at(4.0, 2.4), at(4.1, 2.0), at(3.0, 5.0)]), "M1 2l3 0-1 3");
    }

    #[test]
    fn islands_are_dots_where_nothing_is_near() {
        let at = |x, y| Point { x, y };
        assert_eq!(middle(&[at(1.0, 1.0), at(3.0, 3.0)]), at(2.0, 2.0));
        let islands = [at(0.0, 0.0), at(1.0, 1.0), at(50.0, 50.0), at(0.0, 100.0)];
        assert_eq!(dots(&islands, &[at(50.0, 52.0)]), "M0 0h0M0 100h0");
    }

    #[test]
    fn only_corners_that_matter_are_kept() {
        let at = |x, y| Point { x, y };
        let square = [at(0.0, 0.0), at(50.0, 0.01), at(100.0, 0.0), at(100.0, 100.0), at(0.0, 100.0)];
        let kept = simplified(&square);
        assert_eq!(kept, [at(0.0, 0.0), at(100.0, 0.0), at(100.0, 100.0), at(0.0, 100.0)]);
        assert!((area(&kept).abs() - 10_000.0).abs() < 1e-9);
        assert_eq!(simplified(&[at(0.0, 0.0), at(0.1, 0.0), at(0.1, 0.1), at(0.0, 0.1)]).len(), 3);
    }

    #[test]
    fn rings_are_cut_at_the_border() {
        let across = [(170.0, 0.0), (-170.0, 0.0), (-170.0, 10.0), (170.0, 10.0), (170.0, 0.0)];
        let west = vec![(-180.0, 0.0), (-170.0, 0.0), (-170.0, 10.0), (-180.0, 10.0), (-180.0, 0.0)];
        let east = vec![(170.0, 0.0), (180.0, 0.0), (180.0, 10.0), (170.0, 10.0), (170.0, 0.0)];
        assert_eq!(on_the_map(&across), [west, east]);
        let inside = vec![(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 0.0)];
        assert_eq!(on_the_map(&inside), [inside]);
        let around = [(-90.0, -70.0), (0.0, -60.0), (90.0, -70.0), (180.0, -80.0), (-90.0, -70.0)];
        for part in on_the_map(&around) {
            assert!(part.iter().any(|position| position.1 == -90.0), "{part:?}");
            assert!(part.iter().all(|position| position.0.abs() <= 180.0), "{part:?}");
        }
    }

    #[test]
    fn long_edges_bend() {
        assert_eq!(dense(&[(0.0, 0.0), (4.0, 0.0), (4.0, 1.0)]), [(0.0, 0.0), (2.0, 0.0), (4.0, 0.0)]);
    }
}

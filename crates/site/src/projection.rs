//! From a place on the globe to a point of our map: the Equal Earth projection, which shows countries in their true
//! sizes. (Šavrič, Patterson, Jenny: The Equal Earth map projection, 2018.)
//!
//! This file stands for itself: `cargo xtask world-map` draws the map with it, so that a marker is where the map says.

use std::f64::consts::{FRAC_PI_3, PI};

/// How wide the map is, in its own units.
pub(crate) const WIDTH: f64 = 2000.0;
/// How high it is, in the same: as high as the projection makes a globe of that width, rounded up.
pub(crate) const HEIGHT: f64 = 974.0;

/// The polynomial of the projection, as its authors publish it.
const A: [f64; 4] = [1.340_264, -0.081_106, 0.000_893, 0.003_796];

/// A point of the map: to the right and down from its corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// Where degrees north and east are on the map.
pub(crate) fn project(latitude: f64, longitude: f64) -> Point {
    let theta = (f64::sqrt(3.0) / 2.0 * latitude.to_radians().sin()).asin();
    let scale = WIDTH / (2.0 * PI * stretch(0.0));
    let x = longitude.to_radians() * theta.cos() * stretch(theta);
    Point { x: WIDTH / 2.0 + scale * x, y: scale * (rise(FRAC_PI_3) - rise(theta)) }
}

/// How high above the equator the parallel of a parameter is.
fn rise(theta: f64) -> f64 {
    let square = theta * theta;
    let sixth = square * square * square;
    theta * (A[0] + A[1] * square + sixth * (A[2] + A[3] * square))
}

/// How long a parallel is, apart from the cosine.
fn stretch(theta: f64) -> f64 {
    let square = theta * theta;
    let sixth = square * square * square;
    let slope = A[0] + 3.0 * A[1] * square + sixth * (7.0 * A[2] + 9.0 * A[3] * square);
    2.0 * f64::sqrt(3.0) / (3.0 * slope)
}

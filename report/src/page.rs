//! Drawings of a report, and a page of HTML that needs no other file.
//!
//! ```text
//! ┌───────────────┐ ┌───────────────┐   the errors' histogram, and the powers of original, copy and error
//! └───────────────┘ └───────────────┘
//! ┌────────┐ ┌────────┐ ┌────────┐      a plane of the original, of the copy, and their difference, as PNG in the SVG
//! └────────┘ └────────┘ └────────┘
//! ```

use std::fmt::Write as _;

use crate::Report;
use crate::part::BINS;
use crate::summary::number;

/// What drawings are drawn on: SVG, or the pixels of a program that has letters. Places are pixels from the upper left corner.
pub trait Canvas {
    /// A line through points.
    fn line(&mut self, colour: [u8; 3], width: u8, points: &[(f64, f64)]);
    /// Text that begins, ends or has its middle at a place on its base line.
    fn text(&mut self, at: (f64, f64), anchor: Anchor, content: &str);
    /// Pixels as indices into 256 colours, row by row, stretched to a box.
    fn image(&mut self, at: (f64, f64), size: (f64, f64), columns: usize, pixels: &[u8], colours: &[[u8; 3]; 256]);
}

/// Which point of a text is given.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// Width and height of the drawings, in pixels.
pub const DRAWING: (u32, u32) = (920, 640);

/// Stops of the colours of values, from the smallest to the largest, and of errors.
const VALUES: [[u8; 3]; 5] = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const ERRORS: [[u8; 3]; 5] = [[5, 48, 97], [92, 164, 206], [247, 247, 247], [230, 120, 90], [103, 0, 31]];
/// Frames, and what does not count.
const GREY: [u8; 3] = [150, 150, 150];
const BLUE: [u8; 3] = [120, 170, 220];
const RED: [u8; 3] = [178, 24, 43];

/// A diagram with its place in the drawing, and the ranges of its axes.
struct Diagram {
    left: f64,
    top: f64,
    x: [f64; 2],
    y: [f64; 2],
}

/// Pixels of a diagram.
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 220.0;

impl Diagram {
    fn point(&self, x: f64, y: f64) -> (f64, f64) {
        let share = |value: f64, [least, most]: [f64; 2]| (value - least) / (most - least);
        (self.left + WIDTH * share(x, self.x), self.top + HEIGHT * (1.0 - share(y, self.y)))
    }

    /// Frame, title, the name of the x axis, and its ticks.
    fn frame(&self, canvas: &mut dyn Canvas, title: &str, x_name: &str, ticks: &[(f64, String)]) {
        let Self { left, top, x: [least, most], y: [low, high] } = *self;
        canvas.text((left + WIDTH / 2.0, top - 10.0), Anchor::Middle, title);
        canvas.text((left + WIDTH / 2.0, top + HEIGHT + 38.0), Anchor::Middle, x_name);
        self.line(canvas, GREY, 1, &[(least, low), (least, high), (most, high), (most, low), (least, low)]);
        for (x, label) in ticks {
            let (x, y) = self.point(*x, low);
            canvas.line(GREY, 1, &[(x, y), (x, y + 5.0)]);
            canvas.text((x, y + 19.0), Anchor::Middle, label);
        }
    }

    fn line(&self, canvas: &mut dyn Canvas, colour: [u8; 3], width: u8, points: &[(f64, f64)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| self.point(*x, y.clamp(self.y[0], self.y[1]))).collect();
        canvas.line(colour, width, &points);
    }
}

impl Report {
    /// The drawings as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        let (width, height) = DRAWING;
        let mut svg = Svg(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13"><rect width="{width}" height="{height}" fill="white"/>"#
        ));
        self.draw(&mut svg);
        svg.0 + "</svg>"
    }

    /// Draws the errors' histogram, spectra, and a plane of original, copy and error.
    pub fn draw(&self, canvas: &mut dyn Canvas) {
        self.draw_histogram(canvas);
        self.draw_spectrum(canvas);
        let pixels = &self.picture.2;
        let [original, copy] = [0, 1].map(|array| pixels.iter().map(|pixel| pixel[array]).collect::<Vec<f64>>());
        let errors: Vec<f64> = pixels.iter().map(|[before, after]| after - before).collect();
        let (least, most) = extremes(original.iter().chain(&copy));
        let largest = errors.iter().fold(0.0, |largest: f64, error| largest.max(error.abs()));
        self.draw_plane(canvas, 40.0, "a plane of the original", &original, [least, most], VALUES);
        self.draw_plane(canvas, 335.0, "of the copy", &copy, [least, most], VALUES);
        self.draw_plane(canvas, 630.0, "of the error", &errors, [-largest, largest], ERRORS);
    }

    fn draw_histogram(&self, canvas: &mut dyn Canvas) {
        let (width, counts) = &self.histogram;
        let (unit, name) = match self.bound.filter(|bound| *bound > 0.0) {
            Some(bound) => (bound, "error in bounds"),
            None if self.greatest_error > 0.0 => (self.greatest_error, "error as a share of the largest error"),
            None => (1.0, "error: there is none"),
        };
        let side = (self.greatest_error / unit).max(1.0) * 1.05;
        let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let diagram = Diagram { left: 40.0, top: 40.0, x: [-side, side], y: [0.0, 1.05] };
        let ticks = [-1.0, 0.0, 1.0].map(|tick| (tick, format!("{tick}")));
        diagram.frame(canvas, "errors", name, &ticks);
        let edge = |bin: usize| ((bin as f64 - BINS as f64) * width / unit).clamp(-side, side);
        let steps = counts.iter().enumerate();
        let steps = steps.flat_map(|(bin, &count)| [bin, bin + 1].map(|bin| (edge(bin), count as f64 / most)));
        diagram.line(canvas, BLUE, 2, &steps.collect::<Vec<_>>());
        for bound in self.bound.into_iter().flat_map(|_| [-1.0, 1.0]) {
            diagram.line(canvas, RED, 1, &[(bound, 0.0), (bound, 1.05)]);
        }
    }

    fn draw_spectrum(&self, canvas: &mut dyn Canvas) {
        let Some(spectrum) = self.spectrum.as_ref().filter(|spectrum| spectrum.original.len() > 1) else {
            return canvas.text((690.0, 150.0), Anchor::Middle, "no row has a spectrum");
        };
        let arrays = [(&spectrum.original, BLUE, 4), (&spectrum.copy, [0; 3], 1), (&spectrum.error, RED, 1)];
        let (least, most) = extremes(arrays.iter().flat_map(|(powers, ..)| *powers).filter(|power| **power > 0.0));
        let (least, most) = if least.is_finite() { (least.max(most * 1e-20).log10(), most.log10()) } else { (0.0, 1.0) };
        let decades = (spectrum.original.len() as f64).log10();
        let diagram = Diagram { left: 500.0, top: 40.0, x: [0.0, decades], y: [least - 0.5, most + 0.5] };
        let ticks: Vec<_> = (0..=decades as u32).map(|decade| (f64::from(decade), 10u64.pow(decade).to_string())).collect();
        let name = format!("waves in {} values along the fastest axis", spectrum.length);
        diagram.frame(canvas, "power: original (blue), copy (black), error (red)", &name, &ticks);
        let step = ((most - least) / 6.0).ceil().max(1.0) as usize;
        for decade in (least.ceil() as i32..=most.floor() as i32).step_by(step) {
            let (x, y) = diagram.point(0.0, f64::from(decade));
            canvas.text((x - 5.0, y + 4.0), Anchor::End, &format!("1e{decade}"));
        }
        for (powers, colour, width) in arrays {
            let powers = powers.iter().enumerate().filter(|(_, power)| **power > 0.0);
            let points: Vec<_> = powers.map(|(k, power)| ((k as f64 + 1.0).log10(), power.log10())).collect();
            diagram.line(canvas, colour, width, &points);
        }
    }

    fn draw_plane(&self, canvas: &mut dyn Canvas, left: f64, title: &str, values: &[f64], range: [f64; 2], stops: [[u8; 3]; 5]) {
        let ((rows, columns, _), [least, most]) = (&self.picture, range);
        let index = |value: &f64| match (value - least) / (most - least) {
            _ if value.is_nan() => 0,
            share if share.is_nan() => 128,
            share => 1 + (share * 254.0).round() as u8,
        };
        let side = 250.0 / *rows.max(columns) as f64;
        // A single row is drawn as a bar.
        let size = (side * *columns as f64, (side * *rows as f64).max(4.0));
        canvas.text((left, 345.0), Anchor::Start, title);
        canvas.image((left, 355.0), size, *columns, &values.iter().map(index).collect::<Vec<u8>>(), &colours(stops));
        canvas.text((left, 628.0), Anchor::Start, &format!("{} to {}", number(least), number(most)));
    }
}

fn extremes<'a>(values: impl Iterator<Item = &'a f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(*value), most.max(*value)))
}

/// A colour for each index of a pixel: 0 is a gap, 1 to 255 lie on the way along the stops.
fn colours(stops: [[u8; 3]; 5]) -> [[u8; 3]; 256] {
    std::array::from_fn(|index| {
        let way = index.saturating_sub(1) as f64 / 254.0 * 4.0;
        let stop = (way as usize).min(3);
        let mixed = |channel: usize| {
            let [from, to] = [stop, stop + 1].map(|stop| f64::from(stops[stop][channel]));
            (from + (to - from) * (way - stop as f64)).round() as u8
        };
        if index == 0 { GREY } else { [0, 1, 2].map(mixed) }
    })
}

/// A drawing as SVG.
struct Svg(String);

impl Canvas for Svg {
    fn line(&mut self, [red, green, blue]: [u8; 3], width: u8, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let style = format!(r#"fill="none" stroke="rgb({red},{green},{blue})" stroke-width="{width}""#);
        let _ = write!(self.0, r#"<polyline {style} points="{}"/>"#, points.join(" "));
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, content: &str) {
        let anchor = format!("{anchor:?}").to_lowercase();
        let _ = write!(self.0, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#, escaped(content));
    }

    fn image(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        columns: usize,
        pixels: &[u8],
        colours: &[[u8; 3]; 256],
    ) {
        let place = format!(r#"x="{x}" y="{y}" width="{width:.1}" height="{height:.1}" preserveAspectRatio="none""#);
        let _ = write!(self.0, r#"<image {place} href="data:image/png;base64,{}"/>"#, base64(&png(columns, pixels, colours)));
    }
}

fn escaped(content: &str) -> String {
    content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A PNG that is not compressed, of less than 2^16 bytes.
fn png(columns: usize, pixels: &[u8], colours: &[[u8; 3]; 256]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], content: &[u8]| {
        let body = [kind, content].concat();
        file.extend((content.len() as u32).to_be_bytes());
        file.extend(&body);
        file.extend(crc32fast::hash(&body).to_be_bytes());
    };
    let sides = [columns, pixels.len() / columns].map(|side| (side as u32).to_be_bytes()).concat();
    // Eight bits, indices into a palette; no options.
    chunk(b"IHDR", &[&sides[..], &[8, 3, 0, 0, 0]].concat());
    chunk(b"PLTE", colours.as_flattened());
    // A row begins with the number of its filter: none. One block of DEFLATE without compression holds all rows.
    let rows: Vec<u8> = pixels.chunks(columns).flat_map(|row| std::iter::once(0).chain(row.iter().copied())).collect();
    let length = rows.len() as u16;
    // The sums of Adler-32.
    let (low, high) = rows.iter().fold((1u32, 0u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    let header = [&[0x78, 1, 1][..], &length.to_le_bytes(), &(!length).to_le_bytes()].concat();
    chunk(b"IDAT", &[&header[..], &rows, &(high << 16 | low).to_be_bytes()].concat());
    chunk(b"IEND", &[]);
    file
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(three.get(at).copied().unwrap_or(0)));
        let digit = |at: usize| if at <= three.len() { char::from(DIGITS[bits >> (18 - 6 * at) & 63]) } else { '=' };
        text.extend((0..4).map(digit));
    }
    text
}

/// A page of HTML that shows reports, each with its name. It needs no other file.
#[must_use]
pub fn html(heading: &str, reports: &[(String, &Report)]) -> String {
    let style = "body{font:15px sans-serif;max-width:940px;margin:2em auto}td{padding:2px 14px 2px 0;vertical-align:top}.poor{color:#b2182b}";
    let heading = escaped(heading);
    let mut page = format!(
        r#"<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{heading}</title><style>{style}</style><h1>{heading}</h1>"#
    );
    for (name, report) in reports {
        let shape: Vec<String> = report.shape.iter().map(usize::to_string).collect();
        let _ = write!(page, "<h2>{}</h2><p>{} values</p><table>", escaped(name), shape.join(" x "));
        for (name, value) in report.lines() {
            let _ = write!(page, "<tr><td>{name}<td>{}", escaped(&value));
        }
        page.push_str("</table><h3>Thresholds</h3><ul>");
        for check in &report.checks {
            let class = if check.is_kept { "good" } else { "poor" };
            let _ = write!(page, r#"<li class="{class}">{}"#, escaped(&check.to_string()));
        }
        let _ = write!(page, "</ul>{}", report.svg());
    }
    page + concat!("<p>Made by H5Z-Quire ", env!("CARGO_PKG_VERSION"), "</p></html>")
}

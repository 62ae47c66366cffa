//! Drawings as PNG, with letters that need no font of the system.

use std::convert::Infallible;

use anyhow::Result;
use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_1::FONT_10X20;
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::{
    DrawTarget, Drawable as _, OriginDimensions, Pixel, Point, Primitive as _, RgbColor as _, Size,
};
use embedded_graphics::primitives::{Polyline, PrimitiveStyle};
use embedded_graphics::text::{Alignment, Text};
use quire_report::{Anchor, Canvas, DRAWING, Report};

/// Pixels of the picture for one of the drawing, along each axis.
const SCALE: u32 = 2;
const WIDTH: u32 = SCALE * DRAWING.0;
const HEIGHT: u32 = SCALE * DRAWING.1;

/// A picture, row by row.
struct Pixels(Vec<[u8; 3]>);

/// The drawings of a report.
///
/// # Errors
/// The encoder's.
pub(super) fn png(report: &Report) -> Result<Vec<u8>> {
    let mut pixels = Pixels(vec![[u8::MAX; 3]; (WIDTH * HEIGHT) as usize]);
    report.draw(&mut pixels);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, WIDTH, HEIGHT);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(pixels.0.as_flattened())?;
    Ok(file)
}

impl OriginDimensions for Pixels {
    fn size(&self) -> Size {
        Size::new(WIDTH, HEIGHT)
    }
}

impl DrawTarget for Pixels {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, drawn: I) -> Result<(), Infallible> {
        for Pixel(Point { x, y }, colour) in drawn {
            if (0..WIDTH as i32).contains(&x) && (0..HEIGHT as i32).contains(&y) {
                self.0[(y as u32 * WIDTH + x as u32) as usize] = [colour.r(), colour.g(), colour.b()];
            }
        }
        Ok(())
    }
}

fn point((x, y): (f64, f64)) -> Point {
    let [x, y] = [x, y].map(|side| (side * f64::from(SCALE)).round() as i32);
    Point::new(x, y)
}

impl Canvas for Pixels {
    fn line(&mut self, [red, green, blue]: [u8; 3], width: u8, points: &[(f64, f64)]) {
        let points: Vec<Point> = points.iter().copied().map(point).collect();
        let style = PrimitiveStyle::with_stroke(Rgb888::new(red, green, blue), SCALE * u32::from(width));
        let Ok(()) = Polyline::new(&points).into_styled(style).draw(self);
    }

    fn text(&mut self, at: (f64, f64), anchor: Anchor, content: &str) {
        let alignment = match anchor {
            Anchor::Start => Alignment::Left,
            Anchor::Middle => Alignment::Center,
            Anchor::End => Alignment::Right,
        };
        let style = MonoTextStyle::new(&FONT_10X20, Rgb888::BLACK);
        let Ok(_) = Text::with_alignment(content, point(at), style, alignment).draw(self);
    }

    fn image(&mut self, at: (f64, f64), size: (f64, f64), columns: usize, pixels: &[u8], colours: &[[u8; 3]; 256]) {
        let (Point { x: left, y: top }, Point { x: width, y: height }) = (point(at), point(size));
        let rows = pixels.len() / columns;
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let pixel = y as usize * rows / height as usize * columns + x as usize * columns / width as usize;
            self.0[((top + y) as u32 * WIDTH + (left + x) as u32) as usize] = colours[usize::from(pixels[pixel])];
        }
    }
}

"""Looks up every link and picture of the site: `links.py FOLDER`. rustdoc has looked up the links of its own pages."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The names of a page's places, and what the page leads to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places, self.links = {""}, []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.places.update(value for key, value in attributes if key == "id")
        self.links += [value for key, value in attributes if (tag, key) in (("a", "href"), ("link", "href"), ("img", "src"), ("script", "src"))]


site = Path(sys.argv[1]).resolve()
pages = {path: Page(path) for path in site.rglob("*.html") if site / "rust" not in path.parents}
broken, links = [], 0
for path, page in pages.items():
    for link in map(urlsplit, page.links):
        if link.scheme:
            continue
        links += 1
        target = (path.parent / unquote(link.path)).resolve() if link.path else path
        if not target.is_file() or (target in pages and unquote(link.fragment) not in pages[target].places):
            broken.append(f"{path.relative_to(site)}: {link.geturl()} leads nowhere")
print(f"{len(pages)} pages, {links} links")
sys.exit("\n".join(broken) or None)

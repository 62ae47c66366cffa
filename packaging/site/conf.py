"""Sphinx's configuration of the site: the repository's documents where they lie, and Python's docstrings. packaging/site.sh builds it."""

from pathlib import Path

from h5z_quire import __version__
from sphinx.application import Sphinx

project = "H5Z-Quire"
html_title = f"{project} {__version__}"
html_theme = "furo"
html_static_path, html_css_files = ["site.css"], ["site.css"]
html_copy_source = False
html_show_copyright = False
smartquotes = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# The source folder is the repository. Sphinx warns of a document that no table of contents has.
root_doc = "README"
include_patterns = ["*.md", "**/*.md", "packaging/site/*.rst"]
exclude_patterns = [".*", "**/.*", "target", "build", "**/target", "**/build", "**/dist", "**/node_modules", "packaging/site/contents.rst"]
# Headings have the anchors that they have on a forge.
myst_heading_anchors = 6

# Docstrings say the types. Modules for other libraries are read without these libraries.
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_mock_imports = ["distributed", "h5py", "numcodecs", "tables", "torch", "xarray", "zarr"]
# `Quire` in a docstring is a link. A name of this package must be on the page; other names need not lead anywhere.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!h5z_quire\.).*")]


def add_contents(_: Sphinx, document: str, text: list[str]) -> None:
    """The start page is README with the site's table of contents."""
    if document == root_doc:
        contents = Path(__file__).with_name("contents.rst").read_text()
        text[0] += f"\n```{{eval-rst}}\n{contents}```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_contents)

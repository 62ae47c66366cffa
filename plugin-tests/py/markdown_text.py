"""What the lint of documents knows of Markdown: fences, headings, links, code spans, sentences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, NamedTuple

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\((?P<target>[^()\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")
_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) +")
_WORD = re.compile(r"\w")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[*)\"]*\s+")
# A point in them ends no sentence.
_ABBREVIATIONS = ("e.g.", "i.e.", "et al.")


class Fence(NamedTuple):
    """A block of code."""

    line: int  # of its first ```
    section: str  # the heading of the second level above it
    language: str
    mark: str  # what follows the language: "no-run: reason", "package", or nothing
    lines: list[str]


class Document:
    """A Markdown file, read once, and the name by which messages call it."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.fences: list[Fence] = []
        #: Lines outside of fences, with their numbers from 1.
        self.prose: list[tuple[int, str]] = []
        #: Lines of fences that nothing closes.
        self.open_fences: list[int] = []
        self._split()

    def _split(self) -> None:
        fence: Fence | None = None
        indent = section = ""
        for number, line in enumerate(self.lines, 1):
            found = _FENCE.match(line)
            if found and fence is None:
                language, _, mark = found["info"].strip().partition(" ")
                fence, indent = Fence(number, section, language, mark.strip(), []), found["indent"]
            elif found and fence is not None:
                self.fences.append(fence)
                fence = None
            elif fence is not None:
                fence.lines.append(line.removeprefix(indent))
            else:
                self.prose.append((number, line))
                section = line if line.startswith("## ") else section
        if fence is not None:
            self.open_fences.append(fence.line)

    def anchors(self) -> set[str]:
        """The names that GitHub gives to headings."""
        names: set[str] = set()
        for _, line in self.prose:
            if not re.match(r"#+ ", line):
                continue
            text = _LINK.sub(lambda found: found[0].partition("](")[0].lstrip("["), line.lstrip("#").strip()).replace("`", "").lower()
            name = base = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            count = 0
            while name in names:
                count += 1
                name = f"{base}-{count}"
            names.add(name)
        return names

    def links(self) -> Iterator[tuple[int, str]]:
        """The targets of links and pictures, with their lines."""
        for number, line in self.prose:
            for found in _LINK.finditer(_CODE.sub("", line) if line.count("`") % 2 == 0 and "[`" not in line else line):
                yield number, found["target"]

    def code_spans(self) -> Iterator[tuple[int, str]]:
        """Texts between backticks, each with its line."""
        for number, line in self.prose:
            for found in _CODE.finditer(line):
                yield number, found[1]

    def sentences(self) -> Iterator[tuple[int, str]]:
        """Sentences of paragraphs, items and cells of tables, each with the line on which its paragraph begins."""
        for number, paragraph in self._paragraphs():
            for sentence in _SENTENCE_END.split(paragraph):
                yield number, sentence

    def _paragraphs(self) -> Iterator[tuple[int, str]]:
        """Paragraphs, items and cells as a line each, a code span being one word."""
        begun, parts = 0, []
        for number, line in [*self.prose, (len(self.lines) + 1, "")]:
            alone = not line.strip() or line.startswith(("#", "|")) or _ITEM.match(line) is not None
            # A fence lies between lines that do not follow each other.
            if parts and (alone or number != begun + len(parts)):
                yield begun, " ".join(parts)
                parts = []
            if line.startswith("|"):
                for cell in _without_code(line).replace("\\|", "/").strip("|").split("|"):
                    yield number, cell.strip()
            elif line.strip() and not line.startswith("#"):
                if not parts:
                    begun = number
                parts.append(_without_code(_ITEM.sub("", line).strip()))


def _without_code(text: str) -> str:
    for abbreviation in _ABBREVIATIONS:
        text = text.replace(abbreviation, abbreviation.replace(".", ""))
    return _CODE.sub("code", text)


def python_block(path: Path, function: str) -> str:
    """The block of Python that defines a function."""
    texts = ("\n".join(fence.lines) for fence in Document(path, path.name).fences if fence.language == "python")
    (block,) = [text for text in texts if f"def {function}(" in text]
    return block


def words(sentence: str) -> int:
    """The words of a sentence: what holds a letter or a digit."""
    return sum(1 for word in sentence.split() if _WORD.search(word))
